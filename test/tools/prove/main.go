// Command prove runs the tests of a promised behaviour in all modules below a directory,
// or lists the behaviours with their tests.
//
//	go run ./prove DIR        # list all behaviours, clause by clause, with their tests
//	go run ./prove DIR P-07   # run the tests of P-07
//	go run ./prove DIR P-07b  # run the tests of a clause of P-07
//	go run ./prove DIR server # run the tests of all behaviours of servers that start one
//
// The tests of a behaviour are the subtests that are named after it, directly below a
// top-level test. The files in internal/ledger/clauses split it into clauses and name the
// tests of each. The list fails if a behaviour has no clause, if a clause has no test, or if
// the named test does not exist. A run fails if a test is skipped. Servers in tests keep their
// objects in a real etcd.
package main

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
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
	clauses, err := ledger.Clauses()
	if err != nil {
		return err
	}
	proofs, err := ledger.Find(dir)
	if err != nil {
		return err
	}
	switch id {
	case "":
		list(w, rows, clauses, proofs)
		return ledger.Check(rows, clauses, proofs)
	case "server":
		tests, err := onServers(dir, rows, proofs)
		if err != nil {
			return err
		}
		return prove(w, dir, id, tests)
	}
	tests, err := choose(id, rows, clauses, proofs)
	if err != nil {
		return err
	}
	return prove(w, dir, id, tests)
}

// list prints the clauses of all rows with their tests, and how many there are.
func list(w io.Writer, rows []ledger.Row, clauses []ledger.Clause, proofs []ledger.Proof) {
	tests := map[ledger.Proof]bool{}
	for _, r := range rows {
		fmt.Fprintf(w, "%s %s\n", r.ID, r.Title)
		for _, c := range clauses {
			if c.Row != r.ID {
				continue
			}
			fmt.Fprintf(w, "  %s %s\n", c.ID, c.Text)
			for _, ref := range c.Proofs {
				fmt.Fprintf(w, "        %s\n", ref)
				for _, p := range c.Proven(ref, proofs) {
					tests[p] = true
				}
			}
		}
	}
	fmt.Fprintf(w, "behaviours: %d, clauses: %d, tests: %d\n", len(rows), len(clauses), len(tests))
}

// A target is a set of subtests, directly below a top-level test.
type target struct {
	dir, test string
	pattern   string // of the names of the subtests
}

// choose returns the tests of a row or of a clause.
func choose(id string, rows []ledger.Row, clauses []ledger.Clause, proofs []ledger.Proof) ([]target, error) {
	var tests []target
	if slices.ContainsFunc(rows, func(r ledger.Row) bool { return r.ID == id }) {
		for _, p := range proofs {
			if t := (target{p.Dir, p.Test, "^" + id + "([^0-9]|$)"}); p.Row == id && !slices.Contains(tests, t) {
				tests = append(tests, t)
			}
		}
		return tests, nil
	}
	var siblings []string
	for _, c := range clauses {
		if c.ID == id {
			for _, ref := range c.Proofs {
				tests = append(tests, target{ref.Dir, ref.Test, c.Pattern(ref)})
			}
			return tests, nil
		}
		if strings.HasPrefix(id, c.Row) {
			siblings = append(siblings, c.ID)
		}
	}
	if len(siblings) > 0 {
		return nil, fmt.Errorf("%q is not the ID of a clause: want %s", id, strings.Join(siblings, ", "))
	}
	return nil, fmt.Errorf("%q is not the ID of a behaviour, such as P-07, or of a clause of it, such as P-07a", id)
}

// onServers returns the tests of the rows that are proven on a server, in the packages whose tests start one.
func onServers(dir string, rows []ledger.Row, proofs []ledger.Proof) ([]target, error) {
	var tests []target
	starts := map[string]bool{}
	for _, p := range proofs {
		if !slices.ContainsFunc(rows, func(r ledger.Row) bool { return r.ID == p.Row && r.Server }) {
			continue
		}
		if _, ok := starts[p.Dir]; !ok {
			files, err := filepath.Glob(filepath.Join(dir, filepath.FromSlash(p.Dir), "*_test.go"))
			if err != nil {
				return nil, err
			}
			for _, name := range files {
				text, err := os.ReadFile(name)
				if err != nil {
					return nil, err
				}
				starts[p.Dir] = starts[p.Dir] || bytes.Contains(text, []byte(`"espalier.dev/server/servertest"`)) || bytes.Contains(text, []byte(`"espalier.dev/espaliertest"`))
			}
		}
		if t := (target{p.Dir, p.Test, "^" + p.Row + "([^0-9]|$)"}); starts[p.Dir] && !slices.Contains(tests, t) {
			tests = append(tests, t)
		}
	}
	return tests, nil
}

// prove runs the tests of a row or of a clause. It fails if one of them, or a subtest, fails or is
// skipped, and if none passes: a skipped test proves nothing, even if others pass.
func prove(w io.Writer, root, id string, tests []target) error {
	byDir := map[string][]target{}
	for _, t := range tests {
		byDir[t.dir] = append(byDir[t.dir], t)
	}
	passed, failed, skips := 0, []string{}, []string{}
	for _, dir := range slices.Sorted(maps.Keys(byDir)) {
		var patterns []string
		for _, t := range byDir[dir] {
			patterns = append(patterns, "^"+t.test+"$/"+t.pattern)
		}
		cmd := exec.Command("go", "test", "-v", "-count=1", "-run", strings.Join(patterns, "|"), ".")
		cmd.Dir = filepath.Join(root, filepath.FromSlash(dir))
		cmd.Env = append(os.Environ(), "ESPALIER_TEST_STORE=etcd")
		out, err := cmd.CombinedOutput()
		fmt.Fprintf(w, "== %s\n", dir)
		if err != nil {
			fmt.Fprintf(w, "%s%v\n", out, err)
			failed = append(failed, dir)
			continue
		}
		if found := skipped.FindAllStringSubmatch(string(out), -1); found != nil {
			fmt.Fprintf(w, "%s", out) // with the reasons
			for _, m := range found {
				skips = append(skips, dir+" "+m[1])
			}
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
	if len(skips) > 0 {
		return fmt.Errorf("%s is not proven: skipped: %s", id, strings.Join(skips, ", "))
	}
	if passed == 0 {
		return fmt.Errorf("%s is not proven: none of its tests passed", id)
	}
	fmt.Fprintf(w, "%s: ok, tests: %d\n", id, passed)
	return nil
}

// result is the line that go test prints for a subtest, directly below a top-level test.
var result = regexp.MustCompile(`(?m)^ +--- ([A-Z]+): [^/ ]+/[^/ ]+ .*\n`)

// skipped is the line that go test prints for a test or subtest that is skipped.
var skipped = regexp.MustCompile(`(?m)^ *--- SKIP: (\S+) .*\n`)
