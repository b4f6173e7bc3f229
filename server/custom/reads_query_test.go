package custom

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/storage"

	"espalier.dev/schema"
	"espalier.dev/server/backend"
	"espalier.dev/store"
)

const (
	// allWidgets is the path of the widgets of all namespaces.
	allWidgets = "/apis/example.com/v1/widgets"
	// widgetKeys is the prefix of the keys of all widgets.
	widgetKeys = "/registry/example.com/widgets/"
)

// selectableCRD is the CRD of widgets that can be selected by their size.
var selectableCRD = strings.Replace(widgetCRD, `"subresources"`, `"selectableFields":[{"jsonPath":".spec.size"}],"subresources"`, 1)

// readerOf returns what reads widgets of v1.
func (s *memoryServer) readerOf(t *testing.T) (*reader, *serving) {
	t.Helper()
	of, err := s.handler.acquire(s.handler.config.Source.Catalog().Get("widgets.example.com"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(of.requests.Release)
	e, err := of.endpoint("v1")
	if err != nil {
		t.Fatal(err)
	}
	return e.reader, of
}

// getRequest returns a GET, and what the filters find out about it.
func getRequest(t *testing.T, target string) (*http.Request, *apirequest.RequestInfo) {
	t.Helper()
	req := httptest.NewRequest(http.MethodGet, target, nil)
	info, err := (&apirequest.RequestInfoFactory{APIPrefixes: sets.NewString("apis")}).NewRequestInfo(req)
	if err != nil {
		t.Fatal(err)
	}
	return req.WithContext(apirequest.WithRequestInfo(req.Context(), info)), info
}

// TestReadSnapshots checks the states that lists ask for.
func TestReadSnapshots(t *testing.T) {
	t.Parallel()
	s := newWidgetServer(t, widgetCRD, schema.KEP)
	r, _ := s.readerOf(t)
	s.put(t, "a", stored("a", ""))
	first := s.store.Revision()
	s.store.Keep(s.store.Snapshot())
	s.put(t, "b", stored("b", ""))
	lost := s.store.Revision()
	s.put(t, "c", stored("c", ""))
	last := s.store.Revision()
	const key = widgetKeys + "n/"
	token := func(revision int64) string {
		text, err := storage.EncodeContinue(key+"b", key, revision)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	exact := metav1.ResourceVersionMatchExact
	req, _ := getRequest(t, widgetPath)
	for name, test := range map[string]struct {
		q     query
		at    int64 // zero if the state is not in memory
		start string
	}{
		"newest":                   {query{}, last, ""},
		"newest, one":              {query{single: true}, last, ""},
		"any":                      {query{ListOptions: options("0", "", 0, "")}, last, ""},
		"not older":                {query{ListOptions: options("x", "", 0, ""), revision: uint64(first)}, last, ""},
		"exact":                    {query{ListOptions: options("x", exact, 0, ""), revision: uint64(first)}, first, ""},
		"exact, one":               {query{ListOptions: options("x", exact, 0, ""), revision: uint64(first), single: true}, 0, ""},
		"exact, lost":              {query{ListOptions: options("x", exact, 0, ""), revision: uint64(lost)}, 0, ""},
		"limit":                    {query{ListOptions: options("x", "", 1, ""), revision: uint64(first)}, first, ""},
		"limit, one":               {query{ListOptions: options("x", "", 1, ""), revision: uint64(first), single: true}, last, ""},
		"limit, any":               {query{ListOptions: options("0", "", 1, "")}, last, ""},
		"limit, newest":            {query{ListOptions: options("", "", 1, "")}, last, ""},
		"limit, not older":         {query{ListOptions: options("x", metav1.ResourceVersionMatchNotOlderThan, 1, ""), revision: uint64(first)}, last, ""},
		"continued":                {query{ListOptions: options("", "", 1, token(first)), key: key}, first, key + "b"},
		"continued, lost":          {query{ListOptions: options("", "", 1, token(lost)), key: key}, 0, key + "b"},
		"continued, newest":        {query{ListOptions: options("", "", 1, token(-1)), key: key}, last, key + "b"},
		"continued, with revision": {query{ListOptions: options("x", "", 1, token(first)), key: key, revision: uint64(first)}, 0, ""},
		"continued, bad token":     {query{ListOptions: options("", "", 1, "x"), key: key}, 0, ""},
	} {
		snap, start, err := r.snapshot(req, &test.q)
		at := int64(0)
		if snap != nil {
			at = snap.Revision
		}
		if test.at == 0 != errors.Is(err, errNotCurrent) || test.at != 0 && err != nil || at != test.at || start != test.start {
			t.Errorf("%s: got %d, %q, %v, want %d, %q", name, at, start, err, test.at, test.start)
		}
	}
	// What etcd has compacted is expired, also if it is in memory.
	r.endpoint.store.Storage.Storage = compactedStorage{r.endpoint.store.Storage.Storage, first + 1}
	if _, err := r.snapshotAt(req, uint64(first)); !errors.Is(err, errNotCurrent) {
		t.Error("a state before the compaction:", err)
	}
	r.endpoint.store.Storage.Storage = compactedStorage{r.endpoint.store.Storage.Storage, first}
	if snap, err := r.snapshotAt(req, uint64(first)); err != nil || snap.Revision != first {
		t.Error("the oldest state after the compaction:", err)
	}

	// A state that is not reached in time is an error, and one that never can be immediately.
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.await(ended, uint64(last)); err != nil {
		t.Error(err)
	}
	for _, revision := range []uint64{uint64(last) + 1, math.MaxInt64 + 1, math.MaxUint64} {
		future := &query{ListOptions: options("x", exact, 0, ""), revision: revision}
		notOlder := &query{ListOptions: options("x", "", 0, ""), revision: revision}
		continued := &query{ListOptions: options("", "", 1, token(int64(min(revision, math.MaxInt64)))), key: key}
		for _, q := range []*query{future, notOlder, continued} {
			if snap, _, err := r.snapshot(req.WithContext(ended), q); !storage.IsTooLargeResourceVersion(err) || snap != nil {
				t.Errorf("%d: %v, %v", revision, snap, err)
			}
		}
	}
	s.store.Close()
	for _, q := range []*query{{}, {ListOptions: options("x", exact, 0, ""), revision: uint64(last) + 1}, {ListOptions: options("x", "", 0, ""), revision: uint64(last) + 1}} {
		if snap, _, err := r.snapshot(req, q); !errors.Is(err, store.ErrClosed) || snap != nil {
			t.Errorf("%+v of a closed store: %v, %v", q, snap, err)
		}
	}
}

// compactedStorage is a storage whose etcd has compacted a revision.
type compactedStorage struct {
	storage.Interface
	revision int64
}

func (s compactedStorage) CompactRevision() int64 { return s.revision }

// stuckWatcher is a watcher that reports nothing.
type stuckWatcher struct{ clientv3.Watcher }

func (stuckWatcher) Watch(ctx context.Context, _ string, _ ...clientv3.OpOption) clientv3.WatchChan {
	events := make(chan clientv3.WatchResponse)
	context.AfterFunc(ctx, func() { close(events) })
	return events
}

func (stuckWatcher) RequestProgress(context.Context) error { return nil }

func (stuckWatcher) Close() error { return nil }

// TestStuckStore checks that reads of the newest state are for etcd if the store is not as new.
func TestStuckStore(t *testing.T) {
	t.Parallel()
	s := newWidgetServer(t, widgetCRD, schema.KEP)
	r, of := s.readerOf(t)
	stuck, err := store.Open(store.Config{Client: s.client, Watcher: stuckWatcher{}, Prefix: "/registry/"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stuck.Close)
	<-stuck.Loaded()
	reads := *r.reads
	reads.store = stuck
	r.reads = &reads
	s.put(t, "a", stored("a", ""))
	for _, path := range []string{widgetPath, widgetPath + "/a", widgetPath + "?watch=1"} {
		req, info := getRequest(t, path)
		handled := true
		// The revision of etcd is known after some time, which depends on the machine.
		for limit := 50 * time.Millisecond; handled && limit < time.Minute; limit *= 10 {
			ctx, cancel := context.WithTimeout(req.Context(), limit)
			handled = r.handle(httptest.NewRecorder(), req.WithContext(ctx), info, of, func() {})
			cancel()
		}
		if handled {
			t.Errorf("%s was handled", path)
		}
	}
}

func options(version string, match metav1.ResourceVersionMatch, limit int64, token string) metainternalversion.ListOptions {
	return metainternalversion.ListOptions{ResourceVersion: version, ResourceVersionMatch: match, Limit: limit, Continue: token}
}

// TestHandledReads checks which reads are answered with the stored bytes, and that the handlers of
// k8s.io/apiserver answer the others.
func TestHandledReads(t *testing.T) {
	t.Parallel()
	s := newWidgetServer(t, selectableCRD, schema.KEP)
	r, of := s.readerOf(t)
	for i, name := range []string{"a", "b", "c"} {
		s.put(t, name, strings.Replace(stored(name, fmt.Sprintf(`,"labels":{"n":"%d"}`, i)), `"size":1`, fmt.Sprintf(`"size":%d`, i), 1))
	}
	if _, err := s.client.Put(t.Context(), widgetKeys+"m/d", strings.Replace(stored("d", ""), `"namespace":"n"`, `"namespace":"m"`, 1)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.store.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	revision := fmt.Sprint(s.store.Revision())
	for _, test := range []struct {
		path, accept string
		handled      bool
		names        []string // of the objects in the answer, if it is a list
	}{
		{path: widgetPath + "/a", handled: true},
		{path: widgetPath + "/none", handled: true},
		{path: widgetPath + "/a?resourceVersion=", handled: true},
		{path: widgetPath + "/a?resourceVersion=0", handled: true},
		{path: widgetPath + "/a?resourceVersion=" + revision, handled: true},
		{path: widgetPath + "/a?resourceVersion=1&other=1", handled: true},
		{path: widgetPath + "/a?resourceVersion=x"},
		{path: widgetPath + "/a?export=true"},
		{path: widgetPath + "/a?export=false"},
		{path: widgetPath + "/a?pretty=true"},
		{path: widgetPath + "/a", accept: "application/yaml"},
		{path: widgetPath + "/a", accept: "application/json;as=Table;v=v1;g=meta.k8s.io"},
		{path: widgetPath + "/a", accept: "text/plain"},
		{path: widgetPath, handled: true, names: []string{"a", "b", "c"}},
		{path: allWidgets, handled: true, names: []string{"d", "a", "b", "c"}},
		{path: widgetPath + "?limit=2", handled: true, names: []string{"a", "b"}},
		{path: widgetPath + "?limit=3", handled: true, names: []string{"a", "b", "c"}},
		{path: widgetPath + "?limit=2&resourceVersion=0", handled: true, names: []string{"a", "b", "c"}},
		{path: widgetPath + "?limit=1&labelSelector=n%3D1", handled: true, names: []string{"b"}},
		{path: widgetPath + "?limit=1&labelSelector=n!%3D1", handled: true, names: []string{"a"}},
		{path: widgetPath + "?fieldSelector=spec.size%3D2", handled: true, names: []string{"c"}},
		{path: widgetPath + "?fieldSelector=metadata.name%3Db", handled: true, names: []string{"b"}},
		{path: widgetPath + "?fieldSelector=metadata.name%3Db,spec.size%3D2", handled: true},
		{path: widgetPath + "?fieldSelector=metadata.name%3Dnone", handled: true},
		{path: allWidgets + "?fieldSelector=metadata.namespace%3Dm", handled: true, names: []string{"d"}},
		{path: widgetPath + "?fieldSelector=spec.other%3D1"},
		{path: widgetPath + "?resourceVersionMatch=Exact"},
		{path: widgetPath + "?limit=x"},
		{path: widgetPath + "?continue=x"},
		{path: widgetPath + "?pretty=1", names: []string{"a", "b", "c"}},
	} {
		req, info := getRequest(t, test.path)
		req.Header.Set("Accept", test.accept)
		w := httptest.NewRecorder()
		if handled := r.handle(w, req, info, of, func() {}); handled != test.handled || !handled && w.Body.Len() > 0 {
			t.Errorf("%s %s: handled: %v, %s", test.path, test.accept, handled, w.Body)
			continue
		}
		own, stock := httptest.NewRecorder(), httptest.NewRecorder()
		s.ServeHTTP(own, req)
		audited := audit.WithAuditContext(req.Context())
		if err := audit.AuditContextFrom(audited).Init(audit.RequestAuditConfig{Level: auditinternal.LevelRequestResponse}, nil); err != nil {
			t.Fatal(err)
		}
		s.ServeHTTP(stock, req.WithContext(audited))
		if own.Code != stock.Code || own.Header().Get("Content-Type") != stock.Header().Get("Content-Type") || withoutToken(own.Body.String()) != withoutToken(stock.Body.String()) {
			t.Errorf("%s %s: %d %s\n%d %s", test.path, test.accept, own.Code, own.Body, stock.Code, stock.Body)
		}
		if test.handled && (w.Code != own.Code || w.Body.String() != own.Body.String()) {
			t.Errorf("%s: the reader answers with %d %s", test.path, w.Code, w.Body)
		}
		if length := own.Header().Get("Content-Length"); test.handled && own.Code == http.StatusOK && length != fmt.Sprint(own.Body.Len()) {
			t.Errorf("%s: the length is %s instead of %d", test.path, length, own.Body.Len())
		}
		var names []string
		for _, part := range strings.Split(own.Body.String(), `"uid":"u-`)[1:] {
			names = append(names, part[:1])
		}
		if info.Verb == "list" && own.Code == http.StatusOK && test.accept == "" && test.names != nil && !strings.Contains(test.path, "pretty") && !slices.Equal(names, test.names) {
			t.Errorf("%s: got %v, want %v", test.path, names, test.names)
		}
	}
	for path, name := range map[string]string{widgetPath + "/..": "..", widgetPath + "/.": ".", widgetPath + "/a%25b": "a%b", widgetPath + "/x": "a/b"} {
		req, info := getRequest(t, path)
		info.Name = name
		if r.handle(httptest.NewRecorder(), req, info, of, func() {}) {
			t.Errorf("the name %s was handled", name)
		}
		info.Name, info.Namespace = "a", name
		if r.handle(httptest.NewRecorder(), req, info, of, func() {}) {
			t.Errorf("the namespace %s was handled", name)
		}
	}
	// A read of a past state is for the storage.
	for path, handled := range map[string]bool{widgetPath: true, widgetPath + "?resourceVersion=0": false, widgetPath + "/a": true, widgetPath + "/a?resourceVersion=0": false, widgetPath + "?resourceVersion=1": true} {
		req, info := getRequest(t, path)
		if got := r.handle(httptest.NewRecorder(), req.WithContext(backend.WithAsOf(req.Context(), 1)), info, of, func() {}); got != handled {
			t.Errorf("%s as of another revision: handled: %v", path, got)
		}
	}
	// The parts of a list are those of one state.
	req, info := getRequest(t, widgetPath+"?limit=1")
	if !r.list(httptest.NewRecorder(), req, info) {
		t.Fatal("a list was not handled")
	}
	at := s.store.Revision()
	s.put(t, "e", stored("e", ""))
	if s.store.SnapshotAt(at) == nil {
		t.Error("the state of a list with more parts was not kept")
	}
	req, info = getRequest(t, widgetPath)
	if !r.list(httptest.NewRecorder(), req, info) {
		t.Fatal("a list was not handled")
	}
	at = s.store.Revision()
	s.put(t, "f", stored("f", ""))
	if s.store.SnapshotAt(at) != nil {
		t.Error("the state of a complete list was kept")
	}
	req, info = getRequest(t, widgetPath+"?watch=1")
	if r.list(httptest.NewRecorder(), req, info) {
		t.Error("a watch was handled as a list")
	}
	// An object that is malformed is for the handlers of k8s.io/apiserver, which report it.
	s.put(t, "bad", "{")
	for _, path := range []string{widgetPath + "/bad", widgetPath} {
		if req, info := getRequest(t, path); r.handle(httptest.NewRecorder(), req, info, of, func() {}) {
			t.Errorf("%s was handled", path)
		}
	}
	// The end of a request, and of the store, are answered.
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for path, code := range map[string]int{
		widgetPath + "?resourceVersion=0":                                      http.StatusInternalServerError,
		widgetPath + "/a?resourceVersion=" + fmt.Sprint(s.store.Revision()+1):  http.StatusGatewayTimeout,
		widgetPath + "?limit=1&resourceVersion=" + fmt.Sprint(math.MaxInt64/2): http.StatusGatewayTimeout,
	} {
		req, info := getRequest(t, path)
		w := httptest.NewRecorder()
		if !r.handle(w, req.WithContext(ended), info, of, func() {}) || w.Code < 400 || code == http.StatusGatewayTimeout && w.Code != code {
			t.Errorf("%s after the end of the request: %d %s", path, w.Code, w.Body)
		}
	}
	s.store.Close()
	for _, path := range []string{widgetPath, widgetPath + "/a"} {
		req, info := getRequest(t, path)
		w := httptest.NewRecorder()
		if !r.handle(w, req, info, of, func() {}) || w.Code != http.StatusServiceUnavailable {
			t.Errorf("%s of a closed store: %d %s", path, w.Code, w.Body)
		}
	}
	// Before the store is loaded, it has no objects to answer with.
	empty := &reader{views: r.views, endpoint: r.endpoint, prefix: r.prefix, namespaced: r.namespaced, fields: r.fields, json: r.json}
	empty.reads = &reads{store: &store.Store{}}
	req, info = getRequest(t, widgetPath+"/a?resourceVersion=0")
	if empty.isLoaded() || empty.get(httptest.NewRecorder(), req, info) {
		t.Error("a read was handled before the store was loaded")
	}
}

// spending is a budget that is used up by some bytes.
type spending struct{ left *int }

func (s spending) Spend(bytes int) (bool, error) {
	if *s.left -= bytes; *s.left < 0 {
		return false, apierrors.NewTooManyRequests("too many lists", 1)
	}
	return true, nil
}

func (s spending) SpendCopy(bytes int) error {
	_, err := s.Spend(bytes)
	return err
}

func (spending) Leave(int) func() { return func() {} }

// TestListBudget checks which objects of a list count in the budget of its request: those of versions
// that are not kept with the stored objects.
func TestListBudget(t *testing.T) {
	t.Parallel()
	s := newWidgetServer(t, widgetCRD, schema.KEP)
	s.put(t, "a", stored("a", ""))
	s.put(t, "b", stored("b", ""))
	for version, code := range map[string]int{"v1": http.StatusOK, "v2": http.StatusTooManyRequests} {
		for left, want := range map[int]int{0: code, 100: code, 1 << 20: http.StatusOK} {
			req := httptest.NewRequest(http.MethodGet, strings.Replace(widgetPath, "v1", version, 1), nil)
			ctx, done := backend.WithBudget(req.Context(), spending{&left})
			w := httptest.NewRecorder()
			s.ServeHTTP(w, req.WithContext(ctx))
			done()
			if w.Code != want {
				t.Errorf("%s: %d %s", version, w.Code, w.Body)
			}
		}
	}
}

// TestListBudgetOfDefaults checks that objects count if their defaults make them much larger than what is stored, in
// the lists that are answered with views, and in those of other requests.
func TestListBudgetOfDefaults(t *testing.T) {
	t.Parallel()
	definition := strings.Replace(widgetCRD, `"free":{`, `"many":{"type":"array","items":{"type":"object","properties":{
		"text":{"type":"string","default":"`+strings.Repeat("x", 1000)+`"}}}},"free":{`, 1)
	s := newWidgetServer(t, definition, schema.KEP)
	many := strings.TrimSuffix(strings.Repeat("{},", 1000), ",")
	for _, name := range []string{"a", "b"} {
		s.put(t, name, `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"`+name+`","namespace":"n","uid":"u","generation":1},"spec":{"many":[`+many+`]}}`)
	}
	for range 2 { // whether a list before has made the views or not
		for _, method := range []string{http.MethodGet, http.MethodDelete} {
			for left, want := range map[int]int{1 << 20: http.StatusTooManyRequests, 4 << 20: http.StatusOK} {
				req := httptest.NewRequest(method, widgetPath+"?dryRun=All", nil)
				if method == http.MethodGet {
					req = httptest.NewRequest(method, widgetPath, nil)
				}
				ctx, done := backend.WithBudget(req.Context(), spending{&left})
				w := httptest.NewRecorder()
				s.ServeHTTP(w, req.WithContext(ctx))
				done()
				if w.Code != want {
					t.Errorf("%s: %d %.200s", method, w.Code, w.Body)
				}
			}
		}
	}
}

// withoutToken returns an answer without how the token of a list spells its key.
func withoutToken(text string) string {
	before, after, ok := strings.Cut(text, `"continue":"`)
	if !ok || strings.HasPrefix(after, `"`) {
		return text
	}
	_, after, _ = strings.Cut(after, `"`)
	return before + after
}
