package fix

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"

	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"espalier.dev/analysis"
	"espalier.dev/analysis/impact"
	"espalier.dev/analysis/lint"
	"espalier.dev/api/codec"
	"espalier.dev/crd"
	"espalier.dev/crd/cel"
	"espalier.dev/internal/jsonx"
	"espalier.dev/internal/testcase"
	"espalier.dev/internal/yamledit"
	"espalier.dev/internal/yamlx"
	"espalier.dev/schema"
)

// corpus returns the directory of the corpus, or skips the test.
func corpus(t *testing.T) string {
	t.Helper()
	dir := testcase.Corpus(t)
	if _, err := os.Stat(filepath.Join(dir, "v1beta1")); err != nil {
		t.Skipf("no corpus at %s; set ESPALIER_CORPUS to where it is", dir)
	}
	return dir
}

// crdFiles returns the CRDs of the corpus, or of a part of it: one of the given number.
func crdFiles(t *testing.T, every int) (names []string) {
	t.Helper()
	dir := corpus(t)
	var files []string
	for _, version := range []string{"v1", "v1beta1"} {
		found, err := filepath.Glob(filepath.Join(dir, version, "*", "*.yaml"))
		if err != nil || len(found) == 0 {
			t.Fatalf("no definitions in %s: %v", version, err)
		}
		files = append(files, found...)
	}
	for i, f := range testcase.Part(files) {
		if name, err := filepath.Rel(dir, f); i%every == 0 && err == nil {
			names = append(names, name)
		}
	}
	return names
}

// forEachCRD calls visit concurrently for each of some CRDs of the corpus.
func forEachCRD(t *testing.T, names []string, visit func(name string, text []byte)) {
	t.Helper()
	dir := corpus(t)
	var wg sync.WaitGroup
	next := make(chan string)
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for name := range next {
				text, err := os.ReadFile(filepath.Join(dir, name))
				if err != nil {
					t.Error(err)
					continue
				}
				visit(name, text)
			}
		})
	}
	for _, name := range names {
		next <- name
	}
	close(next)
	wg.Wait()
}

// unlinted disables the fixes of package lint, which have their own tests and take time.
func unlinted(o Options) Options {
	o.Configs = []lint.Config{{Disable: []string{lint.All}}}
	return o
}

// TestCorpus fixes every CRD of the corpus.
func TestCorpus(t *testing.T) {
	t.Run("K-07", func(t *testing.T) {
		var mu sync.Mutex
		counts := map[string]int{}
		count := func(what string, n int) {
			mu.Lock()
			counts[what] += n
			mu.Unlock()
		}
		every := 1
		if testing.Short() {
			every = 4
		}
		names := crdFiles(t, every)
		objects := corpusObjects(t, names)
		forEachCRD(t, names, func(name string, text []byte) {
			doc, err := yamlx.Parse(text)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				return
			}
			raw, err := doc.JSON()
			if err != nil {
				t.Errorf("%s: %v", name, err)
				return
			}
			result, err := Definition(context.Background(), raw, Options{Rules: cel.Checker{}})
			if err != nil {
				t.Errorf("%s: %v", name, err)
				return
			}
			count("definitions", 1)
			checkResult(t, name, result, count)
			if len(result.Edits) > 0 {
				count("definitions that are changed", 1)
				checkText(t, name, doc, result, count)
				checkObjects(t, name, raw, result, objects[name], count)
				checkVerdicts(t, name, raw, result, count)
			}
			if strings.HasPrefix(name, "v1beta1") {
				pruning, err := Definition(context.Background(), raw, unlinted(Options{Rules: cel.Checker{}, Prune: true}))
				if err != nil {
					t.Errorf("%s: %v", name, err)
					return
				}
				checkPruning(t, name, raw, pruning, objects[name], count)
			}
		})
		if !testcase.WholeCorpus() {
			return
		}
		var lines []string
		for what, n := range counts {
			lines = append(lines, fmt.Sprintf("%s: %d", what, n))
		}
		sort.Strings(lines)
		got := strings.Join(lines, "\n") + "\n"
		testcase.Golden(t, filepath.Join("testdata", "corpus.txt"), got, *update)
	})
}

var update = flag.Bool("update", false, "rewrite the expected output in testdata")

