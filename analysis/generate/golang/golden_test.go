package golang_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
	"sigs.k8s.io/yaml"

	"espalier.dev/analysis/generate"
	"espalier.dev/analysis/generate/golang"
	"espalier.dev/api/codec"
	"espalier.dev/crd"
	"espalier.dev/internal/testcase"
	"espalier.dev/schema"
)

var update = flag.Bool("update", false, "rewrite the expected results in testdata")

// inputs returns the CRDs in a file.
func inputs(t *testing.T, file string) (all []generate.Input) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		source, err := yaml.YAMLToJSON([]byte(document))
		if err != nil {
			t.Fatal(err)
		}
		hub, err := codec.DecodeLenient(source)
		if err != nil {
			t.Fatal(err)
		}
		crd.PrepareCreate(hub)
		d, err := crd.New(hub, crd.Options{Semantics: schema.KEP, IgnoreRules: true})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, generate.Input{Definition: d, Document: source})
	}
	return all
}

// TestGolden compares the files of the CRDs that the packages below generate share with those in
// testdata: a schema of each kind, names that collide, and CRDs with problems.
func TestGolden(t *testing.T) {
	t.Parallel()
	packages, _ := generate.Build(inputs(t, "../testdata/crds.yaml"))
	files, problems, err := golang.Generate(packages)
	if err != nil {
		t.Fatal(err)
	}
	var found strings.Builder
	for _, r := range golang.Rules() {
		fmt.Fprintf(&found, "rule %s, %s: %s\n", r.ID, r.Severity, r.Summary)
	}
	for _, p := range problems {
		fmt.Fprintf(&found, "%d %s %s %s: %s\n", p.Input, p.Severity, p.Rule, p.Path, p.Message)
	}
	files["problems"] = []byte(found.String())
	var archive txtar.Archive
	for _, name := range slices.Sorted(maps.Keys(files)) {
		archive.Files = append(archive.Files, txtar.File{Name: name, Data: files[name]})
	}
	testcase.Golden(t, "testdata/golden.txtar", string(txtar.Format(&archive)), *update)
}
