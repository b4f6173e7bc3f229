package testcase

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"espalier.dev/internal/textdiff"
)

// Golden compares a text with that of a file, or writes the file if update is set. The test that
// calls it declares the flag -update.
func Golden(t testing.TB, file, got string, update bool) {
	t.Helper()
	if update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the result is not that of %s; go test -update writes it anew:\n%s", file, textdiff.Unified(file, "result", want, []byte(got), 1))
	}
}

// GoldenArchives runs a parallel subtest for each txtar file that matches a pattern. The function gets the
// archive and puts the results into it; the outcome is compared with the file as Golden does.
func GoldenArchives(t *testing.T, pattern string, update bool, complete func(*testing.T, *txtar.Archive)) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files match %s: %v", len(files), pattern, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			complete(t, archive)
			Golden(t, file, string(txtar.Format(archive)), update)
		})
	}
}

// Section returns the text of a file of an archive, or "" if there is none.
func Section(a *txtar.Archive, name string) string {
	if i := section(a, name); i >= 0 {
		return string(a.Files[i].Data)
	}
	return ""
}

// SetSection replaces the text of a file of an archive, or adds the file at the end.
func SetSection(a *txtar.Archive, name, text string) {
	i := section(a, name)
	if i < 0 {
		i = len(a.Files)
		a.Files = append(a.Files, txtar.File{Name: name})
	}
	a.Files[i].Data = []byte(text)
}

func section(a *txtar.Archive, name string) int {
	return slices.IndexFunc(a.Files, func(f txtar.File) bool { return f.Name == name })
}
