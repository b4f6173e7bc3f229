// Package ledger knows the promised behaviours of the project, the rows of its ledger and
// their clauses, and finds the tests that prove them.
package ledger

import (
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// A Row is a promised behaviour.
type Row struct {
	ID, Title string
	Server    bool // it is proven on a server with a real etcd
}

//go:embed rows.txt
var rowsText string

// Rows returns all rows.
func Rows() ([]Row, error) {
	rows, err := parse(rowsText)
	if err != nil {
		return nil, fmt.Errorf("rows.txt: %w", err)
	}
	return rows, nil
}

// IsID reports whether s is an ID, such as P-07.
func IsID(s string) bool {
	return id.FindString(s) == s && s != ""
}

var id = regexp.MustCompile(`^[A-Z]-[0-9]{2}`)

// parse reads lines with an ID, [server] if the row is proven on one, and a title. Empty lines and
// lines that begin with # are ignored.
func parse(text string) ([]Row, error) {
	var rows []Row
	for i, line := range strings.Split(text, "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		r := Row{}
		r.ID, r.Title, _ = strings.Cut(line, " ")
		r.Title, r.Server = strings.CutPrefix(r.Title, "[server] ")
		if !IsID(r.ID) {
			return nil, fmt.Errorf("line %d: %q is not an ID", i+1, r.ID)
		}
		if r.Title == "" {
			return nil, fmt.Errorf("line %d: no text after %s", i+1, r.ID)
		}
		if slices.ContainsFunc(rows, func(o Row) bool { return o.ID == r.ID }) {
			return nil, fmt.Errorf("line %d: %s occurs twice", i+1, r.ID)
		}
		rows = append(rows, r)
	}
	return rows, nil
}
