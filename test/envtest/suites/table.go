package main

import (
	"fmt"
	"io"
	"time"
)

// total are the figures of a package, or of all packages of a project.
type total struct {
	passed, failed int
	time           time.Duration
}

func (r *results) total() total { return total{len(r.passed), len(r.failed), r.time()} }

func (t *total) add(o total) {
	t.passed += o.passed
	t.failed += o.failed
	t.time += o.time
}

const (
	namesFormat   = "%-18s  %-42s"
	programHeader = "  %8s  %6s  %6s  %8s"
	programFormat = "  %8s  %6d  %6d  %8s"
)

// printHeader prints the header of the table. A test that fails in some runs and passes in others
// counts as both.
func (r *runner) printHeader(w io.Writer) {
	fmt.Fprintf(w, namesFormat, "PROJECT", "PACKAGE")
	for range r.programs() {
		fmt.Fprintf(w, programHeader, "PROGRAMS", "PASSED", "FAILED", "TIME")
	}
	if len(r.programs()) == 2 {
		fmt.Fprintf(w, "  %9s", "REAL/OURS")
	}
	fmt.Fprintln(w)
}

// printRow prints a row of the table.
func (r *runner) printRow(w io.Writer, project, pkg string, ours, theirs total) {
	fmt.Fprintf(w, namesFormat, project, pkg)
	for _, name := range r.programs() {
		t := ours
		if name == "real" {
			t = theirs
		}
		fmt.Fprintf(w, programFormat, name, t.passed, t.failed, t.time.Round(100*time.Millisecond))
	}
	if len(r.programs()) == 2 && ours.time > 0 {
		fmt.Fprintf(w, "  %8.1f×", theirs.time.Seconds()/ours.time.Seconds())
	}
	fmt.Fprintln(w)
}

// programs returns the names of the programs that the suites run with.
func (r *runner) programs() []string {
	var names []string
	if r.assets != "" {
		names = append(names, "espalier")
	}
	if r.real != "" {
		names = append(names, "real")
	}
	return names
}
