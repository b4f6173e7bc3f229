package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"espalier.dev/test/tools/internal/ledger"
)

// A mutation breaks a behaviour by replacing a text in a source file.
type mutation struct {
	line int    // in the list
	row  string // the ID of the behaviour
	pkg  string // the directory of the package that tests it
	test string // the subtest, as for go test -run
	file string
	// old must occur in the file exactly once.
	old, new string
}

// parse reads a list of mutations. A mutation is a line with the ID, the package, the test
// and the file, and lines that begin with - for the old text and + for the new one:
//
//	P-07 schema TestDocuments/P-07 schema/semantics.go
//	-return specifiesFields
//	+return true
//
// Old and new text need not be whole lines. Empty lines and lines that begin with # are
// ignored.
func parse(text string) ([]mutation, error) {
	var list []mutation
	var old, replacement []string
	end := func() error {
		if len(list) == 0 {
			return nil
		}
		m := &list[len(list)-1]
		m.old, m.new = strings.Join(old, "\n"), strings.Join(replacement, "\n")
		old, replacement = nil, nil
		if m.old == "" || m.old == m.new {
			return fmt.Errorf("%d: the mutation of %s changes nothing", m.line, m.row)
		}
		return nil
	}
	for i, line := range strings.Split(text, "\n") {
		switch {
		case line == "" || line[0] == '#':
		case len(list) > 0 && line[0] == '-':
			if replacement != nil {
				return nil, fmt.Errorf("%d: old text after new text", i+1)
			}
			old = append(old, line[1:])
		case len(list) > 0 && line[0] == '+':
			replacement = append(replacement, line[1:])
		default:
			if err := end(); err != nil {
				return nil, err
			}
			words := strings.Fields(line)
			if len(words) != 4 || !ledger.IsID(words[0]) {
				return nil, fmt.Errorf("%d: want ID PACKAGE TEST FILE, got %q", i+1, line)
			}
			list = append(list, mutation{line: i + 1, row: words[0], pkg: words[1], test: words[2], file: words[3]})
		}
	}
	return list, end()
}

// apply returns the file with the mutation.
func (m *mutation) apply(root string) (string, error) {
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(m.file)))
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(text), m.old); n != 1 {
		return "", fmt.Errorf("the old text occurs %d times in %s, not once", n, m.file)
	}
	return strings.Replace(string(text), m.old, m.new, 1), nil
}
