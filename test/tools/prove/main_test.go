package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"espalier.dev/test/tools/internal/ledger"
)

// TestProve runs the tests of a module that has a test for each case.
func TestProve(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module example.com/m\n\ngo 1.26\n",
		"m_test.go": `package m

import "testing"

func TestRows(t *testing.T) {
	t.Run("V-01", func(*testing.T) {})
	t.Run("V-01-more", func(*testing.T) {})
	t.Run("V-02", func(t *testing.T) { t.Fatal("it is broken") })
	t.Run("V-03", func(t *testing.T) { t.Skip() })
	t.Run("V-05", func(*testing.T) {})
	t.Run("V-05-more", func(t *testing.T) { t.Skip("there is no corpus") })
	t.Run("V-06", func(t *testing.T) {
		t.Run("a", func(*testing.T) {})
		t.Run("b", func(t *testing.T) { t.Skip() })
	})
}
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct{ row, out, err string }{
		{"V-01", "V-01: ok, tests: 2", ""},
		{"V-02", "it is broken", "V-02 fails in "},
		{"V-03", "SKIP", "V-03 is not proven: skipped: . TestRows/V-03"},
		{"V-05", "there is no corpus", "V-05 is not proven: skipped: . TestRows/V-05-more"},
		{"V-06", "SKIP", "V-06 is not proven: skipped: . TestRows/V-06/b"},
		{"V-04", "", "V-04 is not proven"},
		{"V-99", "", `"V-99" is not the ID of a behaviour, such as P-07, or of a clause`},
		{"V-99a", "", `"V-99a" is not the ID of a behaviour`},
		{"TestRows", "", `"TestRows" is not the ID of a behaviour`},
	} {
		var out bytes.Buffer
		err := run(&out, dir, tt.row)
		if !strings.Contains(out.String(), tt.out) {
			t.Errorf("%s: got output %q, want %q", tt.row, &out, tt.out)
		}
		if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: got error %v, want %q", tt.row, err, tt.err)
		}
	}
}

// TestProveClause runs the tests of clauses.
func TestProveClause(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module example.com/m\n\ngo 1.26\n",
		"sub/m_test.go": `package m

import "testing"

func TestA(t *testing.T) {
	t.Run("A-01", func(*testing.T) {})
	t.Run("A-01a more", func(*testing.T) {})
	t.Run("A-01b", func(t *testing.T) { t.Fatal("it is broken") })
	t.Run("A-01-x", func(*testing.T) {})
}

func TestB(t *testing.T) {
	t.Run("A-01 this (one)", func(*testing.T) {})
	t.Run("A-01 that one", func(t *testing.T) { t.Fatal("it must not run") })
}
`,
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	rows := []ledger.Row{{ID: "A-01", Title: "title"}}
	clauses := []ledger.Clause{
		{ID: "A-01a", Row: "A-01", Text: "One.", Proofs: []ledger.Reference{{Dir: "sub", Test: "TestA"}, {Dir: "sub", Test: "TestB", Name: "A-01_this_(one)"}}},
		{ID: "A-01b", Row: "A-01", Text: "Two.", Proofs: []ledger.Reference{{Dir: "sub", Test: "TestA"}}},
	}
	proofs, err := ledger.Find(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ id, out, err string }{
		{"A-01a", "A-01a: ok, tests: 4\n", ""},
		{"A-01b", "it is broken", "A-01b fails in sub"},
		{"A-01", "it must not run", "A-01 fails in sub"},
		{"A-01c", "", `"A-01c" is not the ID of a clause: want A-01a, A-01b`},
	} {
		var out bytes.Buffer
		tests, err := choose(tt.id, rows, clauses, proofs)
		if err == nil {
			err = prove(&out, dir, tt.id, tests)
		}
		if !strings.Contains(out.String(), tt.out) {
			t.Errorf("%s: got output %q, want %q", tt.id, &out, tt.out)
		}
		if (err == nil) != (tt.err == "") || err != nil && err.Error() != tt.err {
			t.Errorf("%s: got error %v, want %q", tt.id, err, tt.err)
		}
	}
	var out bytes.Buffer
	list(&out, rows, clauses, proofs)
	if want := `A-01 title
  A-01a One.
        sub TestA
        sub TestB A-01_this_(one)
  A-01b Two.
        sub TestA
behaviours: 1, clauses: 2, tests: 5
`; out.String() != want {
		t.Errorf("got %s, want %s", &out, want)
	}
}
