package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// boxDefinition is a CRD, and boxSuite a suite that passes.
const boxDefinition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: boxes.example.com}
spec:
  group: example.com
  names: {kind: Box, plural: boxes}
  scope: Cluster
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {size: {type: integer, maximum: 5}}}}}
`

const boxSuite = `
apiVersion: espalier.dev/v1
kind: TestSuite
crd: crd.yaml
valid: [{name: a box, object: {size: 1}}]
`

// TestWatch changes a suite and then its CRD while test --watch runs.
func TestWatch(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	crdFile, suiteFile := filepath.Join(dir, "crd.yaml"), filepath.Join(dir, "suite.yaml")
	write := func(file, text string) {
		t.Helper()
		// Replace the file atomically.
		if err := os.WriteFile(file+".new", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	write(crdFile, boxDefinition)
	write(suiteFile, boxSuite)

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var stdout, stderr output
	a := newApp(strings.NewReader(""), &stdout, &stderr)
	code := make(chan int, 1)
	go func() { code <- a.run(ctx, []string{"test", "--watch", suiteFile}) }()
	runs := 0
	await := func(want string) {
		t.Helper()
		runs++
		stderr.await(t, nil, func(text string) bool { return strings.Count(text, "watching") == runs })
		if got := stdout.String(); !strings.HasSuffix(got, want+" in 1 suite (semantics: kep)\n") {
			t.Fatalf("after run %d: got %s, want %s", runs, got, want)
		}
	}
	await("1 passed, 0 failed")
	write(suiteFile, strings.ReplaceAll(boxSuite, "size: 1", "size: 10"))
	await("0 passed, 1 failed")
	write(crdFile, strings.ReplaceAll(boxDefinition, "maximum: 5", "maximum: 50"))
	await("1 passed, 0 failed")
	cancel()
	if got := <-code; got != 0 {
		t.Errorf("exit code %d, want that of the last run: %s", got, stderr.String())
	}
}

// TestSuiteOfHelp runs the suite in the help text.
func TestSuiteOfHelp(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/examples")); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr output
	a := newApp(strings.NewReader(""), &stdout, &stderr)
	_, text, _ := strings.Cut(newTestCommand(a).Long, "\n  apiVersion:")
	text, _, _ = strings.Cut(text, "\n\n")
	file := filepath.Join(dir, "help.yaml")
	if err := os.WriteFile(file, []byte("  apiVersion:"+text+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	code := a.run(context.Background(), []string{"test", file})
	if want := "5 passed, 0 failed in 1 suite (semantics: kubernetes)\n"; code != 0 || stdout.String() != want {
		t.Errorf("exit code %d, got %s%s, want %s", code, stdout.String(), stderr.String(), want)
	}
}

// TestSuiteDefinitionSize makes sure that --max-document-size applies to the CRD file that a
// suite names, and that --exclude does not.
func TestSuiteDefinitionSize(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	writeFile(t, p.path("crd.yaml"), []byte("# "+strings.Repeat("x", 1<<20)+boxDefinition))
	p.write("suite.yaml", boxSuite)
	if out, code := p.run("test", "suite.yaml", "--exclude", "crd.yaml"); code != 0 {
		t.Errorf("exits with %d:\n%s", code, out)
	}
	out, code := p.run("test", "suite.yaml", "--max-document-size", "1")
	if code != 2 || !strings.Contains(out, "crd.yaml:1:1: error: the document that starts here is larger than 1 MiB") {
		t.Errorf("exits with %d:\n%s", code, out)
	}
}
