package ledger

import (
	"fmt"
	"maps"
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

// TestProofs fails if a row has no clause, if a clause has no proof, or if a proof belongs to
// none.
func TestProofs(t *testing.T) {
	rows, err := Rows()
	if err != nil {
		t.Fatal(err)
	}
	clauses, err := Clauses()
	if err != nil {
		t.Fatal(err)
	}
	proofs, err := Find(root)
	if err != nil {
		t.Fatal(err)
	}
	if err := Check(rows, clauses, proofs); err != nil {
		t.Error(err)
	}
}

// TestCopy fails if rows.txt and the ledger have different IDs, or mark different rows with server.
func TestCopy(t *testing.T) {
	path := os.Getenv("ESPALIER_LEDGER")
	if path == "" {
		path = filepath.Join(root, "..", "shared", "LEDGER.md")
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Skip("no ledger: set ESPALIER_LEDGER to its file")
	}
	want, err := ledgerRows(string(text))
	if err != nil || len(want) == 0 {
		t.Fatal("no IDs in the ledger", err)
	}
	rows, err := Rows()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if w, ok := want[r.ID]; !ok {
			t.Errorf("rows.txt has %s, the ledger does not", r.ID)
		} else if w.server != r.Server {
			t.Errorf("%s: [server] in rows.txt is %t, in the ledger %t", r.ID, r.Server, w.server)
		}
		delete(want, r.ID)
	}
	for id, w := range want {
		if !w.planned {
			t.Errorf("the ledger has %s, rows.txt does not", id)
		}
	}
}

// A ledgerRow is a row of the ledger. A planned one may be in rows.txt, or not yet.
type ledgerRow struct{ server, planned bool }

// ledgerLine is a row of a table, which may be several (P-01 … P-11 are eleven), or a planned row.
var ledgerLine = regexp.MustCompile(`(?m)^(?:\| ([A-Z]-)([0-9]{2})(?: … [A-Z]-([0-9]{2}))? \||- \*\*([A-Z]-)([0-9]{2})\*\* ).*`)

// ledgerRows returns the rows of a ledger by their IDs.
func ledgerRows(text string) (map[string]ledgerRow, error) {
	rows := map[string]ledgerRow{}
	for _, m := range ledgerLine.FindAllStringSubmatch(text, -1) {
		letter := m[1] + m[4]
		first, err := strconv.Atoi(m[2] + m[5])
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
			rows[fmt.Sprintf("%s%02d", letter, i)] = ledgerRow{server: strings.Contains(m[0], "*server*"), planned: m[4] != ""}
		}
	}
	return rows, nil
}

func TestLedgerRows(t *testing.T) {
	got, err := ledgerRows("| ID | behaviour |\n| --- | --- |\n| A-01 | *server* one |\n| B-09 … B-11 | three, as C-01 |\n- **N-01** one\n- **N-02** *server* two\n")
	want := map[string]ledgerRow{"A-01": {server: true}, "B-09": {}, "B-10": {}, "B-11": {}, "N-01": {planned: true}, "N-02": {server: true, planned: true}}
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
}

func TestParse(t *testing.T) {
	for _, tt := range []struct{ text, err string }{
		{"# comment\n\nA-01 title\nA-02 title\n", ""},
		{"A-01 [server] title\nA-01 title\n", "line 2: A-01 occurs twice"},
		{"A-01\n", "line 1: no text after A-01"},
		{"A-1 title\n", `line 1: "A-1" is not an ID`},
	} {
		_, err := parse(tt.text)
		if got := fmt.Sprint(err); tt.err != "" && got != tt.err || tt.err == "" && err != nil {
			t.Errorf("%q: got %v, want %s", tt.text, err, tt.err)
		}
	}
}

func TestParseClauses(t *testing.T) {
	clauses, err := parseClauses("clauses/A.txt", `# comment

A-01a One  thing.
	a TestA
	./b/c TestB A-01 more words
A-01b Another.
A-03a Third.
	. TestC A-03a
`)
	want := `[{A-01a A-01 One thing. [{a TestA  clauses/A.txt:4} {b/c TestB A-01_more_words clauses/A.txt:5}] clauses/A.txt:3}` +
		` {A-01b A-01 Another. [] clauses/A.txt:6} {A-03a A-03 Third. [{. TestC A-03a clauses/A.txt:8}] clauses/A.txt:7}]`
	type plain Reference // without its method String
	var got []string
	for _, c := range clauses {
		var refs []plain
		for _, r := range c.Proofs {
			refs = append(refs, plain(r))
		}
		got = append(got, fmt.Sprint(struct {
			id, row, text string
			refs          []plain
			pos           string
		}{c.ID, c.Row, c.Text, refs, c.pos}))
	}
	if fmt.Sprint(got) != want || err != nil {
		t.Errorf("got %s, %v; want %s", got, err, want)
	}
	for _, tt := range []struct{ text, err string }{
		{"\ta TestA\n", "A.txt:1: a test without a clause"},
		{"A-01a One.\n\ta\n", `A.txt:2: want PACKAGE TEST or PACKAGE TEST SUBTEST, got "a"`},
		{"A-01a One.\n\ta helper\n", `A.txt:2: want PACKAGE TEST or PACKAGE TEST SUBTEST, got "a helper"`},
		{"\nA-01 One.\n", `A.txt:2: "A-01" is not the ID of a clause, such as A-01a`},
		{"A-01a\n", "A.txt:1: no text after A-01a"},
		{"B-01a One.\n", "A.txt:1: B-01a belongs to B.txt"},
		{"A-01b One.\n", "A.txt:1: got A-01b, want A-01a"},
		{"A-01a One.\nA-01c Two.\n", "A.txt:2: got A-01c, want A-01b"},
		{"A-01a One.\nA-01a Two.\n", "A.txt:2: got A-01a, want A-01b"},
		{"A-02a One.\nA-01a Two.\n", "A.txt:2: A-01a comes after A-02"},
	} {
		if _, err := parseClauses("A.txt", tt.text); fmt.Sprint(err) != tt.err {
			t.Errorf("%q: got %v, want %s", tt.text, err, tt.err)
		}
	}
}

