package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"espalier.dev/cmd/espalier/internal/report"
)

// interruption is the cause of a context that a signal has cancelled.
type interruption struct{ signal syscall.Signal }

// Error returns the message for the user.
func (i *interruption) Error() string {
	if i.signal == syscall.SIGTERM {
		return "terminated"
	}
	return "interrupted"
}

// code returns the exit code that shells use for the signal: 130 for Ctrl-C, 143 for SIGTERM.
func (i *interruption) code() report.ExitError { return report.ExitError(128 + int(i.signal)) }

// withSignals returns a context that is cancelled by the first SIGINT or SIGTERM. The next one
// kills the process as usual.
func withSignals(parent context.Context) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer signal.Stop(signals)
		select {
		case s := <-signals:
			number, _ := s.(syscall.Signal) // as on all systems that Go supports
			cancel(&interruption{number})
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		cancel(nil)
		<-done
	}
}

// interruptionOf returns the signal that has cancelled a context. A context that was cancelled
// for another reason counts as interrupted by the user.
func interruptionOf(ctx context.Context) *interruption {
	var i *interruption
	if errors.As(context.Cause(ctx), &i) {
		return i
	}
	return &interruption{syscall.SIGINT}
}
