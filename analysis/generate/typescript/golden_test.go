package typescript_test

import (
	"flag"
	"testing"

	"espalier.dev/analysis/generate"
	"espalier.dev/analysis/generate/generatetest"
	"espalier.dev/analysis/generate/typescript"
	"espalier.dev/internal/testcase"
)

var update = flag.Bool("update", false, "rewrite the expected results in testdata")

// TestGolden compares the files of CRDs with those in testdata: those that the packages below generate share, with a
// schema of each kind, names that collide, and CRDs with problems; and one with the types of all values.
func TestGolden(t *testing.T) {
	t.Parallel()
	for crds, want := range map[string]string{"../testdata/crds.yaml": "testdata/golden.txtar", "testdata/values.yaml": "testdata/values.txtar"} {
		packages, _ := generate.Build(generatetest.Inputs(t, crds))
		got := generatetest.Archive(typescript.Generate(packages))
		testcase.Golden(t, want, got, *update)
		if generatetest.Archive(typescript.Generate(packages)) != got {
			t.Errorf("%s: the second run differs", crds)
		}
	}
}
