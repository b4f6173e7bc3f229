package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"espalier.dev/internal/pages"
)

// TestReadme runs the commands in README.md in examples/crontab and compares their output with
// that in README.md. With -update, the output in README.md is rewritten.
func TestReadme(t *testing.T) {
	root := pages.Root(t)
	readme, err := pages.Read(root, "README.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := exampleDir(t, root)
	t.Chdir(dir)
	seen := map[string]bool{}
	runner := pageRunner(root, readme, dir)
	run := runner.Run
	runner.Run = func(t *testing.T, line string) string {
		if words := strings.Fields(line); len(words) > 1 {
			seen[words[1]] = true
		}
		if strings.HasPrefix(line, "espalier review") {
			changeExample(t, dir)
		} else {
			t.Chdir(dir)
		}
		return run(t, line)
	}
	readme.Run(t, runner)
	for _, name := range []string{"audit", "diff", "explain", "fix", "lint", "prune", "review", "show", "test", "upgrade", "validate", "why"} {
		if !seen[name] {
			t.Errorf("README.md does not show %s", name)
		}
	}
}

// TestDocs follows the pages below docs: it writes the files that they show, runs their commands and
// compares the output. internal/pages describes the form of the blocks. With -update, the output in the
// pages is rewritten. The tests of kubectl in test/conformance follow the pages that need a server.
func TestDocs(t *testing.T) {
	root := pages.Root(t)
	for _, p := range pages.Below(t, root, "docs") {
		t.Run(p.Name, func(t *testing.T) {
			if p.NeedsServer() {
				t.Skip("test/conformance/kubectl follows this page, because it needs a server and kubectl")
			}
			dir := t.TempDir()
			if strings.Contains(p.Text, "<!-- directory: examples/crontab -->") {
				dir = exampleDir(t, root)
			} else if err := p.Prepare(root, dir); err != nil {
				t.Fatal(err)
			}
			t.Chdir(dir)
			p.Run(t, pageRunner(root, p, dir))
		})
	}
}

// exampleDir returns a copy of examples/crontab, with a snapshot of an etcd that has its objects.
func exampleDir(t *testing.T, root string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(root, "examples", "crontab"))); err != nil {
		t.Fatal(err)
	}
	writeSnapshot(t, filepath.Join(dir, "snapshot.db"), storedManifests(t, dir, map[string]string{
		"apiextensions.k8s.io/customresourcedefinitions/crontabs.example.com": "crd.yaml",
		"example.com/crontabs/default/hourly":                                 "hourly.yaml",
		"example.com/crontabs/default/nightly":                                "nightly.yaml",
	}))
	return dir
}

// pageRunner returns a runner for the commands of a page. It runs espalier in this process, and other
// programs with a shell. The standard output of espalier can be redirected to a file, with > and a name.
func pageRunner(root string, p pages.Page, dir string) pages.Runner {
	return pages.Runner{
		Dir: dir, Update: *update, Path: filepath.Join(root, filepath.FromSlash(p.Name)),
		Run: func(t *testing.T, line string) string {
			t.Helper()
			words, err := splitWords(line)
			if err != nil || len(words) == 0 {
				t.Fatalf("%s: %v", line, err)
			}
			var out, file bytes.Buffer
			if words[0] != "espalier" {
				runProgram(t, []string{"sh", "-c", line}, nil, &out, &out)
				return out.String()
			}
			stdout, name := &out, ""
			if n := len(words); n > 2 && words[n-2] == ">" {
				stdout, name, words = &file, words[n-1], words[:n-2]
			}
			a := &app{program: "espalier", stdin: &bytes.Buffer{}, stdout: stdout, stderr: &out, environ: func(string) (string, bool) { return "", false }}
			a.run(t.Context(), words[1:])
			if name != "" {
				writeFile(t, name, file.Bytes())
			}
			return out.String()
		},
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
