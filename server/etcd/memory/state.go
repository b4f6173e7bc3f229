package memory

import (
	"iter"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"espalier.dev/internal/persistent"
)

// State is what a DB stores at some time. It is immutable and safe for concurrent use.
type State struct {
	revision int64
	// compacted is the revision of the last compaction, the oldest that can be read. It is -1
	// before the first one.
	compacted int64
	// first is the revision of the empty state that everything began with.
	first   int64
	history history
	size    int64 // bytes of all keys and values

	leases    persistent.Map[*lease] // by idKey
	deadlines persistent.Map[*lease] // by deadlineKey
	nextLease int64

	// age is the time from the epoch of a DB to the call of [DB.State].
	age time.Duration
}

// newState returns the state of a new etcd that begins at a revision.
func newState(first int64) *State {
	s := &State{revision: first, compacted: -1, first: first}
	if first > 1 {
		s.compacted = first
	}
	s.history.first = first
	s.history = s.history.append(change{})
	return s
}

// Revision returns the newest revision.
func (s *State) Revision() int64 { return s.revision }

// keys returns the keys at the newest revision.
func (s *State) keys() keys { return s.history.at(s.revision).keys }

// item is a version of a key. A deleted key has no create revision.
type item struct {
	key         string
	value       []byte
	create, mod int64
	version     int64
	lease       int64
}

func (i *item) deleted() bool { return i.create == 0 }

// kv returns the item as etcd returns it.
func (i *item) kv() *mvccpb.KeyValue {
	return &mvccpb.KeyValue{
		Key: []byte(i.key), Value: slices.Clip(i.value), CreateRevision: i.create, ModRevision: i.mod, Version: i.version, Lease: i.lease,
	}
}

// keys are the items of all keys that exist at a revision.
type keys = persistent.Map[*item]

// span is a key, or a range of keys.
type span struct {
	key, end string
	one      bool // only the key; otherwise an empty end means all keys from the first on
}

// newSpan returns the span of a request. A zero byte as the end means that there is none.
func newSpan(key, end []byte) span {
	switch {
	case len(end) == 0:
		return span{key: string(key), one: true}
	case len(end) == 1 && end[0] == 0:
		return span{key: string(key)}
	}
	return span{key: string(key), end: string(end)}
}

func (s span) contains(key string) bool {
	if s.one {
		return key == s.key
	}
	return key >= s.key && (s.end == "" || key < s.end)
}

// in iterates over the keys of the span.
func (s span) in(k keys) iter.Seq[*item] {
	return func(yield func(*item) bool) {
		if s.one {
			if i, ok := k.Get(s.key); ok {
				yield(i)
			}
			return
		}
		for key, i := range k.From(s.key) {
			if s.end != "" && key >= s.end || !yield(i) {
				return
			}
		}
	}
}

// change is a revision: its events in their order, the keys after it and their size, its time in
// nanoseconds since 1970, and what [Config.Origin] has returned.
type change struct {
	keys   keys
	events []*item
	size   int64
	time   int64
	origin any
	// written is the number of bytes that were written up to this revision, from some revision on.
	written int64
}

// chunkLen is the number of changes that are allocated together.
const chunkLen = 128

// history is an immutable sequence of the changes of consecutive revisions. A copy shares all
// changes. Only one copy, the newest one of a DB, may be appended to, because it writes to memory
// beyond the end of the older ones. See clone.
type history struct {
	first  int64 // the revision of the first change
	skip   int   // the index of the first change in the first chunk
	n      int
	chunks []*[chunkLen]change
}

// at returns the change of a revision that the history has.
func (h history) at(revision int64) *change {
	i := h.skip + int(revision-h.first)
	return &h.chunks[i/chunkLen][i%chunkLen]
}

// last returns the newest revision.
func (h history) last() int64 { return h.first + int64(h.n) - 1 }

// append returns the history with one more revision.
func (h history) append(c change) history {
	i := h.skip + h.n
	if i == len(h.chunks)*chunkLen {
		h.chunks = append(h.chunks, new([chunkLen]change))
	}
	h.chunks[i/chunkLen][i%chunkLen] = c
	h.n++
	return h
}

// clone returns a history that can be appended to independently.
func (h history) clone() history {
	h.chunks = slices.Clone(h.chunks)
	if last := len(h.chunks) - 1; last >= 0 {
		chunk := *h.chunks[last]
		h.chunks[last] = &chunk
	}
	return h
}

// compact returns the history from a revision on. Of the events of that revision, it keeps the last
// of each key, as etcd does.
func (h history) compact(revision int64) history {
	if revision < h.first {
		return h
	}
	begin := h.skip + int(revision-h.first)
	out := history{first: revision, skip: begin % chunkLen, n: h.n - int(revision-h.first)}
	out.chunks = slices.Clone(h.chunks[begin/chunkLen:])
	chunk := *out.chunks[0]
	clear(chunk[:out.skip])
	chunk[out.skip].events = lastOfEach(chunk[out.skip].events)
	out.chunks[0] = &chunk
	return out
}

// lastOfEach returns the last event of each key.
func lastOfEach(events []*item) []*item {
	last := make(map[string]*item, len(events))
	for _, e := range events {
		last[e.key] = e
	}
	if len(last) == len(events) {
		return events
	}
	return slices.DeleteFunc(slices.Clone(events), func(e *item) bool { return last[e.key] != e })
}
