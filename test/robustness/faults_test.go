package robustness

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"

	"espalier.dev/test/robustness/internal/rig"
)

// fault is something that happens to a world for some time.
type fault struct {
	name string
	// forgets is set if a server may lose its window of recent events, so that watches from
	// before end with 410.
	forgets bool
	run     func(ctx context.Context, w *world) error
}

// faults returns all faults.
func faults() []fault {
	return []fault{
		{"compact", false, compact},
		{"move the leader", false, moveLeader},
		{"kill a member", false, killMember},
		{"pause the leader", false, pauseLeader},
		{"isolate the leader", false, isolateLeader},
		{"cut a server off", false, cutOff(rig.Cut, false)},
		{"stall a server's connections", false, cutOff(rig.Stalled, false)},
		{"lose the quorum", false, loseQuorum},
		{"pause a server", false, pauseServer},
		{"compact what a server has not seen", true, cutOff(rig.Cut, true)},
		{"kill all members", true, killAll},
		{"kill a server", true, killServer},
		{"change the schema", true, changeCRD(false)},
		{"change the storage version", true, changeCRD(true)},
		{"delete the CRD", true, deleteCRD},
	}
}

// hold waits while a fault lasts.
func (w *world) hold(ctx context.Context, about time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(about/2 + time.Duration(w.rand.Int64N(int64(about)))):
	}
}

// compact discards all history up to the current revision, after all servers have seen it.
func compact(ctx context.Context, w *world) error {
	revision, err := w.etcd.Revision(ctx)
	if err != nil {
		return err
	}
	for _, s := range w.servers {
		// A list at a revision or a later one waits for it.
		path := fmt.Sprintf("%s?resourceVersion=%d", collection(versions[0], ""), revision)
		if err := w.write(ctx, s, http.MethodGet, path, nil, func(code int) bool { return code == http.StatusOK }); err != nil {
			return err
		}
	}
	return discard(ctx, w)
}

// discard discards all history up to the current revision.
func discard(ctx context.Context, w *world) error {
	revision, err := w.etcd.Revision(ctx)
	if err != nil {
		return err
	}
	if err := w.collector.Sync(ctx, revision); err != nil {
		return err
	}
	_, err = w.etcd.Client.Compact(ctx, revision)
	return err
}

func moveLeader(ctx context.Context, w *world) error {
	leader, err := w.etcd.Leader(ctx)
	if err != nil {
		return err
	}
	client, err := leader.Dial()
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	list, err := client.MemberList(ctx)
	if err != nil {
		return err
	}
	status, err := client.Status(ctx, client.Endpoints()[0])
	if err != nil {
		return err
	}
	others := slices.DeleteFunc(list.Members, func(m *etcdserverpb.Member) bool { return m.ID == status.Leader })
	_, err = client.MoveLeader(ctx, pick(w.rand, others).ID)
	return err
}

func killMember(ctx context.Context, w *world) error {
	m := pick(w.rand, w.etcd.Members)
	m.Kill()
	w.hold(ctx, time.Second)
	m.Start()
	return nil
}

func killAll(ctx context.Context, w *world) error {
	for _, m := range w.etcd.Members {
		m.Kill()
	}
	w.hold(ctx, time.Second)
	for _, m := range w.etcd.Members {
		m.Start()
	}
	return w.etcdReady(ctx)
}

func loseQuorum(ctx context.Context, w *world) error {
	lost := w.etcd.Members[:len(w.etcd.Members)/2+1]
	for _, m := range lost {
		m.Kill()
	}
	w.hold(ctx, time.Second)
	for _, m := range lost {
		m.Start()
	}
	return w.etcdReady(ctx)
}

func pauseLeader(ctx context.Context, w *world) error {
	leader, err := w.etcd.Leader(ctx)
	if err != nil {
		return err
	}
	leader.Pause()
	w.hold(ctx, 2*time.Second)
	leader.Resume()
	return nil
}

