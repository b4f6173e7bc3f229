package testcase

import (
	"os"
	"path/filepath"
	"testing"
)

// Corpus returns the directory with the corpus of real CRDs and objects: ESPALIER_CORPUS, or
// shared/corpus beside the root of the repository. If there is none it skips the test, or fails it
// where a skipped test would go unnoticed: if ESPALIER_CORPUS is set, and in CI systems, which set CI.
func Corpus(t testing.TB) string {
	t.Helper()
	dir, required := os.Getenv("ESPALIER_CORPUS"), true
	if dir == "" {
		dir = filepath.Join(repository(t), "..", "shared", "corpus")
		ci := os.Getenv("CI")
		required = ci != "" && ci != "false"
	}
	if _, err := os.Stat(filepath.Join(dir, "CR_INDEX.tsv")); err != nil {
		if required {
			t.Fatalf("there is no corpus in %s: set ESPALIER_CORPUS to its directory", dir)
		}
		t.Skipf("SKIPPED: there is no corpus in %s: set ESPALIER_CORPUS to its directory", dir)
	}
	return dir
}

// Part returns every ninth of some files of the corpus, which are sorted by project and release,
// or all of them if ESPALIER_WHOLE_CORPUS is set, as make corpus does.
func Part[T any](files []T) []T {
	if WholeCorpus() {
		return files
	}
	var part []T
	for i := 0; i < len(files); i += 9 {
		part = append(part, files[i])
	}
	return part
}

// WholeCorpus reports whether tests use the whole corpus.
func WholeCorpus() bool { return os.Getenv("ESPALIER_WHOLE_CORPUS") != "" }

// repository returns the root of the repository. The directories of other modules are below it.
func repository(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	root := ""
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			root = dir
		}
	}
	if root == "" {
		t.Fatal("the test does not run in the repository")
	}
	return root
}
