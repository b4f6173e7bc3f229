package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"espalier.dev/test/tools/internal/ledger"
)

// mutated has the packages of which few mutants may survive. In others mutants are a way to find holes.
var mutated = []string{"schema", "crd"}

// survivors is how many mutants of a hundred may survive in each of them.
const survivors = 5

// A prover is a package with tests that prove behaviours of the packages below directories.
type prover struct {
	pkg string
	of  []string // the first parts of paths
}

// provers has the packages with proofs of behaviours of others, in the order in which a mutant is
// tested with them.
var provers = []prover{
	{"test/oracle", []string{"crd", "schema"}},
	{"cmd/espalier", []string{"analysis", "crd", "schema"}},
	{"server", []string{"server", "policies"}},
}

// comparisons has the tests of test/oracle that compare schemas, objects and CRDs with
// Kubernetes. They prove the rows about the same results as Kubernetes, but are not named after
// one.
var comparisons = []string{"TestCorpus", "TestCorpusRules", "TestGenerated", "TestGeneratedRules", "TestWholeCRDCreate", "TestWholeCRDUpdate"}

// A mechanical is a run with random mutants.
type mechanical struct {
	*lab
	overlay    string
	parallel   int
	size       int
	seed       uint64
	own        bool     // use the tests of the packages alone
	skip       string   // the regular expression of tests to leave out
	in         string   // the regular expression of files or functions to mutate
	few        []string // the packages of which few mutants may survive
	provers    []prover
	proofs     []ledger.Proof
	equivalent []*equivalent
	broken     []error // tests that fail without a mutant
}

// mechanicalMutants tests a sample of the mutants of packages, all of mutated by default, and
// reports those that survive.
func mechanicalMutants(ctx context.Context, w io.Writer, root string, packages []string, r *mechanical) error {
	root, err := filepath.Abs(root)
	if err != nil {
		return err
	}
	equivalent, err := parseEquivalent(equivalentText)
	if err != nil {
		return fmt.Errorf("equivalent.txt:%w", err)
	}
	proofs, err := ledger.Find(root)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if len(packages) == 0 {
		packages = mutated
	}
	r.lab, r.proofs, r.equivalent = &lab{root: root, dir: dir}, proofs, equivalent
	r.few = mutated
	if !r.own {
		r.provers = provers
	}
	return r.run(ctx, w, packages)
}

func (r *mechanical) run(ctx context.Context, w io.Writer, patterns []string) error {
	loaded, err := load(r.root, patterns)
	if err != nil {
		return err
	}
	all, files, err := find(r.root, loaded)
	if err != nil {
		return err
	}
	if all, err = without(all, r.equivalent); err != nil {
		return err
	}
	if all, err = within(all, r.in); err != nil {
		return err
	}
	if len(all) == 0 {
		return errors.New("no mutants in " + strings.Join(patterns, ", "))
	}
	chosen := choose(all, r.size, r.seed)
	fmt.Fprintf(w, "%d of %d mutants, seed %d\n", len(chosen), len(all), r.seed)
	if r.overlay, err = writeOverlay(r.root, r.dir, loaded[0].Module.Path, chosen, files); err != nil {
		return err
	}
	reached := map[*mutant]bool{}
	alive, err := r.with(ctx, w, chosen, reached, func(pkg string) string { return pkg }, nil)
	if err != nil {
		return err
	}
	names := r.proofNames()
	for _, p := range r.provers {
		alive, err = r.with(ctx, w, alive, reached, func(pkg string) string {
			if top, _, _ := strings.Cut(pkg, "/"); names[p.pkg] != nil && slices.Contains(p.of, top) {
				return p.pkg
			}
			return ""
		}, names)
		if err != nil {
			return err
		}
	}
	return errors.Join(append(r.broken, report(w, chosen, alive, reached, r.few))...)
}

// within returns the mutants whose file or function matches a regular expression.
func within(all []*mutant, expression string) ([]*mutant, error) {
	in, err := regexp.Compile(expression)
	if err != nil {
		return nil, fmt.Errorf("files or functions to mutate: %w", err)
	}
	return slices.DeleteFunc(all, func(m *mutant) bool { return !in.MatchString(m.file) && !in.MatchString(m.function) }), nil
}

