package custom

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/metrics"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/server/routine"
	"k8s.io/apiserver/pkg/storage"
	compbasemetrics "k8s.io/component-base/metrics"

	"espalier.dev/internal/jsonx"
	"espalier.dev/store"
)

const (
	// bookmarkInterval is the time between bookmarks, and bookmarkLead that before the end of
	// a watch at which the last is sent.
	bookmarkInterval = time.Minute
	bookmarkLead     = 2 * time.Second
	// restTime is the time that a watch waits after it has sent events: those that arrive
	// meanwhile are sent together. Waking a watch and writing to its connection costs much more
	// than an event, and a busy resource may have many events and many watches. The first event
	// after a pause is sent immediately. Beyond restWatches watches of a version, each waits
	// longer, up to maxRestTime, so that all of them together wake as often as these.
	restTime    = 5 * time.Millisecond
	restWatches = 12
	maxRestTime = 20 * time.Millisecond
)

// restOf returns how long each of a number of watches waits after it has sent events.
func restOf(watches int64) time.Duration {
	return min(maxRestTime, max(restTime, time.Duration(watches)*restTime/restWatches))
}

// watchRequest is a WATCH. It needs no goroutine but that of its request.
type watchRequest struct {
	*reader
	query    *query
	watcher  *store.Watcher
	request  *http.Request
	response http.ResponseWriter
	flusher  http.Flusher
	// gone ends when the CRD has changed; stopping is closed when the server stops.
	gone     context.Context
	stopping <-chan struct{}
	timeout  time.Duration
	gzip     bool
	// list is set if the initial events are marked by a bookmark.
	list bool
	// initial is the state whose objects are sent first, or nil.
	initial *store.Snapshot
	// after is the revision from which on events are sent.
	after int64
	// failure is why the watch cannot start, or nil. It is sent as an event.
	failure error

	events compbasemetrics.CounterMetric
	sizes  compbasemetrics.ObserverMetric
	// out collects frames. unsent reports that there are some since the last flush.
	out    output
	unsent bool
	// zip is where out writes, or nil if the client wants no compression.
	zip *gzipStream
}

// watch answers a WATCH. Like the handler of k8s.io/apiserver, it prepares the watch in one
// goroutine and serves it in another, if the filters ask for that.
func (r *reader) watch(w http.ResponseWriter, req *http.Request, info *apirequest.RequestInfo, s *serving, release func()) bool {
	minimum := s.handler.config.MinWatch
	q, ok := r.query(req, info)
	flusher, flushes := w.(http.Flusher)
	if !ok || !flushes || minimum <= 0 {
		return false
	}
	x := &watchRequest{
		reader: r, query: q, request: req, response: w, flusher: flusher, gone: s.gone,
		list:    q.AllowWatchBookmarks && q.SendInitialEvents != nil && *q.SendInitialEvents,
		timeout: watchTime(minimum, q.TimeoutSeconds),
	}
	if err := x.start(req.Context()); err != nil {
		if errors.Is(err, errNotCurrent) {
			return false
		}
		r.fail(w, req, err)
		return true
	}
	x.gzip = x.list && responsewriters.ContentEncodingSupported(req, features.WatchListCompression) == "gzip"
	if signals := apirequest.ServerShutdownSignalFrom(req.Context()); signals != nil {
		x.stopping = signals.ShuttingDown()
	}
	gvr := r.endpoint.labels
	x.events = metrics.WatchEvents.WithContext(req.Context()).WithLabelValues(gvr.Group, gvr.Version, gvr.Resource)
	x.sizes = metrics.WatchEventsSizes.WithContext(req.Context()).WithLabelValues(gvr.Group, gvr.Version, gvr.Resource)
	// The watch ends with the serving, so it does not delay the closing of the storage.
	ended := s.requests.Linger()
	release()

	serve := func() {
		defer ended()
		metrics.RecordLongRunning(req, s.labelsOf(info), metrics.APIServerComponent, x.serve)
	}
	if t := routine.TaskFrom(req.Context()); t != nil {
		t.Func = serve
	} else {
		serve()
	}
	return true
}

// watchTime returns after which time a watch ends: what the client asks for, or at random one to two
// times the minimum.
func watchTime(minimum time.Duration, seconds *int64) time.Duration {
	if seconds != nil && *seconds > 0 {
		return time.Duration(*seconds) * time.Second
	}
	return time.Duration(float64(minimum) * (1 + rand.Float64()))
}