func TestCheck(t *testing.T) {
	proof := func(name string) Proof {
		return Proof{Row: id.FindString(name), Dir: "a", Test: "TestA", Name: name}
	}
	prefix := proof("A-02-more-")
	prefix.Prefix = true
	proofs := []Proof{proof("A-01"), proof("A-02"), proof("A-02a_x"), proof("A-02-file"), prefix, proof("A-03b")}
	for _, tt := range []struct {
		clauses string
		proofs  []Proof
		err     string
	}{
		{"A-02a x\n a TestA", nil, ""},
		{"A-02a x\n a TestA A-02", nil, ""},
		{"A-02a x\n a TestA A-02a x", nil, ""},
		{"A-02a x\n a TestA A-02-file", nil, ""},
		{"A-02a x\n a TestA A-02-more-or-less", nil, ""},
		{"A-02a x", nil, "A.txt:4: A-02a has no test"},
		{"A-02a x\n b TestA", nil, "A.txt:5: A-02a has no test b TestA, or no subtest of it that is named after A-02 or A-02a"},
		{"A-02a x\n a TestB", nil, "A.txt:5: A-02a has no test a TestB, or no subtest of it that is named after A-02 or A-02a"},
		{"A-02a x\n a TestA A-02-fil", nil, "A.txt:5: A-02a has no test a TestA A-02-fil, or no subtest of it that is named after A-02 or A-02a"},
		{"A-02a x\n a TestA A-01", nil, "A.txt:5: A-02a has no test a TestA A-01, or no subtest of it that is named after A-02 or A-02a"},
		{"A-02a x\n a TestA\nA-04a x\n a TestA", []Proof{proof("A-04")}, "A.txt:6: rows.txt does not have A-04\na: TestA has a subtest \"A-04\", but there is no such row or clause"},
		{"", nil, "A-02 (two) has no clause: add it to clauses/A.txt with its tests\na: TestA has a subtest \"A-02a_x\", but there is no such row or clause"},
		{"A-02a x\n a TestA", []Proof{proof("A-05")}, "a: TestA has a subtest \"A-05\", but there is no such row or clause"},
		{"A-02a x\n a TestA", []Proof{proof("A-02c")}, "a: TestA has a subtest \"A-02c\", but there is no such row or clause"},
	} {
		clauses, err := parseClauses("A.txt", "A-01a x\n a TestA A-01\n\n"+tt.clauses)
		if err != nil {
			t.Fatal(err)
		}
		err = Check([]Row{{ID: "A-01", Title: "one"}, {ID: "A-02", Title: "two"}}, clauses, append(slices.Clone(proofs[:5]), tt.proofs...))
		if (err == nil) != (tt.err == "") || err != nil && err.Error() != tt.err {
			t.Errorf("%s: got\n%v, want\n%s", tt.clauses, err, tt.err)
		}
	}
	clauses, err := parseClauses("A.txt", "A-03a x\n a TestA\nA-03b x\n a TestA\n")
	if err != nil {
		t.Fatal(err)
	}
	want := "A.txt:2: A-03a has no test a TestA, or no subtest of it that is named after A-03 or A-03a"
	if err := Check([]Row{{ID: "A-03", Title: "three"}}, clauses, proofs[5:]); fmt.Sprint(err) != want {
		t.Errorf("got %v, want %s", err, want)
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
`, "a TestA A-01, a TestA A-02_with_more, a TestA A-03…"},
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
`, "a TestA A-01_in_a_table, a TestA A-02"},
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
`, "a TestA A-01-more, b/c TestB A-01-more"},
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
				end := ""
				if p.Prefix {
					end = "…"
				}
				got = append(got, fmt.Sprint(p.Dir, " ", p.Test, " ", p.Name, end))
			}
			if got := strings.Join(got, ", "); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}
