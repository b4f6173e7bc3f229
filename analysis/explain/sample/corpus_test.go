package sample_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"espalier.dev"
	"espalier.dev/analysis/explain/sample"
	"espalier.dev/analysis/internal/analysistest"
	"espalier.dev/crd"
	"espalier.dev/crd/cel"
	"espalier.dev/internal/testcase"
	"espalier.dev/schema"
)

// unsolved lists the samples of the corpus that are not valid, as CRD, version and size. Remove
// an entry when its sample becomes valid.
func unsolved() []string { return nil }

// TestCorpus generates both samples of every version of the CRDs in the corpus. All except the
// listed ones must be valid, and an Admitter must accept them without pruning.
func TestCorpus(t *testing.T) {
	var failed []string
	versions, judged := 0, 0
	for i, file := range testcase.Part(corpus(t)) {
		if testing.Short() && i%4 > 0 {
			continue
		}
		d := load(t, file, schema.Kubernetes)
		admitter, err := espalier.New(t.Context(), d.CRD(), espalier.WithSemantics(schema.Kubernetes), espalier.WithRules(cel.Checker{}))
		if err != nil {
			// CRDs that current API servers reject have samples too.
			admitter = nil
		}
		for _, v := range d.Versions() {
			versions++
			for _, size := range []sample.Size{sample.Minimal, sample.Full} {
				name := fmt.Sprintf("%s %s %s", d.Name(), v.Name(), size)
				s, err := sample.New(context.Background(), v, size)
				if err != nil {
					t.Errorf("%s: %v", name, err)
					continue
				}
				if !s.Valid() {
					failed = append(failed, name)
					t.Logf("%s: %v %v", name, s.Violations, s.Problem)
					continue
				}
				if admitter == nil || !v.Served() {
					continue
				}
				judged++
				result, err := admitter.Create(t.Context(), s.Object)
				if err == nil {
					err = result.Err()
				}
				if err != nil {
					t.Errorf("%s: the Admitter rejects it: %v", name, err)
				} else if pruned := result.Pruned(); len(pruned) > 0 {
					t.Errorf("%s: %v is pruned", name, pruned[0].Path)
				}
			}
		}
	}
	slices.Sort(failed)
	if want := unsolved(); !slices.Equal(failed, want) {
		t.Errorf("not valid:\n%s\nlisted:\n%s", strings.Join(failed, "\n"), strings.Join(want, "\n"))
	}
	t.Logf("%d versions, %d samples, %d not valid, %d put to an Admitter", versions, 2*versions, len(failed), judged)
}

// corpus returns the files with CRDs.
func corpus(t *testing.T) []string {
	root := testcase.Corpus(t)
	files, err := filepath.Glob(filepath.Join(root, "v1*", "*", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Skipf("no definitions in %s: set ESPALIER_CORPUS to the directory of the corpus", root)
	}
	return files
}

func load(t *testing.T, file string, sem schema.Semantics) *crd.Definition {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return define(t, string(text), sem)
}

// define parses a Definition from YAML.
func define(t *testing.T, text string, sem schema.Semantics) *crd.Definition {
	t.Helper()
	return analysistest.Define(t, text, crd.Options{Semantics: sem, Rules: cel.Checker{}})
}
