package ledger

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

// root is the repository.
const root = "../../../.."

// TestProofs fails if a row that is not listed as open has no proof, and if one that is
// listed has.
func TestProofs(t *testing.T) {
	rows, err := Rows()
	if err != nil {
		t.Fatal(err)
	}
	open, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range open {
		if !slices.ContainsFunc(rows, func(r Row) bool { return r.ID == id }) {
			t.Errorf("open.txt: %s is not in rows.txt", id)
		}
	}
	proofs, err := Find(root)
	if err != nil {
		t.Fatal(err)
	}
	state := Compare(rows, open, proofs)
	for _, r := range state.Missed {
		t.Errorf("%s (%s) has no test: add a subtest or a script that is named %s", r.ID, r.Title, r.ID)
	}
	for _, r := range state.Closed {
		t.Errorf("%s (%s) has a test: delete it from open.txt", r.ID, r.Title)
	}
	for _, p := range proofs {
		if !slices.ContainsFunc(rows, func(r Row) bool { return r.ID == p.Row }) {
			t.Errorf("%s: %s has a subtest %q, but rows.txt does not have %s", p.Dir, p.Test, p.Name, p.Row)
		}
	}
}

// TestCopy fails if rows.txt and the ledger have different IDs.
func TestCopy(t *testing.T) {
	path := os.Getenv("ESPALIER_LEDGER")
	if path == "" {
		path = filepath.Join(root, "..", "shared", "LEDGER.md")
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Skip("no ledger: set ESPALIER_LEDGER to its file")
	}
	want, err := ledgerIDs(string(text))
	if err != nil || len(want) == 0 {
		t.Fatal("no IDs in the ledger", err)
	}
	rows, err := Rows()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range rows {
		got = append(got, r.ID)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("rows.txt has\n%s\nthe ledger has\n%s", got, want)
	}
}

var ledgerRow = regexp.MustCompile(`(?m)^\| ([A-Z]-)([0-9]{2})(?: … [A-Z]-([0-9]{2}))? \|`)

// ledgerIDs returns the IDs in the tables of a ledger. P-01 … P-11 are eleven.
func ledgerIDs(text string) ([]string, error) {
	var ids []string
	for _, m := range ledgerRow.FindAllStringSubmatch(text, -1) {
		first, err := strconv.Atoi(m[2])
		if err != nil {
			return nil, err
		}
		last := first
		if m[3] != "" {
			if last, err = strconv.Atoi(m[3]); err != nil {
				return nil, err
			}
		}
		for i := first; i <= last; i++ {
			ids = append(ids, fmt.Sprintf("%s%02d", m[1], i))
		}
	}
	return ids, nil
}

func TestLedgerIDs(t *testing.T) {
	got, err := ledgerIDs("| ID | behaviour |\n| --- | --- |\n| A-01 | one |\n| B-09 … B-11 | three, as C-01 |\n")
	if want := []string{"A-01", "B-09", "B-10", "B-11"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
}

func TestParse(t *testing.T) {
	for _, tt := range []struct{ text, err string }{
		{"# comment\n\nA-01 title\nA-02 title\n", ""},
		{"A-01 title\nA-01 title\n", "line 2: A-01 occurs twice"},
		{"A-01\n", "line 1: no text after A-01"},
		{"A-1 title\n", `line 1: "A-1" is not an ID`},
	} {
		_, err := parse(tt.text)
		if got := fmt.Sprint(err); tt.err != "" && got != tt.err || tt.err == "" && err != nil {
			t.Errorf("%q: got %v, want %s", tt.text, err, tt.err)
		}
	}
}

func TestCompare(t *testing.T) {
	rows := []Row{{"A-01", "proven"}, {"A-02", "open"}, {"A-03", "missed"}, {"A-04", "closed"}}
	got := Compare(rows, []string{"A-02", "A-04"}, []Proof{{Row: "A-01"}, {Row: "A-04"}})
	if fmt.Sprint(got) != "{[{A-02 open}] [{A-03 missed}] [{A-04 closed}]}" {
		t.Error(got)
	}
}

func TestFind(t *testing.T) {
	tests := []struct {
		name, tree string
		want       string
	}{
		{"name", `
-- a/a_test.go --
package a
func TestA(t *testing.T) { t.Run("A-01", nil); t.Run("A-02 with more", nil); t.Run("A-03"+x, nil) }
`, "a TestA A-01, a TestA A-02, a TestA A-03"},
		{"other names", `
-- a/a_test.go --
package a
func TestA(t *testing.T) { t.Run("A-011", nil); t.Run("see A-01", nil); t.Log("A-01"); t.Run(name, nil) }
`, ""},
		{"subtest of a subtest", `
-- a/a_test.go --
package a
func TestA(t *testing.T) { t.Run("a", func(t *testing.T) { t.Run("A-01", nil) }) }
`, ""},
		{"benchmarks and helpers", `
-- a/a_test.go --
package a
func BenchmarkA(b *testing.B) { b.Run("A-01", nil) }
func helper(t *testing.T) { t.Run("A-01", nil) }
`, ""},
		{"not a test file", `
-- a/a.go --
package a
func TestA(t *testing.T) { t.Run("A-01", nil) }
-- a/testdata/a_test.go --
package a
func TestA(t *testing.T) { t.Run("A-01", nil) }
`, ""},
		{"table", `
-- a/a_test.go --
package a
func TestA(t *testing.T) {
	for _, tt := range []struct{ name string }{{"A-01 in a table"}, {name: "A-02"}} { t.Run(tt.name, nil) }
}
`, "a TestA A-01, a TestA A-02"},
		{"table without subtests", `
-- a/a_test.go --
package a
func TestA(t *testing.T) { for _, name := range []string{"A-01"} { t.Log(name) } }
`, ""},
		{"files", `
-- a/a_test.go --
package a
func TestA(t *testing.T) { for _, f := range glob("testdata/x/*.txtar") { t.Run(f, nil) } }
-- b/c/b_test.go --
package b
func TestB(t *testing.T) { for _, f := range glob("../../a/testdata/x/A-*.txtar") { t.Run(f, nil) } }
-- a/testdata/x/A-01-more.txtar --
-- a/testdata/x/A-02.yaml --
-- a/testdata/y/A-03.txtar --
`, "a TestA A-01, b/c TestB A-01"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			for _, f := range txtar.Parse([]byte(tt.tree)).Files {
				path := filepath.Join(dir, f.Name)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, f.Data, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			proofs, err := Find(dir)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, p := range proofs {
				rel, err := filepath.Rel(dir, p.Dir)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, fmt.Sprint(filepath.ToSlash(rel), " ", p.Test, " ", p.Row))
			}
			if got := strings.Join(got, ", "); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}
