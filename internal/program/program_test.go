package program_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"espalier.dev/internal/program"
)

// TestStale finds no program in ESPALIER_BIN, and one that is older than its source.
func TestStale(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(program.Directory, dir)
	if _, err := program.Find(program.Complete); err == nil || !strings.Contains(err.Error(), "has no espalier: run make bin") {
		t.Errorf("without a program: %v", err)
	}
	for name, text := range map[string]string{"espalier-cli": "a program", "espalier-cli.sum": "of other source"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if path, err := program.Find(program.CLI); err == nil || !strings.Contains(err.Error(), "was built from other source: run make bin") {
		t.Errorf("with an old program: %q, %v", path, err)
	}
}
