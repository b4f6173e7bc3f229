package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReadme runs the commands in README.md in examples/crontab and compares their output
// with that in README.md. A block that begins with "$ espalier" is a command and its output.
// With -update, the output in README.md is rewritten.
func TestReadme(t *testing.T) {
	path, err := filepath.Abs("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../../examples/crontab")); err != nil {
		t.Fatal(err)
	}
	writeSnapshot(t, filepath.Join(dir, "snapshot.db"), storedManifests(t, dir, map[string]string{
		"apiextensions.k8s.io/customresourcedefinitions/crontabs.example.com": "crd.yaml",
		"example.com/crontabs/default/hourly":                                 "hourly.yaml",
		"example.com/crontabs/default/nightly":                                "nightly.yaml",
	}))
	t.Chdir(dir)
	seen, updated := map[string]bool{}, string(readme)
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
		got := strings.TrimRight(out.String(), "\n")
		if *update {
			updated = strings.Replace(updated, block, line+"\n"+got, 1)
		} else if got != want {
			t.Errorf("$ %s\nprints\n%s\nREADME.md says\n%s", line, got, want)
		}
	}
	if *update && updated != string(readme) {
		if err := os.WriteFile(path, []byte(updated), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"audit", "diff", "explain", "fix", "lint", "prune", "show", "test", "validate", "why"} {
		if !seen[name] {
			t.Errorf("README.md does not show %s", name)
		}
	}
}