// checkResult checks the new CRD, and counts the remaining findings.
func checkResult(t *testing.T, name string, result *Result, count func(string, int)) {
	t.Helper()
	if _, err := codec.Decode(result.JSON); err != nil {
		t.Errorf("%s: the result cannot be read: %v", name, err)
		return
	}
	if len(result.Edits) > 0 {
		again, err := Definition(context.Background(), result.JSON, unlinted(Options{Rules: cel.Checker{}}))
		if err != nil || len(again.Edits) > 0 || len(again.Notes) > 0 {
			t.Errorf("%s: fixing again: %v, %v, %v", name, err, again.Edits, again.Notes)
		}
	}
	kinds := map[string]bool{}
	for _, f := range result.Notes {
		kind := string(f.Severity) + " " + f.Rule
		if f.Severity == analysis.Error {
			kind += " (" + reason(f.Message) + ")"
		}
		kinds[kind] = true
	}
	for kind := range kinds {
		count("definitions with "+kind, 1)
	}
	if result.Left() {
		count("definitions with something left for a person", 1)
	}
}

// reason returns the text of an error without the value.
func reason(message string) string {
	for _, known := range []string{
		"must have a default or be a required property",
		"protected groups must have approval annotation",
		"name part must",
	} {
		if strings.Contains(message, known) {
			return known
		}
	}
	return message
}

// checkText applies the edits to the text. The result must equal the new CRD and keep all
// comments.
func checkText(t *testing.T, name string, doc *yamlx.Document, result *Result, count func(string, int)) {
	t.Helper()
	text, err := yamledit.Apply(doc, result.Edits...)
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	fixed, err := yaml.YAMLToJSON(text)
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	var got, want any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(fixed, &got); err != nil {
		t.Errorf("%s: %v", name, err)
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(result.JSON, &want); err != nil {
		t.Errorf("%s: %v", name, err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: the edits make another definition of the text", name)
	}
	for line := range strings.Lines(string(doc.Source())) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "#") {
			count("comments that stay", 1)
			if !bytes.Contains(text, []byte(line)) {
				t.Errorf("%s: lost the comment %s", name, line)
			}
		}
	}
}

// corpusObjects returns the objects of each of some CRDs.
func corpusObjects(t *testing.T, names []string) map[string][]map[string]any {
	t.Helper()
	dir := corpus(t)
	f, err := os.Open(filepath.Join(dir, "CR_INDEX.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := csv.NewReader(f)
	r.Comma, r.LazyQuotes = '\t', true
	rows, err := r.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]map[string]any{}
	for _, row := range rows[1:] {
		if !slices.Contains(names, filepath.FromSlash(row[1])) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, row[0]))
		if err != nil {
			t.Fatal(err)
		}
		data, err := yaml.YAMLToJSON(text)
		if err != nil {
			continue
		}
		var obj map[string]any
		if kjson.UnmarshalCaseSensitivePreserveInts(data, &obj) == nil {
			out[row[1]] = append(out[row[1]], obj)
		}
	}
	return out
}

// definition compiles a CRD, even an invalid one.
func definition(t *testing.T, name string, raw []byte) *crd.Definition {
	t.Helper()
	c, err := codec.Decode(raw)
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return nil
	}
	d, err := crd.New(c, crd.Options{IgnoreRules: true})
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return nil
	}
	return d
}

