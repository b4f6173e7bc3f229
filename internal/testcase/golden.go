package testcase

import (
	"os"
	"path/filepath"
	"testing"

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
