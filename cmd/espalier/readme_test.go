package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

// TestReadme runs the commands whose output README.md shows, among the examples that it
// speaks of. A command and its output are a block that begins with "$ espalier".
func TestReadme(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../../examples/crontab")); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	seen := map[string]bool{}
	for _, block := range strings.Split(string(readme), "\n```\n$ ")[1:] {
		block, _, _ = strings.Cut(block, "\n```\n")
		line, want, _ := strings.Cut(block, "\n")
		words, err := splitWords(line)
		if err != nil || words[0] != "espalier" {
			t.Fatalf("%s: only espalier can be run: %v", line, err)
		}
		seen[words[1]] = true
		var out bytes.Buffer
		a := &app{program: "espalier", stdin: &bytes.Buffer{}, stdout: &out, stderr: &out, environ: func(string) (string, bool) { return "", false }}
		a.run(t.Context(), words[1:])
		if got := strings.TrimRight(out.String(), "\n"); got != want {
			t.Errorf("$ %s\nprints\n%s\nREADME.md says\n%s", line, got, want)
		}
	}
	for _, name := range []string{"diff", "explain", "fix", "lint", "prune", "show", "test", "validate"} {
		if !seen[name] {
			t.Errorf("README.md does not show %s", name)
		}
	}
}