// start determines where the watch starts. An error is answered as such; failures that clients
// expect as an event are in failure.
func (x *watchRequest) start(ctx context.Context) error {
	q := x.query
	initial := q.SendInitialEvents != nil && *q.SendInitialEvents
	switch {
	case q.ResourceVersion == "":
		if err := x.sync(ctx); err != nil {
			return err
		}
		x.after = x.store.Revision()
	case initial || q.revision > math.MaxInt64:
		if err := x.await(ctx, q.revision); err != nil {
			x.failure = err
			return nil
		}
	default:
		// A revision that the store has not reached is allowed.
		x.after = int64(q.revision)
	}
	// Without a revision, the state comes first for compatibility.
	if initial || q.SendInitialEvents == nil && q.revision == 0 {
		if !x.isLoaded() {
			return errNotCurrent
		}
		x.initial = x.store.Snapshot()
		x.after = x.initial.Revision
	} else if x.after == 0 {
		x.after = x.store.Revision()
	}
	watcher, err := x.store.Watch(q.key, x.after)
	var expired *store.ExpiredError
	switch {
	case errors.As(err, &expired):
		x.failure = apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", expired.Revision, expired.Oldest))
		return nil
	case err != nil:
		return err
	}
	x.watcher = watcher
	return nil
}

// serve sends events until the watch ends.
func (x *watchRequest) serve() {
	if x.watcher != nil {
		defer x.watcher.Stop()
	}
	h := x.response.Header()
	h.Set("Content-Type", runtime.ContentTypeJSON)
	h.Set("Transfer-Encoding", "chunked")
	if x.gzip {
		h.Set("Content-Encoding", "gzip")
		h.Add("Vary", "Accept-Encoding")
	}
	x.response.WriteHeader(http.StatusOK)
	x.flusher.Flush()
	x.out = output{w: x.response, buffers: x.frames}
	if x.gzip {
		// Compressed frames are one stream: a client may wait for the next stream before it
		// returns the end of the last one.
		x.zip = newGzipStream(x.response, x.deflaters)
		x.out.w = x.zip
		defer func() { _ = x.zip.Close() }() // the client may have gone
	}
	if x.failure != nil {
		x.end(x.failure)
		return
	}
	began := time.Now()
	if !x.sendInitial() {
		return
	}
	end := time.NewTimer(x.timeout)
	defer end.Stop()
	bookmark := time.NewTimer(x.untilBookmark(began))
	defer bookmark.Stop()
	var bookmarks <-chan time.Time
	if x.query.AllowWatchBookmarks {
		bookmarks = bookmark.C
	}
	done := x.request.Context().Done()
	x.watches.Add(1)
	defer x.watches.Add(-1)
	rest := time.NewTimer(restTime)
	defer rest.Stop()
	for {
		wanted := false
		select {
		case <-x.watcher.Ready():
		case <-bookmarks:
			wanted = true
			bookmark.Reset(x.untilBookmark(began))
		case <-end.C:
			return
		case <-done:
			return
		case <-x.gone.Done():
			return
		case <-x.stopping:
			return
		}
		if !x.receive(wanted) {
			return
		}
		rest.Reset(restOf(x.watches.Load()))
		select {
		case <-rest.C:
		case <-done:
			return
		}
	}
}

// untilBookmark returns the time until the next bookmark.
func (x *watchRequest) untilBookmark(began time.Time) time.Duration {
	next := bookmarkInterval
	if last := time.Until(began.Add(x.timeout - bookmarkLead)); last > 0 {
		next = min(next, last)
	}
	return next
}