// checkObjects checks that the new CRD accepts the objects that the old one accepts, and
// keeps all of their fields.
func checkObjects(t *testing.T, name string, raw []byte, result *Result, objects []map[string]any, count func(string, int)) {
	t.Helper()
	before, after := definition(t, name, raw), definition(t, name, result.JSON)
	if before == nil || after == nil {
		return
	}
	check := func(kind string, obj map[string]any, old, new *crd.Version) {
		want, ok := admit(old, obj)
		if !ok {
			return
		}
		count(kind+" that are still accepted, and whole", 1)
		got, ok := admit(new, obj)
		if !ok {
			t.Errorf("%s: an object is no longer accepted: %s", name, marshal(t, obj))
		} else if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: an object is no longer\n%s\nbut\n%s", name, marshal(t, want), marshal(t, got))
		}
	}
	for _, obj := range objects {
		apiVersion, _ := obj["apiVersion"].(string)
		_, version, _ := strings.Cut(apiVersion, "/")
		if old, new := before.Version(version), after.Version(version); old != nil && new != nil {
			check("objects", inNamespace(before, obj), old, new)
		}
	}
	if !strings.HasPrefix(name, "v1beta1") {
		return
	}
	r := newRandom(name)
	for _, old := range before.Versions() {
		new := after.Version(old.Name())
		if old.Spec().Schema == nil || old.Spec().Schema.OpenAPIV3Schema == nil {
			continue
		}
		var s node
		data, err := json.Marshal(old.Spec().Schema.OpenAPIV3Schema)
		if err != nil {
			t.Fatal(err)
		}
		if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &s); err != nil {
			t.Fatal(err)
		}
		for range 20 {
			obj, ok := r.of(s, 6).(map[string]any)
			if !ok {
				continue
			}
			obj["apiVersion"] = old.GroupVersionKind().GroupVersion().String()
			obj["kind"] = old.GroupVersionKind().Kind
			obj["metadata"] = map[string]any{"name": "a", "namespace": "b"}
			if !before.Namespaced() {
				obj["metadata"] = map[string]any{"name": "a"}
			}
			check("generated objects", obj, old, new)
		}
	}
}

// checkVerdicts checks that package impact agrees: no object loses data or becomes invalid.
func checkVerdicts(t *testing.T, name string, raw []byte, result *Result, count func(string, int)) {
	t.Helper()
	before, err := codec.DecodeLenient(raw)
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	after, err := codec.Decode(result.JSON)
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	for _, sem := range []schema.Semantics{schema.KEP, schema.Kubernetes} {
		c, err := impact.Compare(context.Background(), before, after, impact.Options{Semantics: sem, Rules: cel.Checker{}})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		count("definitions of which no object loses data or becomes invalid, in "+sem.String()+" semantics", 1)
		for i := range c.Changes {
			if ch := &c.Changes[i]; ch.Class().Severity() == analysis.Error {
				t.Errorf("%s: %s: %s: %s: %s", name, sem, ch.Place(), ch.Class(), ch.Message)
			}
		}
	}
}

// inNamespace returns the object with or without a namespace, as its CRD requires.
func inNamespace(d *crd.Definition, obj map[string]any) map[string]any {
	obj = jsonx.CopyObject(obj)
	metadata, ok := obj["metadata"].(map[string]any)
	switch {
	case !ok:
	case !d.Namespaced():
		delete(metadata, "namespace")
	case metadata["namespace"] == nil:
		metadata["namespace"] = "default"
	}
	return obj
}

// admit returns the result of creating an object.
func admit(v *crd.Version, obj map[string]any) (map[string]any, bool) {
	p, err := v.Program()
	if err != nil {
		return nil, false
	}
	obj = jsonx.CopyObject(obj)
	if _, err := p.Normalize(obj, schema.DecodeOptions{}); err != nil {
		return nil, false
	}
	violations, err := v.Validate(context.Background(), obj, nil)
	return obj, err == nil && len(violations) == 0
}

// checkPruning checks that a CRD with pruning enabled keeps the specified fields.
func checkPruning(t *testing.T, name string, raw []byte, result *Result, objects []map[string]any, count func(string, int)) {
	t.Helper()
	before, after := definition(t, name, raw), definition(t, name, result.JSON)
	if before == nil || after == nil || !before.PreservesUnknownFields() {
		return
	}
	for _, obj := range objects {
		apiVersion, _ := obj["apiVersion"].(string)
		_, version, _ := strings.Cut(apiVersion, "/")
		obj = inNamespace(before, obj)
		old, new := before.Version(version), after.Version(version)
		if old == nil || new == nil || old.Spec().Schema == nil || old.Spec().Schema.OpenAPIV3Schema == nil {
			continue
		}
		if _, ok := admit(old, obj); !ok {
			continue
		}
		skeleton := schema.Skeleton(old.Spec().Schema.OpenAPIV3Schema)
		got, _ := admit(new, obj)
		if lost := missing(pruneBySkeleton(jsonx.Copy(obj), skeleton), got); lost != "" {
			t.Errorf("%s: an object lost %s: %s", name, lost, marshal(t, obj))
		}
		count("objects that are pruned with --prune, and keep what is specified", 1)
	}
}
