// Command server benchmarks Espalier's API server side by side with the reference,
// k8s.io/apiextensions-apiserver, in one run.
//
// Each server is a process of its own, with an etcd of its own in another process. Both get
// the same CRDs, the same objects and the same requests from the same clients: 32 of them,
// each with its own TLS connection and the client certificate of an administrator. The
// servers take turns, so that a busy machine affects both.
//
// The cost of a request is the CPU time of the server process. Memory is the live heap after
// a garbage collection. The command prints a table with ratios and musts, and never fails
// because of a figure; it fails if a row cannot be measured.
//
// Usage, in the directory test/bench:
//
//	go run ./server                        # all rows, in less than 20 minutes
//	go run ./server -quick                 # fewer and shorter turns, in less than 3 minutes
//	go run ./server -rows get,list         # some rows
//	go run ./server -scale 1,2,4           # several servers on one etcd with three members
//	go run ./server -rows get -with=--enable-priority-and-fairness   # what a flag costs, instead of the reference
//	go run ./server -list                  # the names of the rows
//	go run ./server -rows create -alone -profile /tmp/profiles
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// settings are the sizes of a run.
type settings struct {
	// turns is the number of turns of each server for each row, and turn the length of one.
	turns int
	turn  time.Duration
	// lists is the number of lists in a turn.
	lists int
	// definitions is the number of CRDs in one group.
	definitions int
	// manyDefinitions is the number of CRDs for the large rows; 0 leaves them out.
	manyDefinitions int
	// smallObjects is the number of objects of 1 KB; 0 leaves them out.
	smallObjects int
}

func full() settings {
	return settings{turns: 5, turn: 2 * time.Second, lists: 4, definitions: 500, manyDefinitions: 10_000}
}

func quick() settings {
	return settings{turns: 3, turn: 600 * time.Millisecond, lists: 2, definitions: 100}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	small := flag.Bool("quick", false, "measure fewer and shorter turns, 100 CRDs instead of 500, and no large rows")
	only := flag.String("rows", "", "comma-separated names of the rows to measure; default: all")
	list := flag.Bool("list", false, "list the names of the rows and exit")
	alone := flag.Bool("alone", false, "measure Espalier without the reference")
	file := flag.String("json", "", "file to write the figures to as JSON")
	profiles := flag.String("profile", "", "directory for CPU profiles of Espalier, one for each row of requests; made after the measurement")
	million := flag.Int("small-objects", 0, "number of objects in the rows million-*; default none: a million needs 8 GB of disk and 6 GB of memory")
	scale := flag.String("scale", "", "comma-separated numbers of servers on one etcd with three members, such as 1,2,4, to measure instead of rows")
	with := flag.String("with", "", "flags of espalier serve, separated by spaces: measure a server with them beside one without, instead of the reference")
	user := flag.String("user", "", "user of the requests, who is not in system:masters and has full access; only with -with; default: an administrator")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "Benchmark Espalier's API server side by side with k8s.io/apiextensions-apiserver.")
		fmt.Fprintln(flag.CommandLine.Output(), "\nUsage: go run ./server [flags], in test/bench")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q: rows are selected with -rows", flag.Arg(0))
	}
	if *list {
		for _, r := range rows() {
			fmt.Printf("%-18s %s\n", r.name, r.title)
		}
		return nil
	}
	s := full()
	if *small {
		s = quick()
	}
	s.smallObjects = *million
	selected, err := choose(*only)
	if err != nil {
		return err
	}
	counts, err := parseCounts(*scale)
	if err != nil {
		return err
	}
	if *user != "" && *with == "" {
		return errors.New("-user needs -with: the reference knows only administrators")
	}
	if *profiles != "" {
		if err := os.MkdirAll(*profiles, 0o755); err != nil {
			return err
		}
	}
	begin := time.Now()
	b := &bench{settings: s, selected: selected, counts: counts, alone: *alone, profiles: *profiles, with: strings.Fields(*with), user: *user}
	err = b.measure(ctx)
	fmt.Println()
	if len(counts) > 0 {
		printScale(os.Stdout, b.scale)
	} else {
		printTable(os.Stdout, b.base(), b.results)
	}
	fmt.Printf("\n%d rows in %v\n", len(b.results)+len(b.scale), time.Since(begin).Round(time.Second))
	if *file != "" {
		err = errors.Join(err, writeJSON(*file, b))
	}
	return err
}

// parseCounts reads the numbers of servers.
func parseCounts(list string) (counts []int, err error) {
	if list == "" {
		return nil, nil
	}
	for text := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > concurrency {
			return nil, fmt.Errorf("--scale has %q: the numbers are from 1 to %d", text, concurrency)
		}
		counts = append(counts, n)
	}
	return counts, nil
}

// choose returns the names of the rows to measure.
func choose(only string) ([]string, error) {
	var names []string
	for _, r := range rows() {
		names = append(names, r.name)
	}
	if only == "" {
		return names, nil
	}
	var chosen []string
	for name := range strings.SplitSeq(only, ",") {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("unknown row %q: -list lists the rows", name)
		}
		chosen = append(chosen, name)
	}
	return chosen, nil
}
