package suite_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"espalier.dev/analysis/internal/analysistest"
	"espalier.dev/analysis/suite"
	"espalier.dev/crd/cel"
	"espalier.dev/internal/testcase"
)

// listed returns the cases, as suite and case, that need another variant of a CRD than the
// corpus has. They must fail; remove a case that passes.
func listed() []string {
	return []string{
		"config__v1alpha1__tests__insightsdatagathers.config.openshift.io__InsightsConfig *",
		"config__v1alpha2__tests__insightsdatagathers.config.openshift.io__InsightsConfig *",
		"example__v1__tests__stableconfigtypes.example.openshift.io__-Example onCreate/Should not persist a tech preview field",
		"example__v1__tests__stableconfigtypes.example.openshift.io__-Example onCreate/With an EvolvingUnion, Should not allow a TechPreview enum value",
	}
}

// TestCorpus runs OpenShift's suites: real CRDs with results that their authors observed on
// a real API server.
func TestCorpus(t *testing.T) {
	root := testcase.Corpus(t)
	files, err := filepath.Glob(filepath.Join(root, "testsuites", "*", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Skipf("no suites in %s: set ESPALIER_CORPUS to the directory of the corpus", root)
	}
	passed := 0
	var failed []string
	for _, file := range files {
		id := strings.TrimSuffix(filepath.Base(file), ".yaml")
		doc := readJSON(t, file)
		if !suite.Recognize(doc) {
			t.Errorf("%s: not recognized", id)
			continue
		}
		s, wrong := suite.Parse(doc, noFiles)
		for _, f := range wrong {
			t.Errorf("%s: %s: %s", id, f.Pointer, f.Message)
		}
		definition := readJSON(t, filepath.Join(root, "v1", filepath.Base(filepath.Dir(file)), s.Definition+".yaml"))
		r, err := suite.NewRunner(t.Context(), s, definition, suite.Options{Rules: cel.Checker{}})
		if err != nil {
			t.Errorf("%s: %v", id, err)
			continue
		}
		var bad []string
		for _, c := range s.Cases {
			if findings := r.Run(t.Context(), c); len(findings) > 0 {
				bad = append(bad, id+" "+c.FullName())
				t.Logf("%s: %s: %s", id, c.FullName(), findings[0].Message)
				continue
			}
			passed++
		}
		if len(bad) == len(s.Cases) {
			bad = []string{id + " *"}
		}
		failed = append(failed, bad...)
	}
	if want := listed(); !slices.Equal(failed, want) {
		t.Errorf("failed:\n%s\nlisted:\n%s", strings.Join(failed, "\n"), strings.Join(want, "\n"))
	}
	t.Logf("%d suites, %d cases passed, %d listed", len(files), passed, len(failed))
}

func readJSON(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return analysistest.JSON(t, string(text))
}

func noFiles(name string) ([]byte, error) { return nil, os.ErrNotExist }
