// Command mutants breaks promised behaviours, one at a time, and expects their tests to
// notice. Each mutation in mutations.txt replaces a text in a source file; the tree itself is
// never changed. The command fails if a test passes although its behaviour is broken.
//
//	go run ./mutants DIR          # all mutations
//	go run ./mutants DIR P-07     # those of P-07
//	go run ./mutants -j 4 DIR     # four at a time
//	go run ./mutants -sample 60 DIR    # 60 that are chosen at random
//
// With -mechanical, it makes the changes itself: it negates conditions, removes branches, changes
// results, and moves boundaries and integers by one, in the packages that the tests of promised
// behaviours are meant to cover, or in others. It tests a sample of these mutants, always the same
// one for a seed, and lists the survivors of each package. It fails if there are too many. All
// mutants are compiled at once, each with a switch, and run with the tests that execute them: those
// of the package, then the comparisons with Kubernetes in test/oracle and the proofs in server and
// cmd/espalier. With -own, only those of the package, and with -skip, not the slow ones: this takes
// less time, and reports no mutant as killed that another run reports as a survivor.
//
//	go run ./mutants -mechanical 300 DIR                    # 300 mutants
//	go run ./mutants -mechanical 100 DIR schema crd         # 100 in these packages
//	go run ./mutants -mechanical 50 -own DIR server/fields  # 50, with the tests of server/fields
//	go run ./mutants -mechanical 9999 -own -skip 'Hostile|Growth|Fuzz' DIR schema  # all, quickly
//	go run ./mutants -mechanical 9999 -own -in 'decode.go|hash' DIR schema         # all of some files and functions
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"espalier.dev/test/tools/internal/ledger"
)

//go:embed mutations.txt
var mutationsText string

func main() {
	parallel := flag.Int("j", 1, "mutations to test at a time")
	sample := flag.Int("sample", 0, "mutations to choose at random; 0 means all")
	size := flag.Int("mechanical", 0, "mechanical mutants to test instead of the list")
	seed := flag.Uint64("seed", 1, "number that decides which mechanical mutants to test")
	own := flag.Bool("own", false, "test mechanical mutants with the tests of their packages alone")
	skip := flag.String("skip", "", "regular expression of the tests to leave out of -mechanical, as for go test")
	in := flag.String("in", "", "regular expression of the files or functions to mutate with -mechanical")
	flag.Parse()
	if flag.NArg() == 0 || *parallel < 1 {
		fmt.Fprintln(os.Stderr, "usage: mutants [-j N] [-sample N] DIR [ID...]\n       mutants [-j N] -mechanical N [-seed N] [-own] [-skip REGEXP] [-in REGEXP] DIR [PACKAGE...]")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var err error
	if *size > 0 {
		err = mechanicalMutants(ctx, os.Stdout, flag.Arg(0), flag.Args()[1:], &mechanical{parallel: *parallel, size: *size, seed: *seed, own: *own, skip: *skip, in: *in})
	} else {
		err = run(ctx, os.Stdout, flag.Arg(0), flag.Args()[1:], *parallel, *sample)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, w io.Writer, root string, rows []string, parallel, sample int) error {
	root, err := filepath.Abs(root)
	if err != nil {
		return err
	}
	all, err := parse(mutationsText)
	if err != nil {
		return fmt.Errorf("mutations.txt:%w", err)
	}
	var chosen []mutation
	for _, m := range all {
		if len(rows) == 0 || slices.Contains(rows, m.row) {
			chosen = append(chosen, m)
		}
	}
	if len(chosen) == 0 {
		return fmt.Errorf("no mutation of %s", strings.Join(rows, ", "))
	}
	if sample > 0 && len(rows) == 0 {
		rand.Shuffle(len(chosen), func(i, j int) { chosen[i], chosen[j] = chosen[j], chosen[i] })
		chosen = chosen[:min(len(chosen), sample)]
	}
	dir, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	l := &lab{root: root, dir: dir}
	failed, killed := l.testAll(ctx, w, chosen, parallel)
	fmt.Fprintf(w, "%d of %d mutants killed\n", killed, len(chosen))
	if len(rows) == 0 {
		if err := complete(all); err != nil {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

// testAll tests mutations, a number of them at a time, and prints the result of each.
func (l *lab) testAll(ctx context.Context, w io.Writer, list []mutation, parallel int) (failed []error, killed int) {
	var mu sync.Mutex
	var group sync.WaitGroup
	slots := make(chan struct{}, parallel)
	for i, m := range list {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			if ctx.Err() != nil {
				return
			}
			start := time.Now()
			err := l.test(ctx, i, m)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed = append(failed, fmt.Errorf("mutations.txt:%d: %s: %w", m.line, m.row, err))
				fmt.Fprintf(w, "FAIL    %s %s:%d (%s %s): %v\n", m.row, m.file, m.line, m.pkg, m.test, err)
				return
			}
			killed++
			fmt.Fprintf(w, "killed  %s %s (%s %s, %.1fs)\n", m.row, m.file, m.pkg, m.test, time.Since(start).Seconds())
		})
	}
	group.Wait()
	if ctx.Err() != nil {
		failed = append(failed, ctx.Err())
	}
	return failed, killed
}

// complete returns an error if a row has no mutation.
func complete(list []mutation) error {
	rows, err := ledger.Rows()
	if err != nil {
		return err
	}
	var missing []string
	for _, r := range rows {
		if !slices.ContainsFunc(list, func(m mutation) bool { return m.row == r.ID }) {
			missing = append(missing, r.ID)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("no mutation for %s", strings.Join(missing, ", "))
	}
	return nil
}
