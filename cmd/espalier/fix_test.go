package main

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const oldDefinition = `# a comment
apiVersion: apiextensions.k8s.io/v1beta1
kind: CustomResourceDefinition
metadata: {name: olds.example.com}
spec:
  group: example.com
  version: v1
  scope: Cluster
  names: {plural: olds, singular: old, kind: Old, listKind: OldList}
`

// runFix runs fix and returns the exit code and standard error.
func runFix(args ...string) (int, string) {
	var stdout, stderr bytes.Buffer
	a := newApp(strings.NewReader(""), &stdout, &stderr)
	return a.run(context.Background(), append([]string{"fix"}, args...)), stderr.String()
}

// TestFixWrites makes sure that --write replaces the content of a file and preserves its mode
// and links to it.
func TestFixWrites(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "crd.yaml")
	if err := os.WriteFile(file, []byte(oldDefinition), 0o600); err != nil {
		t.Fatal(err)
	}
	const mode fs.FileMode = 0o640
	if err := os.Chmod(file, mode); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link.yaml")
	if err := os.Symlink("crd.yaml", link); err != nil {
		t.Fatal(err)
	}
	if code, stderr := runFix("-f", link, "--write"); code != 0 {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(text), "# a comment\napiVersion: apiextensions.k8s.io/v1\n") {
		t.Errorf("got\n%s", text)
	}
	info, err := os.Lstat(file)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode() != mode {
		t.Errorf("the mode is %v", info.Mode())
	}
	if info, err := os.Lstat(link); err != nil || info.Mode().Type() != fs.ModeSymlink {
		t.Errorf("the link is %v, %v", info, err)
	}
	left, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(left) != 2 {
		t.Errorf("unexpected files: %v", left)
	}
	// With nothing to fix, the file is not written.
	before := info.ModTime()
	if code, stderr := runFix("-f", file, "--write"); code != 0 || stderr != "" {
		t.Errorf("exit %d: %s", code, stderr)
	}
	if info, err := os.Stat(file); err != nil || !info.ModTime().Equal(before) {
		t.Errorf("the file was written again: %v", err)
	}
}
