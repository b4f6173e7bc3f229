// Command espalier lints, tests and compares CustomResourceDefinitions, validates custom
// resources against them, and serves them as an API server, all without a cluster.
package main

import (
	"context"
	"io"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"espalier.dev/cmd/espalier/internal/heap"
)

func main() {
	if code, ok := runAs(os.Args); ok {
		os.Exit(code)
	}
	logConnections()
	ctx, stop := withSignals(context.Background())
	var expected atomic.Int64
	a := &app{
		program: os.Args[0],
		stdin:   &interruptible{ctx: ctx, in: os.Stdin},
		stdout:  os.Stdout,
		stderr:  os.Stderr,
		environ: os.LookupEnv,
		tune: func() {
			runtime.MemProfileRate = 0 // no command but serve has profiles
			heap.Postpone(smallHeap)
			time.AfterFunc(shortCommand, releaseProgram)
		},
		expect: func(bytes int64) {
			heap.Postpone(smallHeap + uint64(min(growth*expected.Add(bytes), maxGrowth)))
		},
		silence: silenceLogs,
	}
	code := a.run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

// smallHeap is the size of the heap up to which a command does not collect garbage: without it,
// a short command spends a fifth of its time collecting.
const smallHeap = 32 << 20

// shortCommand is the time after which a command releases the memory that only its start has needed. Commands that take less do
// without.
const shortCommand = 60 * time.Millisecond

// growth is how much larger the heap may be for each byte of a CRD, and maxGrowth how much in all. What a command
// compiles of CRDs needs several times the memory of their text, and stays in use: collections before that find
// little, and take the texts that are about to be used.
const (
	growth    = 11
	maxGrowth = 160 << 20
)

// interruptible is a reader whose Read returns when the context is done, even without
// input.
type interruptible struct {
	ctx context.Context
	in  io.Reader
}

// Read reads from the underlying reader, or returns the error of the context.
func (r *interruptible) Read(p []byte) (int, error) {
	type result struct {
		n   int
		err error
	}
	// The read may outlive this call, so it must not write to p.
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
