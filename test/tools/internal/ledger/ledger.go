// Package ledger knows the promised behaviours of the project, the rows of its ledger, and
// finds the tests that prove them.
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
}

//go:embed rows.txt
var rowsText string

//go:embed open.txt
var openText string

// Rows returns all rows.
func Rows() ([]Row, error) {
	rows, err := parse(rowsText)
	if err != nil {
		return nil, fmt.Errorf("rows.txt: %w", err)
	}
	return rows, nil
}

// Open returns the IDs of the rows that need no proof yet.
func Open() ([]string, error) {
	open, err := parse(openText)
	if err != nil {
		return nil, fmt.Errorf("open.txt: %w", err)
	}
	var ids []string
	for _, r := range open {
		ids = append(ids, r.ID)
	}
	return ids, nil
}

// IsID reports whether s is an ID, such as P-07.
func IsID(s string) bool {
	return id.FindString(s) == s && s != ""
}

var id = regexp.MustCompile(`^[A-Z]-[0-9]{2}`)

// parse reads lines with an ID and a title. Empty lines and lines that begin with # are
// ignored.
func parse(text string) ([]Row, error) {
	var rows []Row
	for i, line := range strings.Split(text, "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		r := Row{}
		r.ID, r.Title, _ = strings.Cut(line, " ")
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

// A State is the comparison of the rows with their proofs.
type State struct {
	Open   []Row // no proof, and listed as open
	Missed []Row // no proof, although not listed as open
	Closed []Row // a proof, although listed as open
}

// Compare compares the rows with the proofs that Find has found.
func Compare(rows []Row, open []string, proofs []Proof) State {
	var s State
	for _, r := range rows {
		proven := slices.ContainsFunc(proofs, func(p Proof) bool { return p.Row == r.ID })
		switch listed := slices.Contains(open, r.ID); {
		case !proven && listed:
			s.Open = append(s.Open, r)
		case !proven:
			s.Missed = append(s.Missed, r)
		case listed:
			s.Closed = append(s.Closed, r)
		}
	}
	return s
}
