// Command cmd runs Kubernetes' shell tests of kubectl (test/cmd) with espalier in place of
// kube-apiserver and etcd, and compares the functions that pass with a list.
//
//	go run . [-real] [-semantics SEMANTICS] [-focus REGEXP] [-race] [-kill INTERVAL]
//
// The scripts come from the Go module of Kubernetes, unmodified. Each function runs by itself in a
// new shell, with the real kubectl and the real kube-controller-manager. With -real, they run with
// the real kube-apiserver and etcd. The list, testdata/functions.txt, has a line for each function:
// whether it passes, or why it does not.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"syscall"
	"time"
)

func main() {
	r := &runner{list: "testdata/functions.txt"}
	flag.BoolVar(&r.real, "real", false, "run the real kube-apiserver and etcd")
	flag.StringVar(&r.semantics, "semantics", "kubernetes", "schema `semantics` of espalier: kep or kubernetes")
	focus := flag.String("focus", "", "run only functions whose name matches this `regexp`")
	flag.BoolVar(&r.race, "race", false, "build espalier with the race detector")
	flag.DurationVar(&r.kill, "kill", 0, "kill the server and start it again after each `interval`")
	flag.DurationVar(&r.timeout, "timeout", 10*time.Minute, "`time` that a function may take")
	flag.IntVar(&r.attempts, "attempts", 2, "`number` of runs of a function that fails")
	flag.StringVar(&r.output, "output", "", "`directory` for the output of failing functions and of the servers (default: a temporary one, which is kept if a function fails)")
	flag.StringVar(&r.espalier, "espalier", "", "`program` espalier (default: it is built)")
	flag.StringVar(&r.programs, "programs", "", "`directory` for the real programs; those that it has are not built again (default: a temporary one)")
	flag.BoolVar(&r.update, "update", false, "write the list, from a run of all functions with the real programs")
	flag.Parse()
	// When the run is interrupted, its processes end before the program does.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	var err error
	if r.focus, err = regexp.Compile(*focus); err == nil {
		err = r.run(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
