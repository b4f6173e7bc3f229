package store

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// ErrSlow is returned by a watcher that has left too many events unread, or events that have
// left the window. The caller can watch
// again from the last revision that it has received.
var ErrSlow = errors.New("the watcher is too slow")

// Watcher receives the events of a key, or of all keys below a prefix. One goroutine at a time
// may use it.
type Watcher struct {
	store *Store
	key   string
	after int64 // only later events are received
	max   int
	ready chan struct{} // has an element when there is something to receive
	// pending is set while there is something to receive. It is changed while mu is held.
	pending atomic.Bool

	mu    sync.Mutex
	queue []*Event
	err   error
}

// Watch returns a watcher for the events after a revision. key is a key, or a prefix that ends
// with a slash. The caller must call Stop. If events after the revision have left the window,
// the error is an [ExpiredError]. A revision that the store has not reached is allowed.
func (s *Store) Watch(key string, after int64) (*Watcher, error) {
	w := &Watcher{store: s, key: key, after: after, ready: make(chan struct{}, 1)}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrClosed
	}
	if after < s.window.oldest {
		return nil, &ExpiredError{Revision: after, Oldest: s.window.oldest}
	}
	for _, e := range s.window.after(after) {
		if w.matches(e.Key()) {
			w.queue = append(w.queue, e)
		}
	}
	// A watcher may take its time with the events that were there before it.
	w.max = len(w.queue) + s.config.MaxQueue
	if len(w.queue) > 0 {
		w.wake()
	}
	of := s.watchers[key]
	if of == nil {
		of = map[*Watcher]struct{}{}
		s.watchers[key] = of
	}
	of[w] = struct{}{}
	return w, nil
}

func (w *Watcher) matches(key string) bool {
	if strings.HasSuffix(w.key, "/") {
		return within(key, w.key)
	}
	return key == w.key
}

// The most events that Poll returns at once, and from which size of their values on it returns
// fewer. The rest stays in the queue, which is given up if the watcher is too slow.
const (
	batchEvents = 100
	batchBytes  = 256 << 10
)

// take removes the next events from the queue: all of a revision, or none. mu is held.
func (w *Watcher) take() []*Event {
	n, size := 0, int64(0)
	for n < len(w.queue) && (n == 0 || n < batchEvents && size < batchBytes || w.queue[n].Revision == w.queue[n-1].Revision) {
		if e := w.queue[n].Entry; e != nil {
			size += int64(len(e.Value))
		}
		n++
	}
	if n == len(w.queue) {
		events := w.queue
		w.queue = nil
		return events
	}
	events := slices.Clone(w.queue[:n])
	clear(w.queue[:n]) // the array stays
	w.queue = w.queue[n:]
	w.wake()
	return events
}

// Poll returns the next events, and the revision up to which the watcher has now received all
// of them. It does not wait: there may be no events. If the watcher has ended, it returns the
// reason: [ErrSlow], [ErrClosed], or an [ExpiredError] after the store lost events.
func (w *Watcher) Poll() ([]*Event, int64, error) {
	// All events up to this revision are in the queue: the order of the two steps matters.
	revision := w.store.revision.Load()
	w.mu.Lock()
	defer w.mu.Unlock()
	events := w.take()
	w.pending.Store(len(w.queue) > 0 || w.err != nil)
	switch {
	case len(w.queue) > 0:
		w.wake() // the rest is returned next
		return events, events[len(events)-1].Revision, nil
	case len(events) > 0:
		if w.err != nil {
			w.wake() // it is returned next
		}
		return events, max(revision, events[len(events)-1].Revision), nil
	case w.err != nil:
		return nil, 0, w.err
	}
	return nil, revision, nil
}

// Pending reports whether Poll has something to return. Unlike all other methods, it may be
// called while another goroutine uses the watcher.
func (w *Watcher) Pending() bool { return w.pending.Load() }

// Ready returns a channel that has an element when Poll has something to return. Who receives
// it must call Poll.
func (w *Watcher) Ready() <-chan struct{} { return w.ready }

// Stop ends the watcher.
func (w *Watcher) Stop() {
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	w.store.remove(w)
}

// remove forgets a watcher. mu is held.
func (s *Store) remove(w *Watcher) {
	of := s.watchers[w.key]
	delete(of, w)
	if len(of) == 0 {
		delete(s.watchers, w.key)
	}
}

// end ends a watcher with an error. Events that are in its queue are received before it.
func (w *Watcher) end(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = err
	}
	w.wake()
}

func (w *Watcher) wake() {
	w.pending.Store(true)
	select {
	case w.ready <- struct{}{}:
	default: // it is awake already
	}
}

// push queues an event. It reports false if the watcher is too slow, and has ended.
func (w *Watcher) push(e *Event) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e.Revision <= w.after {
		return true
	}
	defer w.wake()
	if len(w.queue) >= w.max {
		// The rest of the queue would be of no use: the client must resume anyway.
		w.queue, w.err = nil, ErrSlow
		return false
	}
	w.queue = append(w.queue, e)
	return true
}

// endSlow ends the watchers that have not read events that have left the window, because these
// are in memory only for them. mu is held.
func (s *Store) endSlow() {
	for _, of := range s.watchers {
		for w := range of {
			if w.expire(s.window.oldest) {
				s.remove(w)
			}
		}
	}
}

// expire ends the watcher if its next event is not after a revision, and reports whether it
// has.
func (w *Watcher) expire(oldest int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.queue) == 0 || w.queue[0].Revision > oldest {
		return false
	}
	w.queue, w.err = nil, ErrSlow
	w.wake()
	return true
}

// endWatchers ends all watchers. mu is held.
func (s *Store) endWatchers(err error) {
	for _, of := range s.watchers {
		for w := range of {
			w.end(err)
		}
	}
	clear(s.watchers)
}

// dispatch queues an event to its watchers. mu is held.
func (s *Store) dispatch(e *Event) {
	key := e.Key()
	s.dispatchTo(key, e)
	for i := len(s.prefix) - 1; i < len(key); i++ {
		if key[i] == '/' {
			s.dispatchTo(key[:i+1], e)
		}
	}
}

func (s *Store) dispatchTo(key string, e *Event) {
	for w := range s.watchers[key] {
		if !w.push(e) {
			s.remove(w)
		}
	}
}
