package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// TestCurrent checks that the committed page is compiled from the sources.
func TestCurrent(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	files, err := build(root)
	if err != nil {
		t.Fatal(err)
	}
	static := filepath.Join(root, "web", "page", "static")
	for name, want := range files {
		if got, err := os.ReadFile(filepath.Join(static, name)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not current: run make page (%v)", name, err)
		}
	}
	entries, err := os.ReadDir(static)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if files[e.Name()] == nil {
			t.Errorf("%s is not made from the sources: remove it", e.Name())
		}
	}
}

// TestBundle checks that the same packages give the same bundle, that it has their licenses, and that it is
// current if there is one: the browser tests use it.
func TestBundle(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	if _, err := os.Stat(filepath.Join(root, "web", "page", "codemirror", "node_modules")); err != nil {
		t.Skip("SKIPPED: no CodeMirror: install npm, and run make editor")
	}
	files, err := bundle(root)
	if err != nil {
		t.Fatal(err)
	}
	again, err := bundle(root)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		if !bytes.Equal(again[name], want) {
			t.Errorf("%s has other bytes the second time", name)
		}
		got, err := os.ReadFile(filepath.Join(root, "web", "page", "bundle", name))
		if err == nil && !bytes.Equal(got, want) {
			t.Errorf("%s is not current: run make editor", name)
		}
	}
	for _, name := range []string{"@codemirror/view", "@codemirror/lang-yaml", "@lezer/lr", "style-mod"} {
		if !regexp.MustCompile(`(?m)^` + name + ` \S+ \(MIT\)\n\n(.+\n)*\n?.*Copyright`).Match(files["codemirror-licenses.txt"]) {
			t.Errorf("the license of %s is missing", name)
		}
	}
}

// TestNoMarkup checks that the sources make no elements from text, which may come from a link.
func TestNoMarkup(t *testing.T) {
	markup := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|createContextualFragment|DOMParser|srcdoc|\beval\b|new Function|javascript:`)
	sources, err := filepath.Glob(filepath.Join("..", "..", "..", "web", "page", "[cs]*", "*.ts"))
	if err != nil || len(sources) < 5 {
		t.Fatal(sources, err)
	}
	for _, path := range sources {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if found := markup.Find(text); found != nil {
			t.Errorf("%s uses %s: create elements with h", path, found)
		}
	}
}
