package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"espalier.dev/internal/pages"
)

// TestReadme runs the commands in README.md in examples/crontab and compares their output with
// that in README.md. With -update, the output in README.md is rewritten.
func TestReadme(t *testing.T) {
	t.Parallel()
	root := pages.Root(t)
	readme, err := pages.Read(root, "README.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := exampleDir(t, root)
	readme.Run(t, pageRunner(root, readme, dir))
}

// TestDocs follows the pages below docs: it writes the files that they show, runs their commands and
// compares the output. internal/pages describes the form of the blocks. With -update, the output in the
// pages is rewritten. The tests of kubectl in test/conformance follow the pages that need a server.
func TestDocs(t *testing.T) {
	t.Parallel()
	root := pages.Root(t)
	shown := ""
	for _, p := range pages.Below(t, root, "docs") {
		for _, b := range p.Blocks {
			shown += b.Text
		}
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
			p.Run(t, pageRunner(root, p, dir))
		})
	}
	for _, name := range []string{"audit", "backup", "diff", "explain", "fix", "generate", "kubeconfig", "lint", "prune", "restore", "review",
		"serve", "show", "test", "upgrade", "validate", "why"} {
		if !strings.Contains(shown, "$ espalier "+name+" ") && !strings.Contains(shown, "$ espalier "+name+"\n") {
			t.Errorf("no page shows %s and its output", name)
		}
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
				runProgram(t, dir, []string{"sh", "-c", line}, nil, &out, &out)
				return out.String()
			}
			stdout, name := &out, ""
			if n := len(words); n > 2 && words[n-2] == ">" {
				stdout, name, words = &file, words[n-1], words[:n-2]
			}
			a := place{t, dir}.app(&bytes.Buffer{}, stdout, &out)
			a.run(t.Context(), words[1:])
			if name != "" {
				writeFile(t, filepath.Join(dir, name), file.Bytes())
			}
			return out.String()
		},
	}
}
