package main

import (
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"
)

//go:embed equivalent.txt
var equivalentText string

// An equivalent is a mutant that behaves like the original.
type equivalent struct {
	line           int // in the list
	file, function string
	old, new       []string
	reason         string
}

// parseEquivalent reads a list of equivalent mutants. Each is a line with the file and the
// function, the changed lines as a survivor is reported, and a line with the reason:
//
//	schema/keywords.go constraints.number
//	-	if v > limit {
//	+	if v >= limit {
//	= v is never equal to the limit, because …
//
// Empty lines and lines that begin with # are ignored, and space around the changed lines.
func parseEquivalent(text string) ([]*equivalent, error) {
	var list []*equivalent
	for i, line := range strings.Split(text, "\n") {
		var last *equivalent
		if len(list) > 0 {
			last = list[len(list)-1]
		}
		switch {
		case line == "" || line[0] == '#':
		case last != nil && last.reason == "" && line[0] == '-':
			last.old = append(last.old, strings.TrimSpace(line[1:]))
		case last != nil && last.reason == "" && line[0] == '+':
			last.new = append(last.new, strings.TrimSpace(line[1:]))
		case last != nil && last.reason == "" && line[0] == '=':
			last.reason = strings.TrimSpace(line[1:])
		default:
			words := strings.Fields(line)
			if len(words) != 2 || last != nil && last.reason == "" {
				return nil, fmt.Errorf("%d: want FILE FUNCTION, - and + lines, and = REASON, got %q", i+1, line)
			}
			list = append(list, &equivalent{line: i + 1, file: words[0], function: words[1]})
		}
	}
	if len(list) > 0 && list[len(list)-1].reason == "" {
		return nil, fmt.Errorf("%d: no reason", list[len(list)-1].line)
	}
	return list, nil
}

// matches reports whether a mutant is the one of the list.
func (e *equivalent) matches(m *mutant) bool {
	same := func(want, lines []string) bool {
		return slices.EqualFunc(want, lines, func(a, b string) bool { return a == strings.TrimSpace(b) })
	}
	return e.file == m.file && e.function == m.function && same(e.old, m.old) && same(e.new, m.new)
}

// without returns the mutants that are not in a list of equivalent ones. An entry that matches
// none of the mutants of its package is an error.
func without(all []*mutant, list []*equivalent) (rest []*mutant, err error) {
	used := map[*equivalent]bool{}
	packages := map[string]bool{}
	for _, m := range all {
		packages[m.pkg] = true
		i := slices.IndexFunc(list, func(e *equivalent) bool { return e.matches(m) })
		if i < 0 {
			rest = append(rest, m)
			continue
		}
		used[list[i]] = true
	}
	for _, e := range list {
		if dir := e.file[:max(0, strings.LastIndexByte(e.file, '/'))]; !used[e] && packages[dir] {
			err = errors.Join(err, fmt.Errorf("equivalent.txt:%d: no mutant of %s in %s has these lines", e.line, e.function, e.file))
		}
	}
	return rest, err
}
