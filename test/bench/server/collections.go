package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
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
		if err := s.createCRD(ctx, mainKind); err != nil {
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

// newBuffers returns a buffer for each client.
func newBuffers(s *server) []bytes.Buffer { return make([]bytes.Buffer, len(s.clients)) }
