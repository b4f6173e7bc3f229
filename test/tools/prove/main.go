// Command prove runs the tests of a promised behaviour in all modules below a directory,
// or lists the behaviours without a test.
//
//	go run ./prove DIR        # list the behaviours without a test
//	go run ./prove DIR P-07   # run the tests of P-07
//
// The tests of a behaviour are the subtests that are named after it, directly below a
// top-level test. The list fails if it differs from the list of open behaviours in
// internal/ledger/open.txt, which may only shrink.
package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"

	"espalier.dev/test/tools/internal/ledger"
)

func main() {
	if len(os.Args) != 2 && len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: prove DIR [ID]")
		os.Exit(2)
	}
	row := ""
	if len(os.Args) == 3 {
		row = os.Args[2]
	}
	if err := run(os.Stdout, os.Args[1], row); err != nil {
		fmt.Fprintln(os.Stderr, "prove:", err)
		os.Exit(1)
	}
}

func run(w io.Writer, dir, id string) error {
	rows, err := ledger.Rows()
	if err != nil {
		return err
	}
	proofs, err := ledger.Find(dir)
	if err != nil {
		return err
	}
	if id == "" {
		open, err := ledger.Open()
		if err != nil {
			return err
		}
		return list(w, ledger.Compare(rows, open, proofs), len(rows))
	}
	if !slices.ContainsFunc(rows, func(r ledger.Row) bool { return r.ID == id }) {
		return fmt.Errorf("%q is not the ID of a behaviour, such as P-07", id)
	}
	return prove(w, id, proofs)
}

// list prints the rows without a proof.
func list(w io.Writer, s ledger.State, total int) error {
	for _, r := range slices.Concat(s.Missed, s.Open) {
		fmt.Fprintf(w, "%s  %s\n", r.ID, r.Title)
	}
	missing := len(s.Open) + len(s.Missed)
	fmt.Fprintf(w, "%d of %d behaviours have a test, %d have none\n", total-missing, total, missing)
	var errs []error
	for _, r := range s.Missed {
		errs = append(errs, fmt.Errorf("%s has no test: add a subtest or a script that is named %s", r.ID, r.ID))
	}
	for _, r := range s.Closed {
		errs = append(errs, fmt.Errorf("%s has a test: delete it from open.txt", r.ID))
	}
	return errors.Join(errs...)
}

// prove runs the subtests of a row. It fails if one fails, and if none passes: a skipped
// test proves nothing.
func prove(w io.Writer, id string, proofs []ledger.Proof) error {
	tests := map[string][]string{} // by package directory
	for _, p := range proofs {
		if p.Row == id && !slices.Contains(tests[p.Dir], p.Test) {
			tests[p.Dir] = append(tests[p.Dir], p.Test)
		}
	}
	result := regexp.MustCompile(`(?m)^ +--- ([A-Z]+): [^/ ]+/` + id + `(?:[^0-9/ ][^/ ]*)? .*\n`)
	passed, failed := 0, []string{}
	for _, dir := range slices.Sorted(maps.Keys(tests)) {
		cmd := exec.Command("go", "test", "-v", "-count=1", "-run", fmt.Sprintf("^(%s)$/^%s($|[^0-9])", strings.Join(tests[dir], "|"), id), ".")
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		fmt.Fprintf(w, "== %s\n", dir)
		if err != nil {
			fmt.Fprintf(w, "%s%v\n", out, err)
			failed = append(failed, dir)
			continue
		}
		for _, m := range result.FindAllStringSubmatch(string(out), -1) {
			fmt.Fprint(w, m[0])
			if m[1] == "PASS" {
				passed++
			}
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("%s fails in %s", id, strings.Join(failed, ", "))
	}
	if passed == 0 {
		return fmt.Errorf("%s is not proven: no test that is named %s passed", id, id)
	}
	fmt.Fprintf(w, "%s: ok, tests: %d\n", id, passed)
	return nil
}
