package generate

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"sigs.k8s.io/yaml"

	"espalier.dev/analysis/generate"
	"espalier.dev/api/codec"
	"espalier.dev/crd"
	"espalier.dev/internal/testcase"
	"espalier.dev/schema"
)

// corpusDir returns the directory of the corpus, or skips the test.
func corpusDir(t testing.TB) string {
	t.Helper()
	return testcase.Corpus(t)
}

// corpus returns the packages of the v1 CRDs of the corpus, or of one in nine of the CRDs, by
// file.
func corpus(t testing.TB) map[string][]*generate.Package {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(corpusDir(t), "v1", "*", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]*generate.Package{}
	for _, file := range testcase.Part(files) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all[file] = packages(t, text)
	}
	return all
}

// packages returns the packages of a CRD in YAML.
func packages(t testing.TB, text []byte) []*generate.Package {
	t.Helper()
	document, err := yaml.YAMLToJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	hub, err := codec.DecodeLenient(document)
	if err != nil {
		t.Fatal(err)
	}
	crd.PrepareCreate(hub)
	d, err := crd.New(hub, crd.Options{Semantics: schema.KEP, IgnoreRules: true})
	if err != nil {
		t.Fatal(err)
	}
	all, _ := generate.Build([]generate.Input{{Definition: d, Document: document}})
	return all
}

// quoteJSON returns a string as JSON.
func quoteJSON(t testing.TB, s string) string {
	t.Helper()
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
