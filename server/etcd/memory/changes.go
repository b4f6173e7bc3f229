package memory

import (
	"iter"
	"time"
)

// Change is what a revision has changed.
type Change struct {
	Revision int64
	Time     time.Time
	// Origin is what [Config.Origin] has returned for the write, or nil.
	Origin any
	// Expired is set if the keys were deleted because their lease had expired.
	Expired bool
	// Events are the changed keys in their order.
	Events []KeyChange
}

// KeyChange is the change of a key. The values share memory with the DB and must not be changed.
type KeyChange struct {
	Key           string
	Before, After Value
}

// Value is the value of a key, and the revision that wrote it. The revision is zero if the key does
// not exist.
type Value struct {
	Bytes    []byte
	Revision int64
}

// expired is the origin of the deletion of the keys of a lease that has expired.
type expired struct{}

// Begin returns the revision after which [State.Changes] has all changes. It is zero if it has all
// of them since the DB was empty. Otherwise, those up to this revision were compacted.
func (s *State) Begin() int64 {
	if s.history.first > s.first {
		return s.history.first
	}
	return 0
}

// BeginTime returns the time of the revision of [State.Begin]. It is zero if that is.
func (s *State) BeginTime() time.Time {
	if s.Begin() == 0 {
		return time.Time{}
	}
	return time.Unix(0, s.history.at(s.history.first).time)
}

// Changes iterates over the changes after a revision, oldest first. It has none that were
// compacted: see [State.Begin].
func (s *State) Changes(after int64) iter.Seq[Change] {
	return func(yield func(Change) bool) {
		for revision := max(after, s.history.first) + 1; revision <= s.revision; revision++ {
			if !yield(s.change(revision)) {
				return
			}
		}
	}
}

// change returns the change of a revision that has one before it.
func (s *State) change(revision int64) Change {
	c := s.history.at(revision)
	out := Change{Revision: revision, Time: time.Unix(0, c.time), Origin: c.origin, Events: make([]KeyChange, 0, len(c.events))}
	if _, ok := c.origin.(expired); ok {
		out.Origin, out.Expired = nil, true
	}
	before := s.history.at(revision - 1).keys
	written := map[string]*item{} // by this revision so far
	for _, e := range c.events {
		old, ok := written[e.key]
		if !ok {
			old, _ = before.Get(e.key)
		}
		out.Events = append(out.Events, KeyChange{Key: e.key, Before: old.valueOrNone(), After: e.valueOrNone()})
		written[e.key] = e
	}
	return out
}

// valueOrNone returns the value of an item, which may be nil or a deletion.
func (i *item) valueOrNone() Value {
	if i == nil || i.deleted() {
		return Value{}
	}
	return Value{i.value, i.mod}
}
