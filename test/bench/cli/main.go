// The cli command benchmarks `espalier validate` side by side with kubeconform and
// kubectl-validate: the same objects, which all programs accept, against the same CRDs of the
// corpus, in one run.
//
// All programs are built from source; the versions of the others are pinned in the modules in
// others. kubeconform uses schemas that are converted from the CRDs. The objects are renamed copies
// of those in the corpus, one per file, as JSON and as YAML. Objects of Kubernetes' own kinds are
// copies of the seeds of the oracle. The programs take turns,
// round by round, and the medians are compared, so a busy machine slows down all of them.
//
// The command never fails because of a time. ESPALIER_CORPUS names the directory of the
// corpus.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

func main() {
	objects := flag.Int("objects", 20000, "number of objects to validate")
	rounds := flag.Int("rounds", 3, "number of runs of each program")
	dir := flag.String("dir", "", "directory for programs and inputs, reused in the next run (default: a temporary directory)")
	others := flag.String("others", "kubeconform,kubectl-validate", "programs to compare with; kubectl-validate takes minutes")
	parts := flag.String("parts", strings.Join(allParts, ","), "what to measure")
	flag.Parse()
	if err := run(context.Background(), *dir, *others, strings.Split(*parts, ","), *objects, *rounds); err != nil {
		fmt.Fprintln(os.Stderr, "bench-cli:", err)
		os.Exit(1)
	}
}

// allParts are the values of -parts: objects with the CRDs of the corpus, in two forms, and objects of
// built-in kinds.
var allParts = []string{"json", "yaml", "builtin"}

func run(ctx context.Context, dir, others string, parts []string, objects, rounds int) error {
	for _, part := range parts {
		if !slices.Contains(allParts, part) {
			return fmt.Errorf("-parts: unknown part %q: use %s", part, strings.Join(allParts, ", "))
		}
	}
	if dir == "" {
		var err error
		if dir, err = os.MkdirTemp("", "bench-cli"); err != nil {
			return err
		}
		defer os.RemoveAll(dir)
	}
	fmt.Fprintln(os.Stderr, "building the programs …")
	programs, err := build(ctx, dir, strings.Split(others, ","))
	if err != nil {
		return err
	}
	var input *inputs
	if slices.ContainsFunc(parts, func(part string) bool { return part != "builtin" }) {
		fmt.Fprintln(os.Stderr, "preparing CRDs and objects …")
		if input, err = prepare(ctx, dir, programs, objects); err != nil {
			return err
		}
		if input == nil {
			fmt.Println("No corpus found: set ESPALIER_CORPUS to its directory.")
			return nil
		}
		fmt.Printf("%d objects, copies of %d; %d CRDs; %d rounds; %d processors\n\n", objects, input.seeds, input.definitions, rounds, runtime.NumCPU())
	}
	for _, part := range parts {
		switch part {
		case "json", "yaml":
			err = sideBySide(ctx, programs, input, part, rounds)
		case "builtin":
			err = builtin(ctx, dir, programs, objects, rounds)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// sideBySide runs the programs in turns and compares them.
func sideBySide(ctx context.Context, programs []program, in *inputs, form string, rounds int) error {
	runs := make([][]sample, len(programs))
	for range rounds {
		for i, p := range programs {
			s, err := p.measure(ctx, in, filepath.Join(in.dir, form))
			if err != nil {
				return err
			}
			runs[i] = append(runs[i], s)
		}
	}
	fmt.Printf("%s\n  %-18s %10s %10s %10s %14s %14s %14s\n", form, "", "wall", "cpu", "peak", "wall ÷ ours", "cpu ÷ ours", "peak ÷ ours")
	ours := median(runs[0])
	for i, p := range programs {
		m := median(runs[i])
		fmt.Printf("  %-18s %10s %10s %7d MB %14.1f %14.1f %14.1f\n", p.name, m.wall.Round(time.Millisecond), m.cpu.Round(time.Millisecond), m.rss>>20,
			m.wall.Seconds()/ours.wall.Seconds(), m.cpu.Seconds()/ours.cpu.Seconds(), float64(m.rss)/float64(ours.rss))
	}
	fmt.Println()
	return nil
}

// sample is the cost of a run.
type sample struct {
	wall, cpu time.Duration
	rss       int64
}

// median returns the median of each measure.
func median(runs []sample) sample {
	return sample{
		wall: middle(runs, func(s sample) time.Duration { return s.wall }),
		cpu:  middle(runs, func(s sample) time.Duration { return s.cpu }),
		rss:  middle(runs, func(s sample) int64 { return s.rss }),
	}
}

func middle[T ~int64](runs []sample, of func(sample) T) T {
	values := make([]T, len(runs))
	for i, s := range runs {
		values[i] = of(s)
	}
	slices.Sort(values)
	return values[len(values)/2]
}
