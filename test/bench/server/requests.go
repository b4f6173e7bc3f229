package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
)

const (
	// mainKind is the kind of the objects in requests.
	mainKind = "Workload"
	// read is the number of objects that are read in turns.
	read = 200
	// slots is the number of objects that each client writes in turns.
	slots = 4
	// deletions is the maximum number of objects that are deleted in a turn.
	deletions = 3000
)

// measureRequests measures requests for single objects.
func measureRequests(ctx context.Context, b *bench) (err error) {
	servers, stop, err := b.startServers(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	for _, s := range servers {
		if err := s.createCRD(ctx, mainKind); err != nil {
			return err
		}
		if _, err := s.fill(ctx, mainKind, "read", read); err != nil {
			return err
		}
	}
	for _, w := range []work{
		{row: "create", prepare: creating(mainKind)},
		{row: "get", prepare: getting("")},
		{row: "get-rv0", prepare: getting("?resourceVersion=0")},
		{row: "put", prepare: putting},
		{row: "apply", prepare: applying(true)},
		{row: "apply-same", prepare: applying(false)},
		deletion(),
	} {
		w.clients, w.turn = concurrency, b.settings.turn
		if err := b.compare(ctx, servers, w); err != nil {
			return err
		}
	}
	if b.wants("watch") || b.wants("watch-events") || b.wants("watch-p99") {
		return b.measureWatches(ctx, servers)
	}
	return nil
}

// creating returns an operation that creates objects.
func creating(kind string) func(context.Context, *server) (operation, error) {
	return func(_ context.Context, s *server) (operation, error) {
		var n atomic.Int64
		buffers := newBuffers(s)
		return func(ctx context.Context, c, _ int) error {
			return s.create(ctx, s.clients[c], kind, fmt.Sprintf("create-%d", n.Add(1)), &buffers[c])
		}, nil
	}
}

// getting returns an operation that reads objects.
func getting(query string) func(context.Context, *server) (operation, error) {
	return func(_ context.Context, s *server) (operation, error) {
		buffers := newBuffers(s)
		return func(ctx context.Context, c, i int) error {
			path := fmt.Sprintf("%s/read-%07d%s", collection(mainKind), i%read, query)
			if err := s.send(ctx, s.clients[c], request{method: http.MethodGet, path: path}, &buffers[c]); err != nil {
				return err
			}
			if buffers[c].Len() < 1000 {
				return fmt.Errorf("%s: GET %s: only %d bytes", s.name, path, buffers[c].Len())
			}
			return nil
		}, nil
	}
}

// putting returns an operation that changes an object that the client has read before, and
// sends it back. Each client has its own objects, so there are no conflicts.
func putting(ctx context.Context, s *server) (operation, error) {
	objects := make([][slots][]byte, len(s.clients))
	buffers := newBuffers(s)
	name := func(c, slot int) string { return fmt.Sprintf("put-%d-%d", c, slot) }
	for c := range objects {
		for slot := range slots {
			if err := s.create(ctx, s.admin, mainKind, name(c, slot), &buffers[c]); err != nil {
				return nil, err
			}
			objects[c][slot] = bytes.Clone(buffers[c].Bytes())
		}
	}
	calls := make([]int, len(s.clients))
	return func(ctx context.Context, c, _ int) error {
		calls[c]++
		slot := calls[c] % slots
		body, err := setReplicas(objects[c][slot], calls[c]/slots)
		if err != nil {
			return err
		}
		r := request{method: http.MethodPut, path: collection(mainKind) + "/" + name(c, slot), contentType: jsonType, body: body}
		if err := s.send(ctx, s.clients[c], r, &buffers[c]); err != nil {
			return err
		}
		objects[c][slot] = append(objects[c][slot][:0], buffers[c].Bytes()...)
		return nil
	}, nil
}

// applying returns an operation that applies an object, with or without a change.
func applying(change bool) func(context.Context, *server) (operation, error) {
	return func(ctx context.Context, s *server) (operation, error) {
		buffers := newBuffers(s)
		calls := make([]int, len(s.clients))
		apply := func(ctx context.Context, c, slot, replicas int) error {
			name := fmt.Sprintf("apply-%v-%d-%d", change, c, slot)
			body, err := setReplicas(newObject(mainKind, name), replicas)
			if err != nil {
				return err
			}
			return s.send(ctx, s.clients[c], request{
				method: http.MethodPatch, path: collection(mainKind) + "/" + name + "?fieldManager=bench&force=true",
				contentType: applyType, body: body,
			}, &buffers[c])
		}
		for c := range s.clients {
			for slot := range slots {
				if err := apply(ctx, c, slot, 0); err != nil {
					return nil, err
				}
			}
		}
		return func(ctx context.Context, c, _ int) error {
			calls[c]++
			replicas := 0
			if change {
				replicas = 1 + calls[c]/slots
			}
			return apply(ctx, c, calls[c]%slots, replicas)
		}, nil
	}
}

// deletion returns the row that deletes objects. They are written anew before each turn.
func deletion() work {
	var round atomic.Int64
	stems := map[string]string{} // by server
	var lock sync.Mutex
	return work{
		row: "delete", calls: deletions,
		before: func(ctx context.Context, s *server) error {
			stem := fmt.Sprintf("delete-%d", round.Add(1))
			lock.Lock()
			stems[s.name] = stem
			lock.Unlock()
			_, err := s.fill(ctx, mainKind, stem, deletions)
			return err
		},
		prepare: func(_ context.Context, s *server) (operation, error) {
			buffers := newBuffers(s)
			return func(ctx context.Context, c, i int) error {
				if i >= deletions {
					return nil // a profile takes longer than the objects last
				}
				path := fmt.Sprintf("%s/%s-%07d", collection(mainKind), stems[s.name], i)
				return s.send(ctx, s.clients[c], request{method: http.MethodDelete, path: path}, &buffers[c])
			}, nil
		},
	}
}
