package admission

import (
	"slices"
	"sync"
	"sync/atomic"

	"espalier.dev/store"
)

// stored has the objects of a resource, decoded. An object is decoded once for each of its
// revisions.
type stored[T any] struct {
	store  *store.Store
	prefix string
	decode func(*store.Entry) (T, error)

	mu      sync.Mutex
	current atomic.Pointer[list[T]]
}

// list is the state of all objects of a resource. It is immutable.
type list[T any] struct {
	entries []*store.Entry
	items   []T
	// err is the error of the first object that cannot be decoded.
	err error
}

// read returns the objects in the order of their names. The result is the same until one of
// them changes.
func (s *stored[T]) read() *list[T] {
	if l := s.current.Load(); l != nil && s.store.Holds(s.prefix, l.entries) {
		return l
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.current.Load()
	if before != nil && s.store.Holds(s.prefix, before.entries) {
		return before
	}
	l := &list[T]{entries: slices.Collect(s.store.Snapshot().Range(s.prefix, ""))}
	for _, e := range l.entries {
		item, err := s.item(before, e)
		if err != nil {
			// It is not kept: the next request tries again.
			return &list[T]{entries: l.entries, err: err}
		}
		l.items = append(l.items, item)
	}
	s.current.Store(l)
	return l
}

// item returns the object of an entry, which may have been decoded before.
func (s *stored[T]) item(before *list[T], e *store.Entry) (T, error) {
	if before != nil {
		if i := slices.Index(before.entries, e); i >= 0 {
			return before.items[i], nil
		}
	}
	return s.decode(e)
}
