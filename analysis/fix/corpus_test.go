package fix

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"sort"
	"strings"
	"sync"
	"testing"

	kruntime "k8s.io/apimachinery/pkg/runtime"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"espalier.dev/analysis"
	"espalier.dev/api"
	"espalier.dev/api/codec"
	"espalier.dev/crd"
	"espalier.dev/schema"
)

// corpus returns the directory of the corpus, or skips the test.
func corpus(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("ESPALIER_CORPUS")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared", "corpus")
	}
	if _, err := os.Stat(filepath.Join(dir, "v1beta1")); err != nil {
		t.Skipf("no corpus: %v (set ESPALIER_CORPUS to the directory that holds it)", err)
	}
	return dir
}

// readJSON reads a YAML file as JSON.
func readJSON(t testing.TB, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data, err := yaml.YAMLToJSON(text)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return data
}

// forEachCRD calls visit for each definition of the corpus, on all processors.
func forEachCRD(t *testing.T, visit func(name string, raw []byte)) int {
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
	var wg sync.WaitGroup
	next := make(chan string)
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for file := range next {
				name, _ := filepath.Rel(dir, file)
				visit(name, readJSON(t, file))
			}
		})
	}
	for _, f := range files {
		next <- f
	}
	close(next)
	wg.Wait()
	return len(files)
}

func TestCorpus(t *testing.T) {
	t.Run("K-07", func(t *testing.T) {
		objects := corpusObjects(t)
		var mu sync.Mutex
		counts := map[string]int{}
		count := func(what string, n int) {
			mu.Lock()
			counts[what] += n
			mu.Unlock()
		}
		n := forEachCRD(t, func(name string, raw []byte) {
			for _, prune := range []bool{false, true} {
				if prune && !strings.HasPrefix(name, "v1beta1") {
					continue
				}
				result, err := Definition(context.Background(), raw, Options{Prune: prune})
				if err != nil {
					t.Errorf("%s: %v", name, err)
					return
				}
				if prune {
					checkPruning(t, name, raw, result, objects[name], count)
					continue
				}
				checkResult(t, name, raw, result, count)
				checkObjects(t, name, raw, result, objects[name], count)
			}
		})
		var lines []string
		for what, n := range counts {
			lines = append(lines, fmt.Sprintf("%6d %s", n, what))
		}
		sort.Strings(lines)
		t.Logf("%d definitions\n%s", n, strings.Join(lines, "\n"))
	})
}

func checkResult(t *testing.T, name string, raw []byte, result *Result, count func(string, int)) {
	t.Helper()
	crd, err := codec.Decode(result.JSON)
	if err != nil {
		t.Errorf("%s: the result cannot be read: %v", name, err)
		return
	}
	if crd.APIVersion != "" && crd.APIVersion != api.APIVersion {
		t.Errorf("%s: the result is %s", name, crd.APIVersion)
	}
	if len(result.Edits) > 0 {
		count("changed", 1)
	}
	again, err := Definition(context.Background(), result.JSON, Options{})
	if err != nil || len(again.Edits) > 0 {
		t.Errorf("%s: fixing again: %v, %v", name, err, again.Edits)
	}
	left := map[string]bool{}
	for _, f := range result.Notes {
		count("note "+string(f.Severity)+" "+f.Rule, 1)
		if f.Severity != analysis.Info {
			left[f.Rule] = true
		}
		if f.Severity == analysis.Error {
			count("error "+f.Message, 1)
		}
	}
	for rule := range left {
		count("definitions with "+rule, 1)
	}
	// The edits make the new document of the old one.
	e := &editor{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &e.tree); err != nil {
		t.Fatal(err)
	}
	for _, edit := range result.Edits {
		if err := e.do(edit); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := marshal(t, e.tree); string(got) != string(result.JSON) {
		t.Errorf("%s: the edits make\n%s\nnot\n%s", name, got, result.JSON)
	}
}

// corpusObjects returns the objects of each definition.
func corpusObjects(t *testing.T) map[string][]map[string]any {
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

// definition compiles a definition, however wrong it is.
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

// checkObjects shows that the new definition accepts what the old one accepts, and keeps
// all of it.
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
		count(kind+" accepted", 1)
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
			check("objects", obj, old, new)
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

// admit is what becomes of an object that is created.
func admit(v *crd.Version, obj map[string]any) (map[string]any, bool) {
	p, err := v.Program()
	if err != nil {
		return nil, false
	}
	obj = kruntime.DeepCopyJSON(obj)
	if _, err := p.Normalize(obj, schema.DecodeOptions{}); err != nil {
		return nil, false
	}
	violations, err := v.Validate(context.Background(), obj, nil)
	return obj, err == nil && len(violations) == 0
}

// checkPruning shows that a definition which begins to prune keeps what was specified.
func checkPruning(t *testing.T, name string, raw []byte, result *Result, objects []map[string]any, count func(string, int)) {
	t.Helper()
	before, after := definition(t, name, raw), definition(t, name, result.JSON)
	if before == nil || after == nil || !before.PreservesUnknownFields() {
		return
	}
	for _, obj := range objects {
		apiVersion, _ := obj["apiVersion"].(string)
		_, version, _ := strings.Cut(apiVersion, "/")
		old, new := before.Version(version), after.Version(version)
		if old == nil || new == nil || old.Spec().Schema == nil || old.Spec().Schema.OpenAPIV3Schema == nil {
			continue
		}
		if _, ok := admit(old, obj); !ok {
			continue
		}
		skeleton := schema.Skeleton(old.Spec().Schema.OpenAPIV3Schema)
		got, _ := admit(new, obj)
		if lost := missing(pruneBySkeleton(kruntime.DeepCopyJSONValue(obj), skeleton), got); lost != "" {
			t.Errorf("%s: an object lost %s: %s", name, lost, marshal(t, obj))
		}
		count("objects pruned", 1)
	}
}
