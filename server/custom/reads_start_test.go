package custom

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/endpoints/metrics"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/server/routine"
	"k8s.io/apiserver/pkg/storage"

	"espalier.dev/schema"
	"espalier.dev/store"
)

// newWatch returns a watch that answers to a recorder.
func newWatch(t *testing.T, r *reader, target string) (*watchRequest, *httptest.ResponseRecorder) {
	t.Helper()
	req, info := getRequest(t, target)
	q, ok := r.query(req, info)
	if !ok {
		t.Fatalf("%s has no query", target)
	}
	w := httptest.NewRecorder()
	x := &watchRequest{reader: r, query: q, request: req, response: w, flusher: w, gone: t.Context(), timeout: time.Hour, out: output{w: w, buffers: r.frames}}
	gvr := r.endpoint.labels
	x.events = metrics.WatchEvents.WithContext(t.Context()).WithLabelValues(gvr.Group, gvr.Version, gvr.Resource)
	x.sizes = metrics.WatchEventsSizes.WithContext(t.Context()).WithLabelValues(gvr.Group, gvr.Version, gvr.Resource)
	return x, w
}

// TestWatchStarts checks where watches start.
func TestWatchStarts(t *testing.T) {
	t.Parallel()
	s := newWidgetServer(t, widgetCRD, schema.KEP)
	r, _ := s.readerOf(t)
	s.put(t, "a", stored("a", ""))
	first := s.store.Revision()
	s.put(t, "b", stored("b", ""))
	last := s.store.Revision()
	const sends, skips = "&resourceVersionMatch=NotOlderThan&sendInitialEvents=true", "&resourceVersionMatch=NotOlderThan&sendInitialEvents=false"
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	start := func(ctx context.Context, query string) (*watchRequest, error) {
		x, _ := newWatch(t, r, widgetPath+query)
		err := x.start(ctx)
		if x.watcher != nil {
			t.Cleanup(x.watcher.Stop)
		}
		return x, err
	}
	for query, want := range map[string]struct {
		after   int64
		initial bool
	}{
		"":                                   {last, true},
		"?watch=1":                           {last, true},
		"?watch=1" + sends:                   {last, true},
		"?watch=1" + skips:                   {last, false},
		"?watch=1&resourceVersion=0":         {last, true},
		"?watch=1&resourceVersion=0" + sends: {last, true},
		"?watch=1&resourceVersion=0" + skips: {last, false},
		fmt.Sprintf("?watch=1&resourceVersion=%d", first):            {first, false},
		fmt.Sprintf("?watch=1&resourceVersion=%d", first) + sends:    {last, true},
		fmt.Sprintf("?watch=1&resourceVersion=%d", last+100):         {last + 100, false},
		fmt.Sprintf("?watch=1&resourceVersion=%d", last+100) + skips: {last + 100, false},
	} {
		x, err := start(t.Context(), query)
		if err != nil || x.failure != nil || x.watcher == nil || x.after != want.after || (x.initial != nil) != want.initial || x.initial != nil && x.initial.Revision != x.after {
			t.Errorf("%s: after %d, %v, %v, want %+v", query, x.after, x.failure, err, want)
		}
	}
	// What a client expects as an event.
	for _, query := range []string{fmt.Sprintf("?watch=1&resourceVersion=%d", last+1) + sends, "?watch=1&resourceVersion=" + fmt.Sprint(uint64(math.MaxInt64)+1)} {
		if x, err := start(ended, query); err != nil || x.watcher != nil || !storage.IsTooLargeResourceVersion(x.failure) {
			t.Errorf("%s: %v, %v", query, x.failure, err)
		}
	}
	later, err := store.Open(store.Config{Client: s.client, Watcher: s.watcher(), Prefix: "/registry/"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(later.Close)
	<-later.Loaded()
	of, reads := r.reads, *r.reads
	reads.store = later
	r.reads = &reads
	x, err := start(t.Context(), fmt.Sprintf("?watch=1&resourceVersion=%d", first))
	if err != nil || x.watcher != nil || !apierrors.IsResourceExpired(x.failure) || !strings.Contains(x.failure.Error(), fmt.Sprintf("too old resource version: %d (%d)", first, last)) {
		t.Errorf("an expired revision: %v, %v", x.failure, err)
	}
	// What is an error, and what another handler answers.
	reads.store = &store.Store{}
	if x, err := start(t.Context(), "?watch=1&resourceVersion=0"); !errors.Is(err, errNotCurrent) || x.watcher != nil {
		t.Errorf("before the store was loaded: %v", err)
	}
	r.reads = of
	s.store.Close()
	for _, query := range []string{"?watch=1", fmt.Sprintf("?watch=1&resourceVersion=%d", first)} {
		if x, err := start(t.Context(), query); !errors.Is(err, store.ErrClosed) || x.watcher != nil || x.failure != nil {
			t.Errorf("%s of a closed store: %v", query, err)
		}
	}
	for range 100 {
		two, zero, less := int64(2), int64(0), int64(-2)
		if got := watchTime(time.Minute, &two); got != 2*time.Second {
			t.Fatalf("a watch of two seconds takes %v", got)
		}
		for _, seconds := range []*int64{nil, &zero, &less} {
			if got := watchTime(time.Minute, seconds); got < time.Minute || got >= 2*time.Minute {
				t.Fatalf("a watch takes %v", got)
			}
		}
	}
}

// stopping is the signal of a server that stops.
type stopping chan struct{}

func (s stopping) ShuttingDown() <-chan struct{} { return s }

// plainWriter is a response that cannot be flushed.
type plainWriter struct{ http.ResponseWriter }

// endingWriter is a response that ends its request with the first write.
type endingWriter struct {
	http.ResponseWriter
	end context.CancelFunc
}

func (w endingWriter) Write(p []byte) (int, error) {
	w.end()
	return w.ResponseWriter.Write(p)
}

// TestWatchRequests checks which watches are answered with the stored bytes, how, and when they end.
func TestWatchRequests(t *testing.T) {
	t.Parallel()
	s := newWidgetServer(t, widgetCRD, schema.KEP)
	r, of := s.readerOf(t)
	s.put(t, "a", stored("a", ""))
	released := 0
	release := func() { released++ }
	const list = "?watch=1&allowWatchBookmarks=1&resourceVersionMatch=NotOlderThan&sendInitialEvents=true"
	stopped := make(stopping)
	close(stopped)
	for name, test := range map[string]struct {
		query    string
		encoding string
		gzip     bool
	}{
		"stopped":                     {query: "?watch=1"},
		"list":                        {query: list},
		"compressed list":             {query: list, encoding: "gzip", gzip: true},
		"compressed without the list": {query: "?watch=1", encoding: "gzip"},
		"without bookmarks":           {query: strings.Replace(list, "allowWatchBookmarks=1", "allowWatchBookmarks=0", 1), encoding: "gzip"},
	} {
		req, info := getRequest(t, widgetPath+test.query)
		req.Header.Set("Accept-Encoding", test.encoding)
		ctx := apirequest.WithServerShutdownSignal(req.Context(), stopped)
		w := httptest.NewRecorder()
		before := released
		if !r.handle(w, req.WithContext(ctx), info, of, release) || released != before+1 || w.Code != http.StatusOK || w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%s: %d, released %d times", name, w.Code, released-before)
		}
		body := io.Reader(w.Body)
		if got := w.Header().Get("Content-Encoding") == "gzip"; got != test.gzip || got != (w.Header().Get("Vary") == "Accept-Encoding") {
			t.Errorf("%s: compressed: %v", name, got)
		} else if got {
			z, err := gzip.NewReader(body)
			if err != nil {
				t.Fatal(err)
			}
			body = z
		}
		if text, err := io.ReadAll(body); err != nil || !strings.HasPrefix(string(text), `{"type":"ADDED"`) || strings.Contains(string(text), "BOOKMARK") != (test.query == list) {
			t.Errorf("%s: %s, %v", name, text, err)
		}
	}
	// The filters may serve a watch later, in another goroutine.
	task := &routine.Task{}
	req, info := getRequest(t, widgetPath+"?watch=1")
	ctx := routine.WithTask(apirequest.WithServerShutdownSignal(req.Context(), stopped), task)
	later := httptest.NewRecorder()
	if !r.handle(later, req.WithContext(ctx), info, of, release) || later.Body.Len() > 0 || task.Func == nil {
		t.Error("the watch was served immediately")
	}
	of.requests.Release() // the only user, but for the watch
	if of.requests.CloseIdle() {
		t.Error("the CRD of a watch is idle")
	}
	if task.Func(); later.Body.Len() == 0 {
		t.Error("the watch was not served")
	}
	if !of.requests.Acquire() {
		t.Fatal("the CRD is closed")
	}
	// The ends of a watch: the request, the CRD, the time, and the store.
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, change := range map[string]func(*watchRequest){
		"request": func(x *watchRequest) { x.request = x.request.WithContext(ended) },
		"CRD":     func(x *watchRequest) { x.gone = ended },
		"time":    func(x *watchRequest) { x.timeout = time.Millisecond },
		"server":  func(x *watchRequest) { x.stopping = stopped },
		"object":  func(*watchRequest) { s.put(t, "bad", "{") },
	} {
		x, w := newWatch(t, r, widgetPath+fmt.Sprintf("?watch=1&resourceVersion=%d", s.store.Revision()))
		if err := x.start(t.Context()); err != nil {
			t.Fatal(err)
		}
		change(x)
		x.serve()
		if (w.Body.Len() > 0) != (name == "object") {
			t.Errorf("%s: %s", name, w.Body)
		}
		if s.put(t, "b", stored("b", "")); x.watcher.Pending() {
			t.Errorf("%s: the store keeps events for a watch that has ended", name)
		}
	}
	// A bookmark is sent before the end.
	x, w := newWatch(t, r, widgetPath+fmt.Sprintf("?watch=1&allowWatchBookmarks=1&resourceVersion=%d", s.store.Revision()))
	if err := x.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	bookmarked, done := context.WithCancel(t.Context())
	x.request, x.response, x.timeout = x.request.WithContext(bookmarked), endingWriter{w, done}, bookmarkLead+10*time.Millisecond
	if x.serve(); !strings.HasPrefix(w.Body.String(), `{"type":"BOOKMARK"`) {
		t.Errorf("got %s", w.Body)
	}
	// What others answer.
	for name, change := range map[string]func(*http.Request, *apirequest.RequestInfo) http.ResponseWriter{
		"a response that cannot be flushed": func(*http.Request, *apirequest.RequestInfo) http.ResponseWriter {
			return plainWriter{httptest.NewRecorder()}
		},
		"invalid parameters": func(req *http.Request, _ *apirequest.RequestInfo) http.ResponseWriter {
			req.URL.RawQuery = "watch=1&limit=x"
			return httptest.NewRecorder()
		},
		"a websocket": func(req *http.Request, _ *apirequest.RequestInfo) http.ResponseWriter {
			req.Header.Set("Connection", "Upgrade")
			req.Header.Set("Upgrade", "websocket")
			return httptest.NewRecorder()
		},
	} {
		req, info := getRequest(t, widgetPath+"?watch=1")
		w := change(req, info)
		if r.handle(w, req.WithContext(apirequest.WithServerShutdownSignal(req.Context(), stopped)), info, of, release) {
			t.Errorf("%s was handled", name)
		}
	}
	req, info = getRequest(t, widgetPath+"?watch=1")
	of.handler.config.MinWatch = 0
	if r.handle(httptest.NewRecorder(), req.WithContext(apirequest.WithServerShutdownSignal(req.Context(), stopped)), info, of, release) {
		t.Error("a watch without a time was handled")
	}
	of.handler.config.MinWatch = time.Minute
	s.store.Close()
	w = httptest.NewRecorder()
	if !r.handle(w, req, info, of, release) || w.Code != http.StatusServiceUnavailable {
		t.Errorf("a watch of a closed store: %d %s", w.Code, w.Body)
	}
}