// proofNames returns the tests with proofs of each package.
func (r *mechanical) proofNames() map[string]map[string]bool {
	names := map[string]map[string]bool{"test/oracle": {}}
	for _, test := range comparisons {
		names["test/oracle"][test] = true
	}
	for _, p := range r.proofs {
		dir := filepath.ToSlash(p.Dir)
		if names[dir] == nil {
			names[dir] = map[string]bool{}
		}
		names[dir][p.Test] = true
	}
	return names
}

// with tests mutants with the tests of the packages that a function returns for theirs, or with
// those that have a name, and returns the mutants that survive.
func (r *mechanical) with(ctx context.Context, w io.Writer, list []*mutant, reached map[*mutant]bool, tests func(string) string, names map[string]map[string]bool) (alive []*mutant, err error) {
	groups := map[string][]*mutant{}
	var order []string
	for _, m := range list {
		pkg := tests(m.pkg)
		if groups[pkg] == nil {
			order = append(order, pkg)
		}
		groups[pkg] = append(groups[pkg], m)
	}
	for _, pkg := range order {
		if pkg == "" {
			alive = append(alive, groups[pkg]...)
			continue
		}
		start := time.Now()
		s, err := newSuite(ctx, r.lab, pkg, r.overlay, names[pkg], r.skip)
		if err != nil {
			return nil, err
		}
		r.broken = append(r.broken, s.broken...)
		ready := time.Now()
		survivors, err := r.test(ctx, s, groups[pkg], reached)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(w, "with the tests of %s, %d of %d mutants survive (%.0fs, after %.0fs of preparation)\n",
			pkg, len(survivors), len(groups[pkg]), time.Since(ready).Seconds(), ready.Sub(start).Seconds())
		alive = append(alive, survivors...)
		os.Remove(s.binary)
	}
	return alive, nil
}

// test tests mutants with a suite, a number of them at a time.
func (r *mechanical) test(ctx context.Context, s *suite, list []*mutant, reached map[*mutant]bool) (alive []*mutant, err error) {
	var mu sync.Mutex
	var group sync.WaitGroup
	slots := make(chan struct{}, r.parallel)
	for _, m := range list {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			killed, here, failed := s.kills(ctx, m)
			mu.Lock()
			defer mu.Unlock()
			err = errors.Join(err, failed)
			reached[m] = reached[m] || here
			if !killed {
				alive = append(alive, m)
			}
		})
	}
	group.Wait()
	return alive, err
}

// report prints the survivors of each package, and returns an error if there are too many.
func report(w io.Writer, chosen, alive []*mutant, reached map[*mutant]bool, few []string) error {
	type count struct{ all, alive int }
	packages := map[string]*count{}
	var order []string
	for _, m := range chosen {
		if packages[m.pkg] == nil {
			order = append(order, m.pkg)
			packages[m.pkg] = &count{}
		}
		packages[m.pkg].all++
		if slices.Contains(alive, m) {
			packages[m.pkg].alive++
		}
	}
	for _, pkg := range order {
		c := packages[pkg]
		fmt.Fprintf(w, "%s: %d of %d mutants survived (%.1f%%)\n", pkg, c.alive, c.all, 100*float64(c.alive)/float64(c.all))
		for _, m := range chosen {
			if m.pkg != pkg || !slices.Contains(alive, m) {
				continue
			}
			note := ""
			if !reached[m] {
				note = ": no test executes it"
			}
			fmt.Fprintf(w, "%s%s\n%s\n", m.position(), note, m.diff())
		}
	}
	var failed []error
	for _, pkg := range order {
		if c := packages[pkg]; slices.Contains(few, pkg) && 100*c.alive > survivors*c.all {
			failed = append(failed, fmt.Errorf("%d of %d mutants survived in %s: more than %d%%", c.alive, c.all, pkg, survivors))
		}
	}
	fmt.Fprintf(w, "%d of %d mutants killed\n", len(chosen)-len(alive), len(chosen))
	return errors.Join(failed...)
}