// receive sends the events that are waiting, and a bookmark if it is wanted. It reports false
// if the watch has ended.
func (x *watchRequest) receive(bookmark bool) bool {
	for {
		events, revision, err := x.watcher.Poll()
		if err != nil {
			var expired *store.ExpiredError
			if errors.As(err, &expired) {
				x.end(apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", expired.Revision, expired.Oldest)))
			}
			// A client that was too slow starts again where it is.
			x.flush()
			return false
		}
		for i, e := range events {
			if err := x.event(e); err != nil {
				x.end(err)
				return false
			}
			if x.out.err != nil {
				return false
			}
			events[i] = nil // a slow client keeps only the rest in memory
		}
		if len(events) > 0 {
			continue
		}
		// The client may have asked for a revision that the store has not reached.
		if bookmark && revision >= x.after {
			x.bookmark(revision, false)
		}
		return x.flush()
	}
}

// sendInitial sends the objects that exist when the watch starts.
func (x *watchRequest) sendInitial() bool {
	if x.initial == nil {
		return true
	}
	entries := x.takeInitial()
	for i, e := range entries {
		if err := x.existing(e); err != nil {
			x.end(err)
			return false
		}
		entries[i] = nil // a slow client keeps only the rest in memory
		if x.out.err != nil {
			return false
		}
	}
	if x.list {
		x.bookmark(x.after, true)
	}
	if !x.flush() || x.zip != nil && x.zip.store() != nil {
		return false
	}
	if received, ok := apirequest.ReceivedTimestampFrom(x.request.Context()); ok && x.list {
		metrics.RecordWatchListLatency(x.request.Context(), x.endpoint.labels,
			metrics.CleanListScope(x.request.Context(), &x.query.ListOptions), time.Since(received))
	}
	return true
}

// takeInitial returns the entries that exist when the watch starts, and drops the snapshot,
// which keeps all other entries in memory, too.
func (x *watchRequest) takeInitial() []*store.Entry {
	snap := x.initial
	x.initial = nil
	if !x.query.single {
		return slices.Collect(snap.Range(x.query.key, ""))
	}
	if e := snap.Get(x.query.key); e != nil {
		return []*store.Entry{e}
	}
	return nil
}

// existing adds the event of an object that exists when the watch starts.
func (x *watchRequest) existing(e *store.Entry) error {
	v, ok, err := x.selected(e)
	if ok && err == nil {
		x.frame(watch.Added, v, e.Revision)
	}
	return err
}

// selected returns the view of an entry, and whether the watch selects it.
func (x *watchRequest) selected(e *store.Entry) (*view, bool, error) {
	v, err := x.of(e)
	if err != nil {
		return nil, false, unreadable(e.Key, err)
	}
	ok, err := x.query.selection.matches(e.Key, v)
	return v, ok, err
}

// unreadable returns the error of an entry that cannot be read.
func unreadable(key string, err error) error {
	if IsConversionError(err) {
		return err
	}
	return apierrors.NewInternalError(storage.NewCorruptObjError(key, err))
}

// event adds the event of a change. An object that is no longer selected is deleted for the
// client, and one that is selected now is added.
func (x *watchRequest) event(e *store.Event) error {
	var now, before *view
	var is, was bool
	var err error
	if e.Entry != nil {
		if now, is, err = x.selected(e.Entry); err != nil {
			return err
		}
	}
	if e.Old != nil && (!is || !x.query.selection.empty()) {
		before, was, err = x.selected(e.Old)
		if err != nil && e.Entry != nil {
			was, err = false, nil // the client has not seen it, and now it is repaired
		}
		if err != nil {
			return err
		}
	} else {
		was = e.Old != nil
	}
	switch {
	case is && was:
		x.frame(watch.Modified, now, e.Revision)
	case is:
		x.frame(watch.Added, now, e.Revision)
	case was:
		x.frame(watch.Deleted, before, e.Revision)
	}
	return nil
}

// frame adds an event with an object.
func (x *watchRequest) frame(t watch.EventType, v *view, revision int64) {
	head, tail := `{"type":"`+string(t)+`","object":`, "}\n"
	x.out.text(head)
	x.out.view(v, revision)
	x.out.text(tail)
	x.count(len(head) + v.size(revision) + len(tail))
}

// count counts a frame that was added.
func (x *watchRequest) count(size int) {
	x.unsent = true
	x.events.Inc()
	x.sizes.Observe(float64(size))
}

// bookmark adds a bookmark. initial marks the end of the initial events.
func (x *watchRequest) bookmark(revision int64, initial bool) {
	var b []byte
	b = append(b, `{"type":"BOOKMARK","object":{"apiVersion":`...)
	b = jsonx.AppendString(b, x.kind.apiVersion)
	b = append(b, `,"kind":`...)
	b = jsonx.AppendString(b, x.endpoint.scope.Kind.Kind)
	b = append(b, `,"metadata":{`...)
	if initial {
		b = append(b, `"annotations":{"`+metav1.InitialEventsAnnotationKey+`":"true"},`...)
	}
	b = append(b, viewVersion...)
	b = strconv.AppendInt(b, revision, 10)
	b = append(b, "\"}}}\n"...)
	x.out.bytes(b)
	x.count(len(b))
}

// end sends an error as the last event.
func (x *watchRequest) end(err error) {
	status := metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError,
		Reason: metav1.StatusReasonInternalError, Message: err.Error()}
	if api := apierrors.APIStatus(nil); errors.As(err, &api) {
		status = api.Status()
	}
	status.Kind, status.APIVersion = "Status", "v1"
	text, err := json.Marshal(status)
	if err != nil {
		return // a Status has no values that cannot be encoded
	}
	text = append(append([]byte(`{"type":"ERROR","object":`), text...), "}\n"...)
	x.out.bytes(text)
	x.count(len(text))
	x.flush()
}

// flush sends the frames that were added. It reports false if the client has gone.
func (x *watchRequest) flush() bool {
	x.out.flush()
	if x.out.err != nil {
		return false
	}
	if !x.unsent {
		return true
	}
	x.unsent = false
	if x.zip != nil && x.zip.flush() != nil {
		return false
	}
	x.flusher.Flush()
	return true
}
