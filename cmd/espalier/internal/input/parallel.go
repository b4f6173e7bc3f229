package input

import (
	"context"
	"io"
	"os"
	"runtime"
	"sync"
)

const (
	// smallFile is the size up to which one worker reads a whole file. Larger files are
	// first split into documents.
	smallFile = 1 << 20
	// wholeFile is the size up to which a file is read at once, and without copies of its documents.
	wholeFile = 8 << 20
	// keptBytes is the size of the input whose documents have memory of their own even if
	// Flags.Transient is set: a few documents are likely to be used, and need not be read again then.
	keptBytes = 2 << 20
	// batchBytes and batchEntries are the approximate size of a batch: large enough to make
	// channel operations cheap, small enough to bound memory.
	batchBytes   = 512 << 10
	batchEntries = 64
)

// entry is a small file, a document, a chart or kustomization, or a problem.
type entry struct {
	file    file
	render  *rendering
	doc     *Document
	problem *Problem
}

// batch is a sequence of entries and their results.
type batch[T any] struct {
	entries []entry
	bytes   int
	// transient is set if the memory of the documents is used again.
	transient bool
	results   []outcome[T]
	done      chan struct{}
}

type outcome[T any] struct {
	problem *Problem
	value   T
}

// Parallel calls work concurrently for the documents of the input, and calls emit with the
// results and problem with the problems, sequentially and in the order of the input. Memory
// is bounded: it holds only a few documents per processor. Parallel returns the error of
// emit or ctx.
func Parallel[T any](ctx context.Context, stdin io.Reader, flags Flags, work func(*Document) T,
	emit func(T) error, problem func(Problem)) error {
	workers := runtime.GOMAXPROCS(0)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	queue := make(chan *batch[T], workers)
	order := make(chan *batch[T], 4*workers)
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			var memory scratch
			for b := range queue {
				b.run(ctx, &flags, &memory, work)
				close(b.done)
			}
		})
	}
	var failed error
	group.Go(func() {
		defer close(order)
		defer close(queue)
		failed = produce(ctx, stdin, flags, func(b *batch[T]) error {
			for _, c := range []chan *batch[T]{order, queue} {
				select {
				case c <- b:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			return nil
		})
	})
	err := collect(ctx, order, emit, problem)
	cancel()
	group.Wait()
	if err != nil {
		return err
	}
	return failed
}

// collect emits results in the order of their batches.
func collect[T any](ctx context.Context, order <-chan *batch[T], emit func(T) error, problem func(Problem)) error {
	for b := range order {
		select {
		case <-b.done:
		case <-ctx.Done():
			return ctx.Err()
		}
		for i := range b.results {
			if r := &b.results[i]; r.problem != nil {
				problem(*r.problem)
			} else if err := emit(r.value); err != nil {
				return err
			}
		}
	}
	return nil
}

// produce divides the input into batches.
func produce[T any](ctx context.Context, stdin io.Reader, flags Flags, send func(*batch[T]) error) error {
	next := &batch[T]{done: make(chan struct{})}
	total := 0
	flush := func() error {
		if len(next.entries) == 0 {
			return nil
		}
		b := next
		total += b.bytes
		next = &batch[T]{done: make(chan struct{}), transient: flags.Transient && total > keptBytes}
		return send(b)
	}
	add := func(e entry, size int) error {
		next.entries = append(next.entries, e)
		if next.bytes += size; next.bytes >= batchBytes || len(next.entries) >= batchEntries {
			return flush()
		}
		return nil
	}
	r := &reader{
		ctx:     ctx,
		flags:   &flags,
		visit:   func(d *Document) error { return add(entry{doc: d}, len(d.Source())) },
		problem: func(p Problem) { next.entries = append(next.entries, entry{problem: &p}) },
		small: func(f file, info os.FileInfo) (bool, error) {
			if !info.Mode().IsRegular() || info.Size() > smallFile || info.Size() < 0 {
				return false, nil
			}
			return true, add(entry{file: f}, int(info.Size()))
		},
		// Programs render several of them at the same time.
		later: func(x rendering) (bool, error) { return true, add(entry{render: &x}, batchBytes) },
	}
	if err := r.all(stdin); err != nil {
		return err
	}
	return flush()
}

// run processes the entries of the batch.
func (b *batch[T]) run(ctx context.Context, flags *Flags, memory *scratch, work func(*Document) T) {
	if !b.transient {
		memory = nil
	}
	fail := func(p Problem) { b.results = append(b.results, outcome[T]{problem: &p}) }
	visit := func(d *Document) error {
		b.results = append(b.results, outcome[T]{value: work(d)})
		return nil
	}
	r := &reader{ctx: ctx, flags: flags, visit: visit, problem: fail, scratch: memory}
	for _, e := range b.entries {
		switch {
		case ctx.Err() != nil:
			return // the results are not needed anymore
		case e.problem != nil:
			fail(*e.problem)
		case e.doc != nil:
			if e.doc.regular {
				e.doc.scratch = memory
			}
			_ = visit(e.doc)
		case e.render != nil:
			if r.rendered(*e.render) != nil {
				return // ctx is done
			}
		default:
			if r.file(e.file) != nil {
				return // ctx is done
			}
		}
	}
	b.entries = nil
}