// isolateLeader separates the leader from the other members, but not from the servers: a
// server that is connected to it must not return old data as consistent.
func isolateLeader(ctx context.Context, w *world) error {
	leader, err := w.etcd.Leader(ctx)
	if err != nil {
		return err
	}
	link := pick(w.rand, []rig.Link{rig.Cut, rig.Stalled})
	w.etcd.Isolate(leader, link)
	w.hold(ctx, 3*time.Second)
	w.etcd.Isolate(leader, rig.Up)
	return w.etcdReady(ctx)
}

// cutOff separates a server from etcd, while other servers are connected. If history is set,
// what happens meanwhile is compacted before the server is connected again.
func cutOff(link rig.Link, history bool) func(context.Context, *world) error {
	return func(ctx context.Context, w *world) error {
		n := w.rand.IntN(len(w.servers))
		set := func(link rig.Link) {
			for _, p := range w.links[n] {
				p.Set(link)
			}
		}
		set(link)
		w.hold(ctx, 1500*time.Millisecond)
		var err error
		if history {
			err = discard(ctx, w)
		}
		set(rig.Up)
		return err
	}
}

func pauseServer(ctx context.Context, w *world) error {
	s := pick(w.rand, w.servers)
	s.Pause()
	w.hold(ctx, time.Second)
	s.Resume()
	return nil
}

func killServer(ctx context.Context, w *world) error {
	s := pick(w.rand, w.servers)
	s.Kill()
	w.hold(ctx, 300*time.Millisecond)
	s.Start(ctx)
	return nil
}

// changeCRD changes the schema, and the storage version if that is set.
func changeCRD(storage bool) func(context.Context, *world) error {
	return func(ctx context.Context, w *world) error {
		w.changes++
		if storage {
			w.storage = 1 - w.storage
		}
		patch := map[string]any{"spec": definition(versions[w.storage], fmt.Sprint("change ", w.changes))["spec"]}
		return w.write(ctx, nil, http.MethodPatch, crdPath+"/"+crdName, patch, func(code int) bool { return code == http.StatusOK })
	}
}

// deleteCRD deletes the CRD with all objects and creates it again.
func deleteCRD(ctx context.Context, w *world) error {
	w.collector.Sweep()
	if err := w.write(ctx, nil, http.MethodDelete, crdPath+"/"+crdName, nil, func(code int) bool { return code == http.StatusNotFound }); err != nil {
		return fmt.Errorf("delete the CRD: %w", err)
	}
	w.hold(ctx, 200*time.Millisecond)
	return w.write(ctx, nil, http.MethodPost, crdPath, definition(versions[w.storage], "again"), func(code int) bool {
		return code == http.StatusCreated || code == http.StatusConflict // of a request without an answer
	})
}

// write sends a request to a server, or to any if it is nil, until its code is as wanted.
func (w *world) write(ctx context.Context, s *rig.Server, method, path string, body any, done func(code int) bool) error {
	var last error
	for ctx.Err() == nil {
		attempt, cancel := context.WithTimeout(ctx, requestTimeout)
		to := s
		if to == nil {
			to = pick(w.rand, w.servers)
		}
		a, err := newClient(to).do(attempt, method, path, contentType(method, false), body)
		cancel()
		if err == nil && done(a.code) {
			return nil
		}
		last = fmt.Errorf("%v %w", a, err)
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
	return fmt.Errorf("%s %s: %w", method, path, last)
}

// etcdReady waits until etcd answers.
func (w *world) etcdReady(ctx context.Context) error {
	for {
		attempt, cancel := context.WithTimeout(ctx, 2*time.Second)
		_, err := w.etcd.Revision(attempt)
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
}

// disturbances counts faults after which watches may end with 410.
type disturbances struct {
	mu sync.Mutex
	n  int
}

func (d *disturbances) add() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.n++
}

func (d *disturbances) none() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.n == 0
}
