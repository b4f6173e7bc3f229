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
	"slices"
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
	}
	if !slices.Contains(os.Args[1:], "serve") {
		spendMemory(os.LookupEnv)
	}
	os.Exit(a.run(ctx, os.Args[1:]))
}

// spendMemory lets garbage lie longer than usual: a command that is over in a second or
// two need not spend a fifth of them on tidying up. Where there is much in memory
// it tidies up as always. Whoever has set the environment knows better.
func spendMemory(environ func(string) (string, bool)) {
	const percent, limit = 400, 2 << 30
	if _, set := environ("GOGC"); !set {
		debug.SetGCPercent(percent)
	}
	if _, set := environ("GOMEMLIMIT"); !set {
		debug.SetMemoryLimit(limit)
	}
}

// interruptible is a reader that does not keep somebody at a terminal waiting who
// wants to leave.
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
	// The buffer is not p: the read may end long after p is somebody else's.
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
