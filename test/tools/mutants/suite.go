package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"espalier.dev/test/tools/mutants/toggle"
)

// A suite is the tests of a package, compiled with all mutants.
type suite struct {
	root, pkg, binary string
	tests             []*unit
	// broken has an error for each test that fails without a mutant.
	broken []error
}

// A unit is a top-level test.
type unit struct {
	name    string
	takes   time.Duration
	reaches map[int]bool
}

// newSuite compiles the tests of a package, and runs each once to learn which mutants it
// executes. With names, it uses only the tests that are in names, and with skip, none that matches
// it.
func newSuite(ctx context.Context, l *lab, pkg, overlay string, names map[string]bool, skip string) (*suite, error) {
	s := &suite{root: l.root, pkg: pkg, binary: filepath.Join(l.dir, strings.ReplaceAll(pkg, "/", "-")+".test")}
	if err := l.compile(ctx, pkg, s.binary, "-overlay="+overlay); err != nil {
		return nil, fmt.Errorf("compile the mutants and the tests of %s: %w", pkg, err)
	}
	if _, err := os.Stat(s.binary); errors.Is(err, os.ErrNotExist) {
		return s, nil // no test files
	}
	left, err := regexp.Compile(cmp.Or(skip, "^$"))
	if err != nil {
		return nil, fmt.Errorf("tests to leave out: %w", err)
	}
	list, err := s.command(ctx, "-test.list=^(Test|Example|Fuzz)").Output()
	if err != nil {
		return nil, fmt.Errorf("list the tests of %s: %w", pkg, err)
	}
	reach := s.binary + ".reach"
	for test := range strings.Lines(string(list)) {
		test = strings.TrimSpace(test)
		if names != nil && !names[test] || left.MatchString(test) || !regexp.MustCompile(`^(Test|Example|Fuzz)`).MatchString(test) {
			continue
		}
		if err := os.RemoveAll(reach); err != nil {
			return nil, err
		}
		u := &unit{name: test, reaches: map[int]bool{}}
		start := time.Now()
		if ok, out, err := s.run(ctx, []*unit{u}, timeout, toggle.Reach+"="+reach); err != nil {
			return nil, err
		} else if !ok {
			s.broken = append(s.broken, fmt.Errorf("without a mutant, %s of %s fails\n%s", test, pkg, tail(out)))
			continue
		}
		u.takes = time.Since(start)
		numbers, err := os.ReadFile(reach)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		for _, n := range strings.Fields(string(numbers)) {
			id, err := strconv.Atoi(n)
			if err != nil {
				return nil, fmt.Errorf("mutants that %s reaches: %w", test, err)
			}
			u.reaches[id] = true
		}
		s.tests = append(s.tests, u)
	}
	slices.SortFunc(s.tests, func(a, b *unit) int { return cmp.Compare(a.takes, b.takes) })
	return s, nil
}

func (s *suite) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, s.binary, args...)
	cmd.Dir = filepath.Join(s.root, filepath.FromSlash(s.pkg))
	return cmd
}

// run runs tests in one process, and reports whether they pass.
func (s *suite) run(ctx context.Context, tests []*unit, limit time.Duration, env string) (ok bool, output string, err error) {
	var names []string
	for _, t := range tests {
		names = append(names, t.name)
	}
	// The binary has a limit of its own, so that it can stop what it has started.
	limited, cancel := context.WithTimeout(ctx, limit+10*time.Second)
	defer cancel()
	cmd := s.command(limited, "-test.failfast", "-test.count=1", "-test.timeout="+limit.String(), "-test.run=^("+strings.Join(names, "|")+")$")
	cmd.Env = append(os.Environ(), env)
	cmd.WaitDelay = 5 * time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	if ctx.Err() != nil {
		return false, "", ctx.Err()
	}
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) {
		return false, "", err
	}
	return err == nil, out.String(), nil
}

// kills runs the tests that reach a mutant, short ones first, until one fails. It reports whether
// there is such a test, and whether a test reaches the mutant.
func (s *suite) kills(ctx context.Context, m *mutant) (killed, reached bool, err error) {
	var group []*unit
	var takes time.Duration
	flush := func() error {
		if len(group) == 0 || killed {
			return nil
		}
		ok, _, err := s.run(ctx, group, 20*time.Second+5*takes, toggle.Active+"="+strconv.Itoa(m.id))
		killed = err == nil && !ok
		group, takes = nil, 0
		return err
	}
	for _, t := range s.tests {
		if !t.reaches[m.id] {
			continue
		}
		reached = true
		// Starting a process takes longer than most tests.
		if takes+t.takes > 3*time.Second {
			if err := flush(); err != nil || killed {
				return killed, true, err
			}
		}
		group, takes = append(group, t), takes+t.takes
	}
	err = flush()
	return killed, reached, err
}
