package testcase

import (
	"os"
	"path/filepath"
	"testing"
)

// Corpus returns the directory with the corpus of real CRDs and objects: ESPALIER_CORPUS, or
// shared/corpus beside the root of the repository. It skips the test if there is none.
func Corpus(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("ESPALIER_CORPUS")
	if dir == "" {
		dir = filepath.Join(repository(t), "..", "shared", "corpus")
	}
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("SKIPPED: there is no corpus in %s: set ESPALIER_CORPUS to its directory", dir)
	}
	return dir
}

// repository returns the root of the repository.
func repository(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("the test does not run in the repository")
		}
		dir = filepath.Dir(dir)
	}
}
