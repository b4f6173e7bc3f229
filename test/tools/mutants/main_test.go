package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"espalier.dev/test/tools/internal/ledger"
)

// root is the repository.
const root = "../../.."

// TestMutations checks that each mutation applies to the source as it is, and that its test is
// one that is named after the behaviour.
func TestMutations(t *testing.T) {
	list, err := parse(mutationsText)
	if err != nil {
		t.Fatalf("mutations.txt:%v", err)
	}
	proofs, err := ledger.Find(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range list {
		if _, err := m.apply(root); err != nil {
			t.Errorf("mutations.txt:%d: %s: %v", m.line, m.row, err)
		}
		top, sub, _ := strings.Cut(m.test, "/")
		if !strings.HasPrefix(sub, m.row) || !slices.ContainsFunc(proofs, func(p ledger.Proof) bool {
			return p.Row == m.row && p.Test == top && p.Dir == m.pkg
		}) {
			t.Errorf("mutations.txt:%d: %s: %s %s is not a test of that behaviour", m.line, m.row, m.pkg, m.test)
		}
	}
}

func TestParse(t *testing.T) {
	list, err := parse("# comment\n\nA-01 a TestA/A-01 a/a.go\n-old\n-\tlines\n+new\n\nA-02 b TestB/A-02 b/b.go\n-gone\n")
	if err != nil {
		t.Fatal(err)
	}
	want := []mutation{
		{3, "A-01", "a", "TestA/A-01", "a/a.go", "old\n\tlines", "new"},
		{8, "A-02", "b", "TestB/A-02", "b/b.go", "gone", ""},
	}
	if !slices.Equal(list, want) {
		t.Errorf("got %+v, want %+v", list, want)
	}
	for text, want := range map[string]string{
		"A-01 a TestA/A-01\n-a\n+b\n":              "1: want ID PACKAGE TEST FILE",
		"A-01 a TestA/A-01 a.go\n-a\n+a\n":         "1: the mutation of A-01 changes nothing",
		"A-01 a TestA/A-01 a.go\n+a\n":             "1: the mutation of A-01 changes nothing",
		"A-01 a TestA/A-01 a.go\n-a\n+b\n-c\n+d\n": "4: old text after new text",
	} {
		if _, err := parse(text); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}

// TestLab tests mutations of a small module: one that is noticed, and all the ways to fail.
func TestLab(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module example.com/m\n\ngo 1.26\n",
		"m.go":   "package m\n\nfunc Sum(a, b int) int { return a + b }\n\nfunc Other() int { return 1 }\n",
		"m_test.go": `package m

import "testing"

func TestM(t *testing.T) {
	t.Run("V-01 sum", func(t *testing.T) {
		if Sum(1, 2) != 3 {
			t.Error("wrong")
		}
	})
	t.Run("V-02", func(t *testing.T) { t.Error("always") })
	t.Run("V-03", func(t *testing.T) { t.Skip() })
}
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	l := &lab{root: dir, dir: t.TempDir()}
	for i, tt := range []struct{ test, old, new, want string }{
		{"TestM/V-01", "a + b", "a - b", ""},
		{"TestM/V-01", "a + b", "a + b + panics()", "the mutant does not compile"},
		{"TestM/V-01", "return 1", "return 2", "the mutant survived"},
		{"TestM/V-01", "int", "uint", "the old text occurs 3 times in m.go, not once"},
		{"TestM/V-02", "a + b", "a - b", "without the mutation, the test fails"},
		{"TestM/V-03", "a + b", "a - b", "no such test passed"},
		{"TestM/V-04", "a + b", "a - b", "no such test passed"},
	} {
		err := l.test(context.Background(), i, mutation{pkg: ".", test: tt.test, file: "m.go", old: tt.old, new: tt.new})
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s, %q for %q: got %v, want %q", tt.test, tt.new, tt.old, err, tt.want)
		}
	}
	var out bytes.Buffer
	failed, killed := l.testAll(context.Background(), &out, []mutation{
		{row: "V-01", pkg: ".", test: "TestM/V-01", file: "m.go", old: "a + b", new: "a"},
		{row: "V-01", pkg: ".", test: "TestM/V-01", file: "m.go", old: "return 1", new: "return 2"},
	}, 2)
	if len(failed) != 1 || killed != 1 || !strings.Contains(out.String(), "killed  V-01 m.go") {
		t.Errorf("got %d killed, %v\n%s", killed, failed, &out)
	}
}
