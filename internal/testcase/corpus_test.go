package testcase

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// outcome records how a test ends.
type outcome struct {
	testing.TB
	result string
}

func (o *outcome) Helper() {}

func (o *outcome) Fatalf(string, ...any) { o.end("fails") }

func (o *outcome) Skipf(string, ...any) { o.end("is skipped") }

func (o *outcome) end(result string) {
	o.result = result
	runtime.Goexit()
}

// TestCorpus checks that tests without a corpus fail where it has to be there.
func TestCorpus(t *testing.T) {
	t.Run("M-03", func(t *testing.T) {
		root := t.TempDir()
		repo, corpus := filepath.Join(root, "repo"), filepath.Join(root, "shared", "corpus")
		if err := os.MkdirAll(filepath.Join(repo, "some", "package"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(repo, "go.mod"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		t.Chdir(filepath.Join(repo, "some", "package"))
		check := func(variable, ci, want string) {
			t.Helper()
			t.Setenv("ESPALIER_CORPUS", variable)
			t.Setenv("CI", ci)
			o := &outcome{TB: t, result: "runs"}
			done := make(chan string)
			go func() {
				defer close(done)
				done <- Corpus(o)
			}()
			if dir := <-done; o.result != want || want == "runs" && dir != corpus {
				t.Errorf("ESPALIER_CORPUS=%s CI=%s: the test %s with %q, want that it %s", variable, ci, o.result, dir, want)
			}
		}
		check("", "", "is skipped")
		check("", "false", "is skipped")
		check("", "true", "fails")
		check(corpus, "", "fails")
		check(corpus, "true", "fails")
		if err := os.MkdirAll(corpus, 0o755); err != nil {
			t.Fatal(err)
		}
		check("", "true", "fails") // without its index
		if err := os.WriteFile(filepath.Join(corpus, "CR_INDEX.tsv"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		check("", "", "runs")
		check("", "true", "runs")
		check(corpus, "", "runs")
	})
}
