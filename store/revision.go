package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// BehindError is returned when the index, or etcd, has not reached a revision in time.
type BehindError struct {
	// Want is the requested revision, Have that of the index.
	Want, Have int64
}

func (e *BehindError) Error() string {
	return fmt.Sprintf("revision %d has not been reached: the newest is %d", e.Want, e.Have)
}

// ErrReplaced is returned when etcd has a lower revision than the index.
var ErrReplaced = errors.New("the data of etcd was replaced by older data, which is being read: try again")

// check is a question for the revision of etcd that several readers share.
type check struct {
	done     chan struct{}
	revision int64
	err      error
}

// checks asks etcd for its revision. A reader cannot share a question that is already under
// way, because the answer may be older than the reader's own start.
type checks struct {
	mu      sync.Mutex
	running bool
	next    *check
}

// Current returns a revision that etcd had reached when Current was called, or a later one.
func (s *Store) Current(ctx context.Context) (int64, error) {
	if s.lifetime.Err() != nil {
		return 0, ErrClosed
	}
	q := &s.checks
	q.mu.Lock()
	c := q.next
	if c == nil {
		c = &check{done: make(chan struct{})}
		q.next = c
		if !q.running && s.start(s.ask) {
			q.running = true
		}
	}
	q.mu.Unlock()
	waiting, cancel := limited(ctx)
	defer cancel()
	select {
	case <-c.done:
		return c.revision, failure(ctx, c.err, false)
	case <-waiting.Done():
		return 0, failure(ctx, waiting.Err(), false)
	case <-s.lifetime.Done():
		return 0, ErrClosed
	}
}

// start runs a task unless the store is closed.
func (s *Store) start(task func()) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return false
	}
	s.tasks.Go(task)
	return true
}

// ask asks etcd for its revision as long as readers want to know it.
func (s *Store) ask() {
	for {
		q := &s.checks
		q.mu.Lock()
		c := q.next
		q.next = nil
		if c == nil {
			q.running = false
			q.mu.Unlock()
			return
		}
		q.mu.Unlock()

		before := s.revision.Load()
		c.revision, c.err = s.question()
		if c.err == nil && c.revision < before {
			c.err = ErrReplaced
			s.generation.Add(1)
			s.Reload()
		}
		close(c.done)
	}
}

// question asks etcd for its revision. If there is no answer, it asks again, and reaches
// another member if there are several.
func (s *Store) question() (revision int64, err error) {
	for end := time.Now().Add(answerTime); ; {
		ctx, cancel := context.WithTimeout(s.lifetime, attemptTime)
		// No entry has this key. A read of it is linearizable, as every read.
		var resp *clientv3.GetResponse
		resp, err = s.client.Get(ctx, s.prefix, clientv3.WithCountOnly())
		cancel()
		if err == nil {
			return resp.Header.Revision, nil
		}
		if !errors.Is(err, context.DeadlineExceeded) || s.lifetime.Err() != nil || time.Now().After(end) {
			return 0, err
		}
	}
}

// waiter waits until the index has a revision.
type waiter struct {
	revision int64
	done     chan struct{}
	err      error
}

func (w *waiter) end(err error) {
	w.err = err
	close(w.done)
}

// Await waits until the index has a revision. If ctx ends before, the error is a
// [BehindError].
func (s *Store) Await(ctx context.Context, revision int64) error {
	if s.isLoaded() && s.revision.Load() >= revision {
		return nil
	}
	select {
	case <-s.loaded:
	case <-ctx.Done():
		return &BehindError{Want: revision, Have: s.Revision()}
	case <-s.lifetime.Done():
		return ErrClosed
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return ErrClosed
	}
	if s.revision.Load() >= revision {
		s.mu.Unlock()
		return nil
	}
	w := &waiter{revision: revision, done: make(chan struct{})}
	s.waiters = append(s.waiters, w)
	s.mu.Unlock()
	select {
	case s.wanted <- struct{}{}:
	default: // progress is already being requested
	}
	select {
	case <-w.done:
		return w.err
	case <-ctx.Done():
		s.mu.Lock()
		defer s.mu.Unlock()
		for i, other := range s.waiters {
			if other == w {
				s.waiters = append(s.waiters[:i], s.waiters[i+1:]...)
				break
			}
		}
		return &BehindError{Want: revision, Have: s.Revision()}
	}
}

func (s *Store) isLoaded() bool {
	select {
	case <-s.loaded:
		return true
	default:
		return false
	}
}

// Sync waits until the index is as new as etcd is now, and returns its revision.
func (s *Store) Sync(ctx context.Context) (int64, error) {
	revision, err := s.Current(ctx)
	if err != nil {
		return 0, err
	}
	return revision, s.Await(ctx, revision)
}

// advance sets the revision of the index. mu is held.
func (s *Store) advance(revision int64) {
	s.revision.Store(revision)
	s.snapshot = nil
	left := s.waiters[:0]
	for _, w := range s.waiters {
		if w.revision <= revision {
			w.end(nil)
		} else {
			left = append(left, w)
		}
	}
	clear(s.waiters[len(left):])
	s.waiters = left
}

// progressInterval is the interval at which etcd is asked for its progress while readers
// wait: it does not answer while it sends old events.
const progressInterval = 50 * time.Millisecond

// requestProgress asks etcd for its progress while readers wait for a revision. The revision
// may be that of a key outside the prefix, so that there is no event.
func (s *Store) requestProgress() {
	ticker := time.NewTicker(progressInterval)
	ticker.Stop()
	defer ticker.Stop()
	for {
		select {
		case <-s.lifetime.Done():
			return
		case <-s.wanted:
			ticker.Reset(progressInterval)
		case <-ticker.C:
		}
		s.mu.RLock()
		waiting := len(s.waiters) > 0
		s.mu.RUnlock()
		if !waiting {
			ticker.Stop()
			continue
		}
		// An error means that the connection is lost: following it reports that.
		ctx, cancel := context.WithTimeout(s.watchContext(s.lifetime), answerTime)
		_ = s.watcher.RequestProgress(ctx)
		cancel()
	}
}
