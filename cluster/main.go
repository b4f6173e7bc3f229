// Command cluster runs a simulated Kubernetes cluster: `espalier serve` as its API server, the real
// kube-controller-manager and kube-scheduler, and kwok, which simulates nodes and the life of their pods. No
// containers run.
//
//	go run -C cluster . --nodes 3
//
// It imports none of them: espalier and the components depend on different versions of Kubernetes' packages, which
// cannot be in one module. It builds both programs and runs them as processes.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"espalier.dev/cluster/internal/controlplane"
	"espalier.dev/internal/process"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// The exit codes, as those of espalier.
const (
	exitSuccess = 0
	exitFailure = 1
	exitUsage   = 2
)

// run runs the command, and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args)
	if errors.Is(err, errHelp) {
		fmt.Fprint(stdout, help)
		return exitSuccess
	}
	if err != nil {
		fmt.Fprintf(stderr, "cluster: %v\n", err)
		return exitUsage
	}
	l := &launcher{options: o, stdout: stdout, stderr: stderr}
	err = l.run(ctx)
	var exit *exitError
	switch {
	case errors.As(err, &exit): // the server has said why
		return exit.code
	case err != nil && ctx.Err() != nil: // stopped before it was ready
		return exitSuccess
	case err != nil:
		fmt.Fprintf(stderr, "cluster: %v\n", err)
		return exitFailure
	}
	return exitSuccess
}

// exitError is the end of the server with an error that it has printed.
type exitError struct{ code int }

func (e *exitError) Error() string {
	return fmt.Sprintf("the API server has exited with code %d", e.code)
}

// serverGrace is the time that the server has to finish its requests.
const serverGrace = 15 * time.Second

// launcher runs a cluster.
type launcher struct {
	options        *options
	stdout, stderr io.Writer
}

// run runs the cluster until the context is done or the server ends.
func (l *launcher) run(ctx context.Context) error {
	begin := time.Now()
	programs, err := l.find(ctx)
	if err != nil {
		return err
	}
	if built := time.Since(begin); built > time.Second {
		begin = time.Now() // building is not a part of the start
	}
	// Broken stages are found before anything runs, at the same time as the server starts.
	type result struct {
		stages []byte
		err    error
	}
	checked := make(chan result, 1)
	if l.options.stages != "" {
		stages, err := controlplane.Stages(ctx, programs.components, l.options.stages)
		if err != nil {
			return err
		}
		checked <- result{stages: stages}
	} else {
		go func() {
			stages, err := controlplane.Stages(ctx, programs.components, "")
			checked <- result{stages, err}
		}()
	}
	announced := newAnnouncement()
	server, err := process.Start(process.Program{
		Name: "the API server", Path: programs.espalier, Args: append([]string{"serve"}, l.options.serve...),
		Stdout: announced, Stderr: l.stderr,
	})
	if err != nil {
		return err
	}
	defer server.Stop(serverGrace)
	ended := func() error {
		switch code := server.ExitCode(); {
		case code < 0:
			return fmt.Errorf("the API server has ended: %w", server.Err())
		case code > 0:
			return &exitError{code}
		}
		return nil
	}
	select {
	case <-announced.ready:
	case <-server.Done():
		return ended()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	stages := <-checked
	if stages.err != nil {
		return stages.err
	}
	plane, err := controlplane.Start(ctx, controlplane.Config{
		Binary: programs.components, Kubeconfig: announced.kubeconfig, Nodes: l.options.nodes, Stages: stages.stages,
		Directory: l.options.logs(), Keys: l.options.keys(),
		ServerControllers: controlplane.RunByServer(l.options.controllers()),
		Report:            func(message string) { fmt.Fprintf(l.stderr, "cluster: %s\n", message) },
	})
	if err != nil {
		return err
	}
	defer plane.Stop() // before the server, which they need to release their leases
	for {
		select {
		case err := <-plane.Ready():
			if err != nil {
				return err
			}
			l.announce(announced, time.Since(begin))
		case <-server.Done():
			return ended()
		case <-ctx.Done():
			return nil
		}
	}
}

// announce prints that the cluster is ready, and how to use it.
func (l *launcher) announce(a *announcement, after time.Duration) {
	nodes := fmt.Sprintf("%d nodes", l.options.nodes)
	if l.options.nodes == 1 {
		nodes = "1 node"
	}
	fmt.Fprintf(l.stdout, `The cluster is ready at %s, with %s, after %.1fs. To use it:

  export KUBECONFIG=%s
  kubectl get nodes

`, a.url, nodes, after.Seconds(), a.quoted)
	if rest := strings.TrimSpace(a.rest()); rest != "" {
		fmt.Fprintf(l.stdout, "%s\n\n", rest)
	}
}
