// Command e2e runs Kubernetes' conformance specs against the server, or against the real
// kube-apiserver and etcd, with the real kube-controller-manager and kube-scheduler, and nodes that
// kwok simulates. No container runs, so many specs cannot pass with any API server.
// testdata/specs.txt has the class of each spec: those that pass with the real kube-apiserver must
// pass with the server, too.
//
//	go run . [flags]
//
// Programs that the directory -bin does not have are built into it, which takes many minutes the
// first time. With -kill the server is killed again and again while the specs run, and a client
// checks that no acknowledged write is lost. With -faults, no specs run: see faults.go.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// options are the flags.
type options struct {
	bin, artifacts     string
	focus, skip        *regexp.Regexp // skip may be nil
	classes            []string
	procs              int
	real, race, update bool
	faults             bool
	kill               time.Duration
	timeout            time.Duration
}

func main() {
	o, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	err = run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		os.Exit(1)
	}
}

// parse reads the flags.
func parse(args []string) (*options, error) {
	o := &options{}
	set := flag.NewFlagSet("e2e", flag.ContinueOnError)
	set.StringVar(&o.bin, "bin", "", "`directory` of the programs; missing ones are built (default: a temporary directory)")
	set.StringVar(&o.artifacts, "artifacts", "", "`directory` for logs and reports, which are kept (default: a temporary directory, removed after success)")
	focus := set.String("focus", "", "regular `expression` that selects specs by name")
	skip := set.String("skip", "", "regular `expression` of the names of specs to skip")
	classes := set.String("classes", "", "comma-separated `classes` of specs to run (default: those that pass)")
	set.IntVar(&o.procs, "procs", 4, "`number` of specs that run at the same time")
	set.BoolVar(&o.real, "real", false, "run the real kube-apiserver and etcd")
	set.BoolVar(&o.race, "race", false, "build the server with the race detector")
	set.BoolVar(&o.update, "update", false, "with -real, write the results to testdata/specs.txt, or testdata/faults.txt")
	set.BoolVar(&o.faults, "faults", false, "run no specs: inject faults, and print what happens")
	set.DurationVar(&o.kill, "kill", 0, "`time` after which the server is killed and restarted, again and again")
	set.DurationVar(&o.timeout, "timeout", 2*time.Hour, "maximum `time` of all specs")
	if err := set.Parse(args); err != nil {
		return nil, err
	}
	var err error
	if o.focus, err = regexp.Compile(*focus); err != nil {
		return nil, fmt.Errorf("-focus: %w", err)
	}
	if *skip != "" {
		if o.skip, err = regexp.Compile(*skip); err != nil {
			return nil, fmt.Errorf("-skip: %w", err)
		}
	}
	switch {
	case set.NArg() > 0:
		return nil, fmt.Errorf("unexpected arguments: %s", strings.Join(set.Args(), " "))
	case o.update && !o.real:
		return nil, errors.New("-update needs -real: the real kube-apiserver decides which specs can pass")
	case o.faults && o.kill > 0:
		return nil, errors.New("-faults and -kill exclude each other")
	case o.race && o.real:
		return nil, errors.New("-race and -real exclude each other")
	}
	if o.update && o.kill > 0 {
		return nil, errors.New("-update and -kill exclude each other")
	}
	o.classes = []string{classPasses, classSteady, classFails, classUntried}
	if o.kill > 0 {
		o.classes = []string{classPasses}
	}
	if *classes != "" {
		o.classes = strings.Split(*classes, ",")
	}
	return o, nil
}

// run runs the specs, and returns an error if a spec that must pass fails.
func run(ctx context.Context, o *options) (err error) {
	golden, err := readSpecs(specsFile)
	if err != nil {
		return err
	}
	temp, err := os.MkdirTemp("", "e2e-")
	if err != nil {
		return err
	}
	o.bin = cmp.Or(o.bin, filepath.Join(temp, "bin"))
	if o.artifacts == "" {
		o.artifacts = filepath.Join(temp, "artifacts")
		defer func() {
			if err != nil {
				fmt.Println("logs and reports are in", o.artifacts)
				err = errors.Join(err, os.RemoveAll(filepath.Join(temp, "bin")))
				return
			}
			err = os.RemoveAll(temp)
		}()
	} else {
		defer os.RemoveAll(temp)
	}
	if o.artifacts, err = filepath.Abs(o.artifacts); err != nil {
		return err
	}
	if err := os.MkdirAll(o.artifacts, 0o700); err != nil {
		return err
	}
	if o.faults {
		return runFaults(ctx, o)
	}
	programs, err := build(ctx, o)
	if err != nil {
		return err
	}
	listed, err := programs.list(ctx, o.artifacts)
	if err != nil {
		return err
	}
	if golden, err = golden.reconcile(listed, o.update); err != nil {
		return err
	}
	selected := golden.selected(o)
	if len(selected) == 0 {
		return errors.New("no spec is selected")
	}
	results, err := runSpecs(ctx, o, programs, selected)
	if err != nil {
		return err
	}
	golden.print(os.Stdout, results)
	if o.update {
		return golden.update(results).write(specsFile)
	}
	return results.verdict(golden)
}

// runSpecs starts the cluster, runs the specs, and makes the checks that follow them.
func runSpecs(ctx context.Context, o *options, p *programs, selected []string) (results, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c, err := startCluster(ctx, cancel, o, p)
	if err != nil {
		c.stop()
		return nil, err
	}
	began := time.Now()
	var w *writer
	if o.kill > 0 {
		if w, err = startWriter(ctx, c.kubeconfig); err != nil {
			c.stop()
			return nil, err
		}
		c.startKiller(ctx, o.kill)
	}
	results, err := p.run(ctx, o, c, selected)
	if cause := context.Cause(ctx); cause != nil {
		err = cause // a program of the cluster has ended, or the user has interrupted the run
	}
	if c.killer != nil {
		err = errors.Join(err, c.stopKiller())
	}
	if w != nil && ctx.Err() == nil {
		err = errors.Join(err, w.check(ctx))
	}
	if ctx.Err() == nil {
		err = errors.Join(err, c.check(ctx))
	}
	c.stop()
	if o.real {
		return results, err
	}
	err = errors.Join(err, checkLogs(c.serverLogs()))
	fmt.Printf("%d specs ran in %s\n", len(results), time.Since(began).Round(time.Second))
	return results, err
}
