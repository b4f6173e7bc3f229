package memory

import (
	"context"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// maxRevisions is the maximum number of revisions in an answer, as in etcd.
	maxRevisions = 1000
	// maxBehind is the number of revisions that a compaction leaves to a watch which has not
	// received them. One that is further behind ends, so that it does not keep them forever.
	maxBehind = 1000
	// progressInterval is the interval at which watches report their progress that ask for it.
	progressInterval = 10 * time.Minute
)

// watcher is the clientv3.Watcher of a client. That of etcd cannot be used: it has a channel for the
// whole process, so that time in a bubble would not advance while there is a watch.
//
// Each watch has a goroutine, which ends with its context, with Close, or with the DB. Close waits
// for them.
type watcher struct {
	db       *DB
	lifetime context.Context
	stop     context.CancelFunc
	running  sync.WaitGroup

	mu      sync.Mutex
	watches map[*watch]struct{}
}

// NewWatcher returns a watcher of its own, as clientv3.NewWatcher does for clients with a
// connection. A request for progress is one for all watches of a watcher. The caller must close it.
func (db *DB) NewWatcher() clientv3.Watcher {
	w := &watcher{db: db, watches: map[*watch]struct{}{}}
	w.lifetime, w.stop = context.WithCancel(context.Background())
	return w
}

// Watch starts a watch.
func (w *watcher) Watch(ctx context.Context, key string, opts ...clientv3.OpOption) clientv3.WatchChan {
	out := make(chan clientv3.WatchResponse)
	op := clientv3.OpWatch(key, opts...)
	from := op.KeyBytes()
	if len(from) == 0 {
		from = []byte{0} // the first of all keys
	}
	watch := &watch{
		span: newSpan(from, op.RangeBytes()), start: op.Rev(), ready: make(chan struct{}, 1),
		noPut: op.IsFilterPut(), noDelete: op.IsFilterDelete(), prevKV: op.IsPrevKV(), notify: op.IsProgressNotify(), quiet: true,
	}
	first := w.add(watch)
	send := func(resp *clientv3.WatchResponse) bool {
		select {
		case out <- *resp:
			return !resp.Canceled
		case <-ctx.Done():
		case <-w.lifetime.Done():
		}
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lifetime.Err() != nil {
		w.db.remove(watch)
		close(out)
		return out
	}
	w.watches[watch] = struct{}{}
	w.running.Go(func() {
		defer close(out)
		defer w.remove(watch)
		if (first.Canceled || op.IsCreatedNotify()) && !send(first) {
			return
		}
		watch.run(ctx, w, send)
	})
	return out
}

// add adds a watch to the DB, and returns the first answer.
func (w *watcher) add(watch *watch) *clientv3.WatchResponse {
	db := w.db
	db.mu.Lock()
	defer db.mu.Unlock()
	revision := db.state.Load().revision
	out := &clientv3.WatchResponse{Header: header(revision), Canceled: true}
	switch {
	case db.closed:
		out.CancelReason = rpctypes.ErrorDesc(rpctypes.ErrGRPCStopped)
	case watch.start < 0:
		out.CancelReason = rpctypes.ErrorDesc(rpctypes.ErrGRPCCompacted)
	case watch.span.end != "" && watch.span.key >= watch.span.end:
		out.CancelReason = "mvcc: watcher range is empty"
	default:
		if watch.next = watch.start; watch.next == 0 {
			watch.next = revision + 1
		}
		db.watches[watch] = struct{}{}
		return &clientv3.WatchResponse{Header: out.Header, Created: true}
	}
	return out
}

// remove removes a watch that has ended.
func (w *watcher) remove(watch *watch) {
	w.db.remove(watch)
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.watches, watch)
}

func (db *DB) remove(watch *watch) {
	db.mu.Lock()
	defer db.mu.Unlock()
	delete(db.watches, watch)
}

// RequestProgress makes all watches report the revision that they have reached. As in etcd, there
// are no reports if one of the watches begins in the future.
func (w *watcher) RequestProgress(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	revision := w.db.state.Load().revision
	for watch := range w.watches {
		if watch.start > revision {
			return nil
		}
	}
	for watch := range w.watches {
		watch.mu.Lock()
		watch.progress = true
		watch.mu.Unlock()
		watch.wake()
	}
	return nil
}

