package store

import (
	"context"
	"errors"
	"strings"
	"sync"
)

// ErrSlow is returned by a watcher that has left too many events unread. The caller can watch
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
		w.ready <- struct{}{}
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

// Next returns the next events, and the revision up to which the watcher has now received all
// of them. It waits for an event, or for progress if it is not nil: then there may be no
// events. If the watcher has ended, it returns the reason: [ErrSlow], [ErrClosed], an
// [ExpiredError] after the store lost events, or the error of ctx.
func (w *Watcher) Next(ctx context.Context, progress <-chan struct{}) ([]*Event, int64, error) {
	for waited := false; ; waited = true {
		// All events up to this revision are in the queue: the order of the two steps matters.
		revision := w.store.revision.Load()
		w.mu.Lock()
		events, err := w.queue, w.err
		w.queue = nil
		w.mu.Unlock()
		switch {
		case len(events) > 0:
			return events, max(revision, events[len(events)-1].Revision), nil
		case err != nil:
			return nil, 0, err
		case waited && ctx.Err() != nil:
			return nil, 0, ctx.Err()
		}
		select {
		case <-w.ready:
		case <-progress:
			revision := w.store.revision.Load()
			w.mu.Lock()
			empty := len(w.queue) == 0 && w.err == nil
			w.mu.Unlock()
			if empty {
				return nil, revision, nil
			}
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		}
	}
}

// Ready returns a channel that has an element when Next does not wait.
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
