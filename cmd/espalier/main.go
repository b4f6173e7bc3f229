// Command espalier answers offline what otherwise takes a cluster: whether a
// CustomResourceDefinition is right, what a server would do to an object and why,
// and whether a change is safe. It also is that server.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The next signal ends the program, whatever it is waiting for.
	context.AfterFunc(ctx, stop)
	a := &app{
		program: os.Args[0],
		stdin:   &interruptible{ctx: ctx, in: os.Stdin},
		stdout:  os.Stdout,
		stderr:  os.Stderr,
		environ: os.LookupEnv,
		tune:    func() { spendMemory(os.LookupEnv) },
	}
	os.Exit(a.run(ctx, os.Args[1:]))
}

// spendMemory lets the garbage collector run less often: a command that takes a second or
// two should not spend a fifth of it on collecting. Above the memory limit it collects as
// usual. GOGC and GOMEMLIMIT in the environment take precedence.
func spendMemory(environ func(string) (string, bool)) {
	const percent, limit = 400, 2 << 30
	if _, set := environ("GOGC"); !set {
		debug.SetGCPercent(percent)
	}
	if _, set := environ("GOMEMLIMIT"); !set {
		debug.SetMemoryLimit(limit)
	}
}

// interruptible is a reader whose reads end when the context does, even if no input
// comes.
type interruptible struct {
	ctx context.Context
	in  io.Reader
}

// Read reads, unless the context is done first.
func (r *interruptible) Read(p []byte) (int, error) {
	type result struct {
		n   int
		err error
	}
	// The buffer is not p: the read may end long after the caller uses p for something else.
	buffer := make([]byte, len(p))
	done := make(chan result, 1)
	go func() {
		n, err := r.in.Read(buffer)
		done <- result{n, err}
	}()
	select {
	case got := <-done:
		return copy(p, buffer[:got.n]), got.err
	case <-r.ctx.Done():
		return 0, r.ctx.Err()
	}
}