// Close ends all watches.
func (w *watcher) Close() error {
	w.mu.Lock()
	w.stop()
	w.mu.Unlock()
	w.running.Wait()
	return nil
}

// watch is a watch.
type watch struct {
	span                    span
	start                   int64 // the first revision that was asked for, or zero
	noPut, noDelete, prevKV bool
	notify                  bool          // it reports its progress
	ready                   chan struct{} // has an element if there may be something to do

	// mu guards the fields below. If both are held, that of the DB comes first.
	mu   sync.Mutex
	next int64 // the next revision to look at
	// kept has the revisions from next on, if a compaction has removed them.
	kept history
	// progress is set if the client has requested a report of progress.
	progress bool
	// quiet is set if nothing was sent since the last tick.
	quiet bool
}

func (w *watch) wake() {
	select {
	case w.ready <- struct{}{}:
	default: // it is awake
	}
}

// keep keeps revisions that the watch has not looked at, before a compaction removes them. mu of the
// DB is held.
func (w *watch) keep(st *State, compacted int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.next >= compacted:
	case st.revision-w.next >= maxBehind:
		w.kept = history{}
	case w.next >= st.history.first:
		w.kept = st.history
	case w.kept.n > 0: // an earlier compaction has removed the first of them
		w.kept = w.kept.clone()
		for r := w.kept.last() + 1; r <= st.revision; r++ {
			w.kept = w.kept.append(*st.history.at(r))
		}
	}
}

// run sends events until send returns false, or the DB is closed.
func (w *watch) run(ctx context.Context, owner *watcher, send func(*clientv3.WatchResponse) bool) {
	var tick <-chan time.Time
	if w.notify {
		ticker := time.NewTicker(progressInterval)
		defer ticker.Stop()
		tick = ticker.C
	}
	for {
		if resp := w.answer(owner.db); resp != nil {
			if !send(resp) {
				return
			}
			continue
		}
		select {
		case <-w.ready:
		case <-tick:
			w.tick()
		case <-ctx.Done():
			return
		case <-owner.lifetime.Done():
			return
		case <-owner.db.done:
			send(&clientv3.WatchResponse{Header: &pb.ResponseHeader{}, Canceled: true, CancelReason: rpctypes.ErrorDesc(rpctypes.ErrGRPCStopped)})
			return
		}
	}
}

// tick makes the watch report its progress, if it has sent nothing since the last tick.
func (w *watch) tick() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.progress = w.progress || w.quiet && w.next > w.start
	w.quiet = true
}

// answer returns the next answer, or nil if there is nothing to send.
func (w *watch) answer(db *DB) *clientv3.WatchResponse {
	w.mu.Lock()
	defer w.mu.Unlock()
	// Not before the lock: a compaction since then would have kept revisions that this state lacks.
	st := db.state.Load()
	h := st.history
	switch {
	case w.next >= st.compacted:
		w.kept = history{}
	case w.kept.n > 0:
		h = w.kept
	default:
		return &clientv3.WatchResponse{Header: header(0), Canceled: true, CompactRevision: st.compacted}
	}
	last := min(st.revision, h.last())
	var events []*clientv3.Event
	for revisions := 0; w.next <= last && revisions < maxRevisions; w.next++ {
		n := len(events)
		for _, e := range h.at(w.next).events {
			if w.wants(e) {
				events = append(events, (*clientv3.Event)(w.event(st, h, e)))
			}
		}
		if len(events) > n {
			revisions++
		}
	}
	switch {
	case len(events) > 0:
		w.quiet = false
	case w.progress && w.next > st.revision:
		w.progress = false
	default:
		return nil
	}
	return &clientv3.WatchResponse{Header: header(w.next - 1), Events: events}
}

func (w *watch) wants(e *item) bool {
	return w.span.contains(e.key) && !(e.deleted() && w.noDelete) && !(!e.deleted() && w.noPut)
}

// event returns an event. The previous version of the key is that of the revision before, if it can
// be read.
func (w *watch) event(st *State, h history, e *item) *mvccpb.Event {
	out := &mvccpb.Event{Kv: e.kv()}
	if e.deleted() {
		out.Type = mvccpb.Event_DELETE
	}
	if before := e.mod - 1; w.prevKV && e.create != e.mod && before >= st.compacted && before >= h.first {
		if old, ok := h.at(before).keys.Get(e.key); ok {
			out.PrevKv = old.kv()
		}
	}
	return out
}
