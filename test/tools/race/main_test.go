package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestConcurrent checks that packages with goroutines and locks are found, and others are not.
func TestConcurrent(t *testing.T) {
	t.Parallel()
	dirs, err := concurrent("../../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"store", "server", "server/quota", "server/tokens", "server/namespaces", "server/authorization", "server/encryption", "crd"} {
		if !slices.Contains(dirs, dir) {
			t.Errorf("%s is not found", dir)
		}
	}
	for _, dir := range []string{"api", "internal/jsonptr", "test/oracle"} {
		if slices.Contains(dirs, dir) {
			t.Errorf("%s is found", dir)
		}
	}
}

// TestComplete checks that packages with tests that are skipped or shortened are not complete.
func TestComplete(t *testing.T) {
	t.Parallel()
	for dir, want := range map[string]bool{"store": true, "crd": false, "espaliertest": false} {
		if got, err := isComplete("../../../" + dir); err != nil || got != want {
			t.Errorf("%s: got %v, %v", dir, got, err)
		}
	}
}

// TestServers checks that the tests that are left out exist.
func TestServers(t *testing.T) {
	t.Parallel()
	for dir, names := range servers {
		files, err := filepath.Glob(filepath.Join("../../..", dir, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		var all strings.Builder
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			all.Write(text)
		}
		for name := range strings.SplitSeq(names, "|") {
			if !strings.Contains(all.String(), "func Test"+name+"(t *testing.T)") {
				t.Errorf("%s has no test %s", dir, name)
			}
		}
	}
}
