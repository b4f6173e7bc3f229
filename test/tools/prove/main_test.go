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
		{"V-03", "SKIP", "V-03 is not proven: no test that is named V-03 passed"},
		{"V-04", "", "V-04 is not proven"},
		{"V-99", "", `"V-99" is not the ID of a behaviour`},
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

func TestList(t *testing.T) {
	open, missed, closed := ledger.Row{ID: "A-01", Title: "open"}, ledger.Row{ID: "A-02", Title: "missed"}, ledger.Row{ID: "A-03", Title: "closed"}
	var out bytes.Buffer
	if err := list(&out, ledger.State{Open: []ledger.Row{open}}, 9); err != nil {
		t.Error(err)
	}
	if want := "A-01  open\n8 of 9 behaviours have a test, 1 have none\n"; out.String() != want {
		t.Errorf("got %q, want %q", &out, want)
	}
	err := list(&out, ledger.State{Missed: []ledger.Row{missed}, Closed: []ledger.Row{closed}}, 9)
	if err == nil || !strings.Contains(err.Error(), "A-02 has no test") || !strings.Contains(err.Error(), "A-03 has a test: delete it from open.txt") {
		t.Error(err)
	}
}
