package main

import (
	"bytes"
	"io"
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
		if words[1] == "review" {
			changeExample(t, dir)
		} else {
			t.Chdir(dir)
		}
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
	for _, name := range []string{"audit", "diff", "explain", "fix", "lint", "prune", "review", "show", "test", "upgrade", "validate", "why"} {
		if !seen[name] {
			t.Errorf("README.md does not show %s", name)
		}
	}
}

// changeExample changes to a Git repository with the CRD and the objects of a directory, in which the
// CRD has changed.
func changeExample(t *testing.T, dir string) {
	t.Helper()
	repository := t.TempDir()
	copyFile := func(from, to string) {
		text, err := os.ReadFile(filepath.Join(dir, from))
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(repository, to), text)
	}
	for _, name := range []string{"crd.yaml", "hourly.yaml", "nightly.yaml"} {
		copyFile(name, name)
	}
	t.Chdir(repository)
	for _, command := range []string{"init -q -b main", "add -A", "commit -q -m base"} {
		if code := runProgram(t, strings.Fields("git "+command), nil, io.Discard, io.Discard); code != 0 {
			t.Fatalf("git %s exits with %d", command, code)
		}
	}
	copyFile("crd-next.yaml", "crd.yaml")
}
