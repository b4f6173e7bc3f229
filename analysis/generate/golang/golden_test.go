package golang_test

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"espalier.dev/analysis/generate"
	"espalier.dev/analysis/generate/generatetest"
	"espalier.dev/analysis/generate/golang"
	"espalier.dev/internal/testcase"
)

var update = flag.Bool("update", false, "rewrite the expected results in testdata")

// TestGolden compares the files of the CRDs that the packages below generate share with those in
// testdata: a schema of each kind, names that collide, and CRDs with problems.
func TestGolden(t *testing.T) {
	t.Parallel()
	packages, _ := generate.Build(generatetest.Inputs(t, "../testdata/crds.yaml"))
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
	testcase.Golden(t, "testdata/golden.txtar", generatetest.Archive(files), *update)
}
