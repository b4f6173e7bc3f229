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

// TestGolden compares the files of the CRDs that the packages below generate share with those in
// testdata: a schema of each kind, names that collide, and CRDs with problems.
func TestGolden(t *testing.T) {
	t.Parallel()
	packages, _ := generate.Build(generatetest.Inputs(t, "../testdata/crds.yaml"))
	files := typescript.Generate(packages)
	testcase.Golden(t, "testdata/golden.txtar", generatetest.Archive(files), *update)
}
