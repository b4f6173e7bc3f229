package memory

import (
	"iter"
	"math"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
)

// Lease is a lease of a state.
type Lease struct {
	// ID identifies it, TTL is the time in seconds that it was granted for, and Remaining what is
	// left of it, at least one second.
	ID, TTL, Remaining int64
}

// Items iterates over the keys in their order. The values share memory with the state and must not
// be changed.
func (s *State) Items() iter.Seq[*mvccpb.KeyValue] {
	return func(yield func(*mvccpb.KeyValue) bool) {
		for _, i := range s.keys().All() {
			if !yield(i.kv()) {
				return
			}
		}
	}
}

// Leases iterates over the leases in the order in which they expire.
func (s *State) Leases() iter.Seq[Lease] {
	return func(yield func(Lease) bool) {
		for _, l := range s.deadlines.All() {
			left := math.Ceil((l.deadline - s.age).Seconds())
			if !yield(Lease{ID: l.id, TTL: l.ttl, Remaining: max(1, int64(left))}) {
				return
			}
		}
	}
}

// NewState returns a state with keys at a revision, without a history. Keys of leases that are not
// among the given ones do not expire. It keeps the values.
func NewState(revision int64, items iter.Seq[*mvccpb.KeyValue], leases iter.Seq[Lease]) *State {
	s := newState(max(1, revision))
	s.compacted = s.revision
	for l := range leases {
		s.setLease(&lease{id: l.ID, ttl: l.TTL, deadline: time.Duration(l.Remaining) * time.Second})
	}
	w := s.begin()
	for kv := range items {
		w.store(&item{
			key: string(kv.Key), value: kv.Value, create: kv.CreateRevision, mod: kv.ModRevision, version: kv.Version, lease: kv.Lease,
		})
	}
	out := w.next
	out.history = history{first: s.revision}.append(change{keys: w.keys, size: w.next.size, time: time.Now().UnixNano()})
	return &out
}
