package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

const (
	// listed is the number of objects in a list.
	listed = 5000
	// listClients is the number of concurrent lists: more of them need gigabytes.
	listClients = 2
)

// measureLists measures lists of objects, and the memory of the objects.
func measureLists(ctx context.Context, b *bench) (err error) {
	servers, stop, err := b.startServers(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	heaps, details := figures{}, map[string]float64{}
	for _, s := range servers {
		if err := s.createCRD(ctx, mainKind, true); err != nil {
			return err
		}
		kb, size, err := s.fillAndWeigh(ctx, listed)
		if err != nil {
			return err
		}
		heaps[s.name] = kb / size
		details[s.name+" bytes"], details[s.name+" JSON bytes"] = kb, size
	}
	b.record("heap-object", heaps, details)
	for _, gzip := range []bool{false, true} {
		w := work{row: "list", clients: listClients, calls: b.settings.lists, prepare: func(_ context.Context, s *server) (operation, error) {
			buffers := make([]bytes.Buffer, listClients)
			return func(ctx context.Context, c, _ int) error {
				if err := s.send(ctx, s.clients[c], request{method: http.MethodGet, path: collection(mainKind), gzip: gzip}, &buffers[c]); err != nil {
					return err
				}
				// The object from which the others are copied is in the list, too.
				if n := bytes.Count(buffers[c].Bytes(), []byte(`"creationTimestamp"`)); !gzip && n != listed+1 {
					return fmt.Errorf("%s: the list has %d objects, want %d", s.name, n, listed+1)
				}
				return nil
			}, nil
		}}
		if gzip {
			w.row = "list-gzip"
		}
		if err := b.compare(ctx, servers, w); err != nil {
			return err
		}
	}
	return nil
}

// fillAndWeigh writes objects and returns how much heap and how much JSON one of them has.
func (s *server) fillAndWeigh(ctx context.Context, n int) (heap, size float64, err error) {
	before, err := s.heap(ctx)
	if err != nil {
		return 0, 0, err
	}
	if size, err = s.fill(ctx, mainKind, "list", n); err != nil {
		return 0, 0, err
	}
	if err := s.settle(ctx); err != nil {
		return 0, 0, err
	}
	after, err := s.heap(ctx)
	return (after - before) / float64(n), size, err
}

// measureManyObjects measures a server with many objects.
func measureManyObjects(ctx context.Context, b *bench) (err error) {
	n := b.settings.manyObjects
	if n == 0 {
		return nil
	}
	heap, rss, get, restart := figures{}, figures{}, figures{}, figures{}
	for _, name := range b.names() {
		if err := func() (err error) {
			s, err := b.startServer(ctx, name)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, s.stop()) }()
			if err := s.createCRD(ctx, mainKind, true); err != nil {
				return err
			}
			bytes, size, err := s.fillAndWeigh(ctx, n)
			if err != nil {
				return err
			}
			heap[name] = bytes / size
			first := fmt.Sprintf("%s/list-%07d?resourceVersion=0", collection(mainKind), n/2)
			elapsed, _, err := s.restart(ctx, func() error { _, err := s.get(ctx, first); return err })
			if err != nil {
				return err
			}
			restart[name] = elapsed.Seconds()
			if err := s.settle(ctx); err != nil {
				return err
			}
			if rss[name], err = s.process.anonymous(); err != nil {
				return err
			}
			rss[name] /= 1 << 20
			buffers := newBuffers(s)
			op := func(ctx context.Context, c, i int) error {
				path := fmt.Sprintf("%s/list-%07d", collection(mainKind), i*7919%n)
				return s.send(ctx, s.clients[c], request{method: http.MethodGet, path: path}, &buffers[c])
			}
			for _, d := range []time.Duration{b.settings.turn / 4, 2 * b.settings.turn} { // the first warms up
				l, err := s.spend(ctx, concurrency, d, 0, op)
				if err != nil {
					return err
				}
				get[name] = l.perRequest()
			}
			return nil
		}(); err != nil {
			return fmt.Errorf("%d objects: %s: %w", n, name, err)
		}
	}
	b.record("objects-heap", heap, map[string]float64{"objects": float64(n)})
	b.record("objects-rss", rss, nil)
	b.record("objects-get", get, nil)
	b.record("objects-restart", restart, nil)
	return nil
}

// newBuffers returns a buffer for each client.
func newBuffers(s *server) []bytes.Buffer { return make([]bytes.Buffer, len(s.clients)) }
