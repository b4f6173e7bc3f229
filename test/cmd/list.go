package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

// class is what is known about a function.
type class string

const (
	passes  class = "passes"  // with the real server and with espalier
	differs class = "differs" // passes with the real server only
	fails   class = "fails"   // with the real server, too
)

// entry is a line of the list.
type entry struct {
	function string
	class    class
	reason   string // not of functions that pass
}

func (e entry) String() string {
	if e.reason == "" {
		return e.function + " " + string(e.class)
	}
	return e.function + " " + string(e.class) + ": " + e.reason
}

// readList reads a file with an entry in each line.
func readList(path string) ([]entry, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	entries, err := parseList(string(data))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return entries, nil
}

func parseList(text string) ([]entry, error) {
	var entries []entry
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		name, rest, _ := strings.Cut(line, " ")
		kind, reason, _ := strings.Cut(rest, ": ")
		e := entry{function: name, class: class(kind), reason: reason}
		switch {
		case !slices.Contains([]class{passes, differs, fails}, e.class):
			return nil, fmt.Errorf("%q: the class is none of %s, %s and %s", line, passes, differs, fails)
		case (e.reason == "") != (e.class == passes):
			return nil, fmt.Errorf("%q: functions that do not pass need a reason, and no others", line)
		case slices.ContainsFunc(entries, func(o entry) bool { return o.function == name }):
			return nil, fmt.Errorf("%q: the function is listed twice", line)
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// writeList writes the functions of a run with the real server in their order. Those that pass
// keep the entry that says that espalier differs, those that fail keep their reason.
func writeList(path string, old []entry, results []result) error {
	var b strings.Builder
	for _, one := range results {
		e := entry{function: one.function, class: passes}
		if i := find(old, one.function); i >= 0 && (one.passed && old[i].class == differs || !one.passed && old[i].class == fails) {
			e = old[i]
		} else if !one.passed {
			e.class, e.reason = fails, "unknown"
		}
		fmt.Fprintln(&b, e)
	}
	return os.WriteFile(path, []byte(b.String()), 0o644)
}

func find(entries []entry, function string) int {
	return slices.IndexFunc(entries, func(e entry) bool { return e.function == function })
}

// compare returns an error with all results that are not as listed.
func compare(list []entry, results []result, real bool) error {
	var errs []error
	for _, one := range results {
		i := find(list, one.function)
		switch {
		case i < 0:
			errs = append(errs, fmt.Errorf("%s is not listed", one.function))
		case list[i].class == fails:
		case !one.passed && (real || list[i].class == passes):
			errs = append(errs, fmt.Errorf("%s fails", one.function))
		case one.passed && !real && list[i].class == differs:
			errs = append(errs, fmt.Errorf("%s passes: change its class in the list", one.function))
		}
	}
	return errors.Join(errs...)
}

// absent returns an error with all listed functions that the scripts do not have.
func absent(list []entry, functions []string) error {
	var errs []error
	for _, e := range list {
		if !slices.Contains(functions, e.function) {
			errs = append(errs, fmt.Errorf("%s is listed, but the scripts do not have it", e.function))
		}
	}
	return errors.Join(errs...)
}
