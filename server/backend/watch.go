package backend

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/storage"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	utilflowcontrol "k8s.io/apiserver/pkg/util/flowcontrol"

	"espalier.dev/store"
)

const (
	// bookmarkInterval is the interval of bookmarks, and progressInterval that of a client
	// inside of the server that follows the progress of the storage.
	bookmarkInterval = time.Minute
	progressInterval = 5 * time.Second
	// lastBookmark is the time of the last bookmark before the end of a watch.
	lastBookmark = 2 * time.Second
	// resultBuffer is the number of results that are ready for the client.
	resultBuffer = 16
	// firstPause and lastPause are the pauses while a conversion webhook fails.
	firstPause = 50 * time.Millisecond
	lastPause  = 2 * time.Second
	// sharedFrom is the number of watches from which they share their objects.
	sharedFrom = 3
)

// watcher is a watch of a client.
type watcher struct {
	*Storage
	ctx     context.Context
	cancel  context.CancelFunc
	opts    storage.ListOptions
	results chan watch.Event
}

var _ watch.Interface = &watcher{}

// ResultChan returns the events. It is closed when the watch ends.
func (w *watcher) ResultChan() <-chan watch.Event { return w.results }

// Stop ends the watch. Events that are ready can still be received.
func (w *watcher) Stop() { w.cancel() }

// Watch watches the objects below a key, or one object. Errors after the options were accepted
// are events.
func (s *Storage) Watch(ctx context.Context, key string, opts storage.ListOptions) (watch.Interface, error) {
	key, err := s.key(key, opts.Recursive)
	if err != nil {
		return nil, err
	}
	revision, err := s.versioner.ParseResourceVersion(opts.ResourceVersion)
	if err != nil {
		return nil, err
	}
	if !utilfeature.DefaultFeatureGate.Enabled(features.WatchList) {
		opts.SendInitialEvents = nil
	}
	w := &watcher{Storage: s, opts: opts, results: make(chan watch.Event, resultBuffer)}
	w.ctx, w.cancel = context.WithCancel(ctx)
	initial, after, err := w.start(key, revision)
	var source *store.Watcher
	if err == nil {
		source, err = s.store.Watch(key, after)
	}
	utilflowcontrol.WatchInitialized(ctx)
	if err != nil {
		w.fail(err)
		w.cancel()
		close(w.results)
		return w, nil
	}
	s.watches.Add(1)
	go w.run(initial, source, after)
	return w, nil
}

// start returns the entries that a watch begins with, or nil, and the revision after which it
// receives events.
func (w *watcher) start(key string, revision uint64) (initial *entries, after int64, err error) {
	send := w.opts.SendInitialEvents
	if send == nil && revision == 0 {
		yes := true
		send = &yes
	}
	switch {
	case w.opts.ResourceVersion == "":
		_, inIndex, err := w.current(w.ctx)
		if err == nil && !inIndex {
			err = apierrors.NewTooManyRequests("the storage is behind etcd", retrySeconds)
		}
		if err != nil {
			return nil, 0, err
		}
	case revision == 0 || send != nil && *send:
		if err := w.notOlderThan(w.ctx, revision); err != nil {
			return nil, 0, err
		}
	default:
		// The events after a revision in the future are allowed, but not before the index has
		// been filled.
		return nil, int64(revision), w.notOlderThan(w.ctx, 0)
	}
	snap := w.store.Snapshot()
	switch {
	case send != nil && *send:
		return indexed(snap, key, "", w.opts.Recursive), snap.Revision, nil
	case revision != 0:
		return nil, int64(revision), nil
	}
	return nil, snap.Revision, nil
}

// run sends events until the watch ends.
func (w *watcher) run(initial *entries, source *store.Watcher, after int64) {
	defer w.watches.Add(-1)
	defer close(w.results)
	defer w.cancel()
	defer source.Stop()
	if initial != nil && !w.sendInitial(initial) {
		return
	}

	timer := time.NewTimer(w.untilBookmark())
	defer timer.Stop()
	for {
		bookmark := false
		select {
		case <-source.Ready():
		case <-timer.C:
			bookmark = true
		case <-w.ctx.Done():
			return
		}
		events, revision, err := source.Poll()
		for _, e := range events {
			if !w.sendEvent(e) {
				return
			}
		}
		if err != nil {
			w.fail(err)
			return
		}
		if bookmark {
			news := revision > after || revision == after && w.opts.ProgressNotify
			if news && !w.sendBookmark(revision, false) {
				return
			}
			timer.Reset(w.untilBookmark())
		}
	}
}

// untilBookmark returns the time until the next bookmark.
func (w *watcher) untilBookmark() time.Duration {
	next := bookmarkInterval
	if w.opts.ProgressNotify {
		next = progressInterval
	}
	if deadline, ok := w.ctx.Deadline(); ok {
		if last := time.Until(deadline) - lastBookmark; last > 0 {
			next = min(next, last)
		}
	}
	return next
}

