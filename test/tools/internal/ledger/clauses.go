package ledger

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
)

// A Clause is a part of a row: one behaviour that can break by itself.
type Clause struct {
	ID     string // the ID of the row and a letter, such as P-07a
	Row    string
	Text   string
	Proofs []Reference
	pos    string // file and line
}

// A Reference names the tests that prove a clause.
type Reference struct {
	Dir  string // the directory of the package, from the root of the repository
	Test string // the top-level test
	// Name is a subtest. If it is empty, the reference is to all subtests that are named
	// after the row, without a letter, or after the clause.
	Name string
	pos  string
}

func (r Reference) String() string {
	return strings.TrimSpace(r.Dir + " " + r.Test + " " + r.Name)
}

//go:embed clauses/*.txt
var clauseFiles embed.FS

// Clauses returns the clauses of all rows, file by file.
func Clauses() ([]Clause, error) {
	files, err := fs.Glob(clauseFiles, "clauses/*.txt")
	if err != nil {
		return nil, err
	}
	var all []Clause
	for _, file := range files {
		text, err := clauseFiles.ReadFile(file)
		if err != nil {
			return nil, err
		}
		clauses, err := parseClauses(file, string(text))
		if err != nil {
			return nil, err
		}
		all = append(all, clauses...)
	}
	return all, nil
}

var clauseID = regexp.MustCompile(`^([A-Z]-[0-9]{2})([a-z])$`)

// parseClauses reads the clauses of the rows that begin with the letter for which the file
// is named, in the order of their IDs. A clause is a line with its ID and its text. The
// indented lines below it name its tests: the directory of the package, the top-level test
// and, where the test has other subtests of the row, the subtest.
//
//	V-14b Objects that do not comply can be watched.
//		server TestLedger V-14-events
//
// Empty lines and lines that begin with # are ignored.
func parseClauses(file, text string) ([]Clause, error) {
	var clauses []Clause
	letter := strings.TrimSuffix(path.Base(file), ".txt")
	row, next := "", byte('a') // the row of the last clause, and the letter that comes after it
	for i, line := range strings.Split(text, "\n") {
		pos := fmt.Sprintf("%s:%d", file, i+1)
		words := strings.Fields(line)
		if len(words) == 0 || words[0][0] == '#' {
			continue
		}
		if line[0] == ' ' || line[0] == '\t' {
			if len(clauses) == 0 {
				return nil, fmt.Errorf("%s: a test without a clause", pos)
			}
			if len(words) < 2 || !strings.HasPrefix(words[1], "Test") {
				return nil, fmt.Errorf("%s: want PACKAGE TEST or PACKAGE TEST SUBTEST, got %q", pos, strings.TrimSpace(line))
			}
			c := &clauses[len(clauses)-1]
			c.Proofs = append(c.Proofs, Reference{Dir: path.Clean(words[0]), Test: words[1], Name: subtestName(strings.Join(words[2:], " ")), pos: pos})
			continue
		}
		m := clauseID.FindStringSubmatch(words[0])
		switch {
		case m == nil:
			return nil, fmt.Errorf("%s: %q is not the ID of a clause, such as %s-01a", pos, words[0], letter)
		case len(words) == 1:
			return nil, fmt.Errorf("%s: no text after %s", pos, m[0])
		case m[1][:1] != letter:
			return nil, fmt.Errorf("%s: %s belongs to %s.txt", pos, m[0], m[1][:1])
		case m[1] < row:
			return nil, fmt.Errorf("%s: %s comes after %s", pos, m[0], row)
		case m[1] != row:
			row, next = m[1], 'a'
		}
		if m[2][0] != next {
			return nil, fmt.Errorf("%s: got %s, want %s%c", pos, m[0], row, next)
		}
		next++
		clauses = append(clauses, Clause{ID: m[0], Row: row, Text: strings.Join(words[1:], " "), pos: pos})
	}
	return clauses, nil
}

// subtestName returns the name of a subtest as go test prints it.
func subtestName(s string) string {
	return strings.ReplaceAll(s, " ", "_")
}

// Pattern returns a regular expression for the subtests of a reference of a clause.
func (c *Clause) Pattern(r Reference) string {
	if r.Name != "" {
		return "^" + regexp.QuoteMeta(r.Name) + "$"
	}
	return "^" + c.ID + "?([^0-9a-z]|$)"
}

// Proven returns the proofs to which a clause refers.
func (c *Clause) Proven(r Reference, proofs []Proof) []Proof {
	pattern := regexp.MustCompile(c.Pattern(r))
	var found []Proof
	for _, p := range proofs {
		if p.Row == c.Row && p.Dir == r.Dir && p.Test == r.Test &&
			(pattern.MatchString(p.Name) || p.Prefix && strings.HasPrefix(r.Name, p.Name)) {
			found = append(found, p)
		}
	}
	return found
}

// Check compares the rows, their clauses and the proofs that Find has found. It returns an
// error for each row without a clause, each clause without a proof, each reference to a proof
// that does not exist, and each proof whose row or clause does not exist.
func Check(rows []Row, clauses []Clause, proofs []Proof) error {
	var errs []error
	known := map[string]bool{}
	for _, r := range rows {
		known[r.ID] = true
	}
	for i := range clauses {
		c := &clauses[i]
		if !known[c.Row] {
			errs = append(errs, fmt.Errorf("%s: rows.txt does not have %s", c.pos, c.Row))
		}
		known[c.ID] = true
		if len(c.Proofs) == 0 {
			errs = append(errs, fmt.Errorf("%s: %s has no test", c.pos, c.ID))
		}
		for _, r := range c.Proofs {
			if len(c.Proven(r, proofs)) == 0 {
				errs = append(errs, fmt.Errorf("%s: %s has no test %s, or no subtest of it that is named after %s or %s", r.pos, c.ID, r, c.Row, c.ID))
			}
		}
	}
	for _, r := range rows {
		if !known[r.ID+"a"] {
			errs = append(errs, fmt.Errorf("%s (%s) has no clause: add it to clauses/%s.txt with its tests", r.ID, r.Title, r.ID[:1]))
		}
	}
	for _, p := range proofs {
		if m := clauseInName.FindStringSubmatch(p.Name); !known[p.Row] || m != nil && !known[m[1]] {
			errs = append(errs, fmt.Errorf("%s: %s has a subtest %q, but there is no such row or clause", p.Dir, p.Test, p.Name))
		}
	}
	return errors.Join(errs...)
}

var clauseInName = regexp.MustCompile(`^([A-Z]-[0-9]{2}[a-z])(?:[^0-9a-z]|$)`)
