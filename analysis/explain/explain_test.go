package explain_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/tools/txtar"

	"espalier.dev/analysis/explain"
	"espalier.dev/analysis/internal/analysistest"
	"espalier.dev/crd"
	"espalier.dev/crd/cel"
	"espalier.dev/internal/testcase"
	"espalier.dev/schema"
)

func define(t *testing.T, text string, sem schema.Semantics) *crd.Definition {
	t.Helper()
	return analysistest.Define(t, text, crd.Options{Semantics: sem, Rules: cel.Checker{}})
}

// TestUnknownFields checks the descriptions of unknown fields: it adds an unknown field
// everywhere, which must be preserved or pruned as described.
func TestUnknownFields(t *testing.T) {
	archive, err := txtar.ParseFile("testdata/describe.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, sem := range []schema.Semantics{schema.KEP, schema.Kubernetes} {
		checked := 0
		check := func(v *crd.Version) {
			doc, err := explain.Describe(v, "spec", explain.Options{Recursive: true})
			if err != nil {
				return
			}
			p, err := v.Program()
			if err != nil {
				return
			}
			probe(t, p, doc.Field, func(value any) map[string]any { return map[string]any{"spec": value} }, &checked)
		}
		check(define(t, testcase.Section(archive, "crd.yaml"), sem).Version("v1"))
		own := checked
		for i, file := range corpusFiles(t) {
			if testing.Short() && i%4 > 0 {
				continue
			}
			d := define(t, readFile(t, file), sem)
			check(d.Versions()[0])
		}
		t.Logf("%s: %d places, %d of them of the corpus", sem, checked, checked-own)
	}
}

// probe adds an unknown field to the value of f, which wrap puts into an object.
func probe(t *testing.T, p *schema.Program, f *explain.Field, wrap func(any) map[string]any, checked *int) {
	if f.UnknownFields != nil && (f.Type == "Object" || f.Type == "any") {
		*checked++
		value := map[string]any{"zzUnknown": "x"}
		if f.Embedded {
			value["apiVersion"], value["kind"] = "v1", "X"
		}
		obj := wrap(value)
		obj["apiVersion"], obj["kind"] = "example.com/v1", "Thing"
		if _, err := p.Normalize(obj, schema.DecodeOptions{FromStorage: true}); err != nil {
			t.Fatalf("%s: %v", f.Path, err)
		}
		if _, kept := value["zzUnknown"]; kept != f.UnknownFields.Preserved {
			t.Errorf("%s in %s: kept is %v, but it is said to be %v", f.Path, f.UnknownFields.Semantics, kept, f.UnknownFields.Preserved)
		}
	}
	for _, child := range f.Fields {
		if f.Embedded && child.Name == "metadata" {
			continue
		}
		probe(t, p, child, func(v any) map[string]any { return wrap(map[string]any{child.Name: v}) }, checked)
	}
	if f.Items != nil {
		probe(t, p, f.Items, func(v any) map[string]any { return wrap([]any{v}) }, checked)
	}
	if f.Values != nil {
		probe(t, p, f.Values, func(v any) map[string]any { return wrap(map[string]any{"key": v}) }, checked)
	}
}

// TestCorpus explains CRDs of the corpus.
func TestCorpus(t *testing.T) {
	files := corpusFiles(t)
	if len(files) == 0 {
		t.Skip("no corpus: set ESPALIER_CORPUS to its directory")
	}
	versions := 0
	for i, file := range files {
		if testing.Short() && i%4 > 0 {
			continue
		}
		d := define(t, readFile(t, file), schema.Kubernetes)
		for _, v := range d.Versions() {
			versions++
			doc, err := explain.Describe(v, "", explain.Options{Recursive: true})
			if err != nil {
				t.Fatalf("%s %s: %v", file, v.Name(), err)
			}
			var short, tree bytes.Buffer
			if err := doc.WriteText(&tree, explain.TextOptions{Recursive: true}); err != nil {
				t.Fatal(err)
			}
			if err := doc.WriteText(&short, explain.TextOptions{}); err != nil {
				t.Fatal(err)
			}
			if _, err := json.Marshal(doc); err != nil {
				t.Fatalf("%s %s: %v", file, v.Name(), err)
			}
		}
	}
	t.Logf("%d versions", versions)
}

func corpusFiles(t testing.TB) []string {
	t.Helper()
	root := testcase.Corpus(t)
	files, _ := filepath.Glob(filepath.Join(root, "v1*", "*", "*.yaml"))
	return testcase.Part(files)
}

func readFile(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