// send sends an event. It reports false if the watch has ended.
func (w *watcher) send(e watch.Event) bool {
	// If the watch has ended, nothing follows, even if there is space.
	if w.ctx.Err() != nil {
		return false
	}
	select {
	case w.results <- e:
		return true
	case <-w.ctx.Done():
		return false
	}
}

// sendInitial sends the objects that exist when the watch begins.
func (w *watcher) sendInitial(from *entries) bool {
	for e := range from.all {
		obj, err := w.object(e, e.Revision, w.calls)
		if err != nil {
			w.fail(err)
			return false
		}
		if w.matches(obj.object) && !w.send(watch.Event{Type: watch.Added, Object: obj.event(w.calls)}) {
			return false
		}
	}
	if w.opts.SendInitialEvents != nil && w.opts.Predicate.AllowWatchBookmarks {
		return w.sendBookmark(from.revision, true)
	}
	return true
}

// sendBookmark tells the client that it has received everything up to a revision.
func (w *watcher) sendBookmark(revision int64, initialEnd bool) bool {
	if !initialEnd && !w.opts.Predicate.AllowWatchBookmarks && !w.opts.ProgressNotify {
		return true
	}
	obj := w.config.New()
	err := w.versioner.UpdateObject(obj, uint64(revision))
	if err == nil && initialEnd {
		err = storage.AnnotateInitialEventsEndBookmark(obj)
	}
	if err != nil {
		w.fail(err)
		return false
	}
	return w.send(watch.Event{Type: watch.Bookmark, Object: obj})
}

func (w *watcher) matches(obj runtime.Object) bool {
	matched, err := w.opts.Predicate.Matches(obj)
	return err == nil && matched
}

// object returns the object of an entry with a resource version, shared with other watches or
// not. While a conversion webhook fails, it waits.
func (w *watcher) object(e *store.Entry, revision int64, shared bool) (obj *sharedObject, err error) {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		if shared {
			obj, err = w.Storage.shared(e, revision)
		} else {
			obj = &sharedObject{}
			obj.object, err = w.decode(e, revision, nil)
		}
		if err == nil || !w.config.Intact(err) {
			return obj, err
		}
		select {
		case <-time.After(pause):
		case <-w.ctx.Done():
			return nil, w.ctx.Err()
		}
	}
}

// sendEvent sends an event if the client has selected its object, before or after it.
func (w *watcher) sendEvent(e *store.Event) bool {
	shared := w.calls || w.watches.Load() >= sharedFrom
	typ, obj, err := w.selected(e, shared)
	if err != nil {
		w.fail(err)
		return false
	}
	return obj == nil || w.send(watch.Event{Type: typ, Object: obj.event(shared)})
}

// selected returns what an event is to the client: an object that begins or ceases to match
// its selectors is added or deleted. The object is nil if it is nothing.
func (w *watcher) selected(e *store.Event, shared bool) (watch.EventType, *sharedObject, error) {
	everything := w.opts.Predicate.Empty()
	matched := false
	var old *sharedObject
	if e.Old != nil && (e.Entry == nil || !everything) {
		var err error
		old, err = w.object(e.Old, e.Revision, shared)
		switch {
		case err == nil:
			matched = w.matches(old.object)
		case e.Entry == nil:
			return "", nil, deletedError(err)
		}
		// A value that could not be decoded was not sent to the client before.
	}
	if e.Entry == nil {
		if !matched {
			old = nil
		}
		return watch.Deleted, old, nil
	}
	obj, err := w.object(e.Entry, e.Revision, shared)
	switch {
	case err != nil:
		return "", nil, err
	case everything && e.Old != nil:
		return watch.Modified, obj, nil
	case w.matches(obj.object) && matched:
		return watch.Modified, obj, nil
	case w.matches(obj.object):
		return watch.Added, obj, nil
	case matched:
		return watch.Deleted, old, nil
	}
	return "", nil, nil
}

// deletedError returns the error of the deletion of an object that cannot be decoded.
func deletedError(err error) error {
	corrupt := (*corruptError)(nil)
	if !errors.As(err, &corrupt) {
		return err
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Reason: metav1.StatusReasonStoreReadError,
		Message: fmt.Sprintf("saw a DELETED event, but object data is corrupt: %v", corrupt),
	}}
}

// fail sends an error as the last event, unless the client has gone. A watch that was too slow,
// or whose server stops, ends without one: the client resumes it.
func (w *watcher) fail(err error) {
	if w.ctx.Err() != nil || errors.Is(err, store.ErrSlow) || errors.Is(err, store.ErrClosed) {
		return
	}
	if expired := (*store.ExpiredError)(nil); errors.As(err, &expired) {
		err = apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", expired.Revision, expired.Oldest))
	}
	failed, ok := err.(apierrors.APIStatus)
	if !ok {
		failed = apierrors.NewInternalError(err)
	}
	status := failed.Status()
	w.send(watch.Event{Type: watch.Error, Object: &status})
}
