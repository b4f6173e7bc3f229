package store

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Snapshot is the index at one revision. It never changes and is safe for concurrent use. It
// keeps the entries of its revision in memory.
type Snapshot struct {
	Revision   int64
	tree       *tree
	generation int64
}

// Snapshot returns the index at its current revision.
func (s *Store) Snapshot() *Snapshot {
	s.mu.RLock()
	snap := s.snapshot
	s.mu.RUnlock()
	if snap != nil {
		return snap
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.snapshot == nil {
		// The tree and its clone share all nodes until one of them changes.
		s.snapshot = &Snapshot{Revision: s.revision.Load(), tree: s.tree.clone(), generation: s.indexed}
	}
	return s.snapshot
}

// Get returns the entry of a key, or nil.
func (s *Snapshot) Get(key string) *Entry { return s.tree.get(key) }

// Range returns the entries below a prefix in the order of their keys, from the key start on
// if start is not empty.
func (s *Snapshot) Range(prefix, start string) iter.Seq[*Entry] {
	return func(yield func(*Entry) bool) {
		for e := range s.tree.from(max(prefix, start)) {
			if !within(e.Key, prefix) || !yield(e) {
				return
			}
		}
	}
}

// Count returns the number of entries that Range returns. It costs about as much as Get.
func (s *Snapshot) Count(prefix, start string) int64 {
	end := s.tree.len()
	if after := clientv3.GetPrefixRangeEnd(prefix); after != "\x00" { // or else no key is after those below the prefix
		end = s.tree.position(after)
	}
	return int64(max(0, end-s.tree.position(max(prefix, start))))
}

// Holds reports whether the entries below a prefix are exactly these, in the order of their
// keys. It is cheaper than a snapshot.
func (s *Store) Holds(prefix string, entries []*Entry) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	n := 0
	for e := range s.tree.from(prefix) {
		if !within(e.Key, prefix) {
			break
		}
		if n == len(entries) || entries[n] != e {
			return false
		}
		n++
	}
	return n == len(entries)
}

// The number of snapshots that are kept for lists in parts, and for how long. Each keeps the
// entries in memory that have changed since. Afterwards, etcd is asked.
const (
	maxKept  = 32
	keepTime = time.Minute
)

// kept are the snapshots that clients will ask for again. A timer removes them when they have
// expired. It exists while there are any, and ends with close.
type kept struct {
	mu         sync.Mutex
	snaps      []keptSnapshot // in the order of their expiry
	generation int64          // only snapshots of this one are kept
	timer      *time.Timer
	closed     bool
}

type keptSnapshot struct {
	*Snapshot
	expires time.Time
}

func (k *kept) prune(now time.Time) {
	n := 0
	for n < len(k.snaps) && (now.After(k.snaps[n].expires) || len(k.snaps)-n > maxKept) {
		n++
	}
	k.snaps = append([]keptSnapshot(nil), k.snaps[n:]...)
}

// expire removes the snapshots that have expired, and sets the timer to the next. mu is held.
func (k *kept) expire(now time.Time) {
	k.prune(now)
	if k.timer != nil {
		k.timer.Stop()
		k.timer = nil
	}
	if len(k.snaps) > 0 {
		// An expiry is exclusive.
		k.timer = time.AfterFunc(k.snaps[0].expires.Sub(now)+time.Millisecond, func() {
			k.mu.Lock()
			defer k.mu.Unlock()
			if !k.closed {
				k.expire(time.Now())
			}
		})
	}
}

// restart forgets the snapshots, and keeps those of another generation from now on.
func (k *kept) restart(generation int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.generation, k.snaps = generation, nil
}

// close forgets the snapshots and stops the timer.
func (k *kept) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed, k.snaps = true, nil
	if k.timer != nil {
		k.timer.Stop()
	}
}

// Keep keeps a snapshot for a while, so that [Store.SnapshotAt] finds it, because a client got
// a part of it.
func (s *Store) Keep(snap *Snapshot) { s.kept.keep(snap, keepTime) }

func (k *kept) keep(snap *Snapshot, d time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed || snap.generation != k.generation {
		return
	}
	now := time.Now()
	for i, have := range k.snaps {
		if have.Revision == snap.Revision {
			k.snaps = append(k.snaps[:i], k.snaps[i+1:]...)
			break
		}
	}
	k.snaps = append(k.snaps, keptSnapshot{snap, now.Add(d)})
	k.expire(now)
}

// SnapshotAt returns the snapshot of exactly this revision, or nil if it is not in memory. Then
// [Store.ListAt] asks etcd.
func (s *Store) SnapshotAt(revision int64) *Snapshot {
	if snap := s.Snapshot(); snap.Revision == revision {
		return snap
	}
	k := &s.kept
	k.mu.Lock()
	defer k.mu.Unlock()
	k.prune(time.Now())
	for _, have := range k.snaps {
		if have.Revision == revision {
			return have.Snapshot
		}
	}
	return nil
}

// ListAt reads the entries below a prefix at a revision from etcd, from the key start on if
// start is not empty, and at most limit of them if limit is not zero. Revision zero means the
// newest. It returns the number of entries that are left. If etcd has compacted the revision,
// the error is an [ExpiredError]; if it has not reached it, a [BehindError].
func (s *Store) ListAt(ctx context.Context, prefix, start string, revision, limit int64) (entries []*Entry, at, left int64, err error) {
	waiting, cancel := limited(ctx)
	defer cancel()
	resp, err := s.client.Get(waiting, max(prefix, start), clientv3.WithRange(clientv3.GetPrefixRangeEnd(prefix)),
		clientv3.WithRev(revision), clientv3.WithLimit(limit))
	switch {
	case errors.Is(err, rpctypes.ErrCompacted):
		return nil, 0, 0, &ExpiredError{Revision: revision}
	case errors.Is(err, rpctypes.ErrFutureRev):
		return nil, 0, 0, &BehindError{Want: revision, Have: s.Revision()}
	case err != nil:
		return nil, 0, 0, failure(ctx, err, false)
	}
	for _, kv := range resp.Kvs {
		entries = append(entries, s.entry(ctx, kv))
	}
	if at = revision; at == 0 {
		at = resp.Header.Revision
	}
	return entries, at, resp.Count - int64(len(resp.Kvs)), nil
}

// Read reads the entry of a key from etcd, or nil if there is none, and the revision of etcd.
func (s *Store) Read(ctx context.Context, key string) (*Entry, int64, error) {
	waiting, cancel := limited(ctx)
	defer cancel()
	resp, err := s.client.Get(waiting, key)
	if err != nil {
		return nil, 0, failure(ctx, err, false)
	}
	if len(resp.Kvs) == 0 {
		return nil, resp.Header.Revision, nil
	}
	return s.entry(ctx, resp.Kvs[0]), resp.Header.Revision, nil
}
