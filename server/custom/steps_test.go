package custom

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/endpoints/handlers"
	requestmetrics "k8s.io/apiserver/pkg/endpoints/handlers/metrics"
	"k8s.io/apiserver/pkg/storage"

	"espalier.dev/crd"
	"espalier.dev/schema"
)

// TestEndedSteps checks that each step of a write ends if its request has ended.
func TestEndedSteps(t *testing.T) {
	t.Parallel()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	w := &write{}
	body, err := parseApplied([]byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	for name, step := range map[string]func() error{
		"manage":        func() error { return w.manage(ended, nil, nil) },
		"admit":         func() error { return w.admit(ended, nil, nil) },
		"beforeCreate":  func() error { return w.beforeCreate(ended, nil) },
		"prepareUpdate": func() error { return w.prepareUpdate(ended, "", nil, nil) },
		"apply":         func() error { _, err := w.apply(ended, body, nil); return err },
	} {
		if err := step(); !apierrors.IsTimeout(err) && !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestReadBody checks which bodies are too large.
func TestReadBody(t *testing.T) {
	t.Parallel()
	for limit, large := range map[int64]bool{-1: false, 0: false, 1: true, 4: true, 5: false, 6: false} {
		w := &write{endpoint: &endpoint{}, scope: &handlers.RequestScope{MaxRequestBodyBytes: limit}, req: httptest.NewRequest(http.MethodPost, "/", strings.NewReader("12345"))}
		if err := w.readBody(t.Context(), requestmetrics.Create); apierrors.IsRequestEntityTooLargeError(err) != large || !large && (err != nil || string(w.body) != "12345") {
			t.Errorf("limit %d: %q, %v", limit, w.body, err)
		}
	}
	w := &write{endpoint: &endpoint{}, scope: &handlers.RequestScope{}, req: httptest.NewRequest(http.MethodPost, "/", iotest.ErrReader(errConversion))}
	if err := w.readBody(t.Context(), requestmetrics.Create); !errors.Is(err, errConversion) {
		t.Error(err)
	}
}

// watched is a storage whose watches have one result.
type watched struct {
	events watch.Interface
	err    error
}

func (w watched) Watch(context.Context, *metainternalversion.ListOptions) (watch.Interface, error) {
	return w.events, w.err
}

// TestServingWatcher checks the watches of the handlers of k8s.io/apiserver.
func TestServingWatcher(t *testing.T) {
	t.Parallel()
	s := newWidgetServer(t, widgetCRD, schema.KEP)
	_, of := s.readerOf(t)
	released := 0
	start := func(w watched) (watch.Interface, error) {
		return servingWatcher{w, of, func() { released++ }}.Watch(t.Context(), nil)
	}
	if w, err := start(watched{err: storage.NewInvalidError(field.ErrorList{field.Invalid(field.NewPath("resourceVersion"), "x", "not a number")})}); !apierrors.IsBadRequest(err) || w != nil {
		t.Errorf("an invalid revision: %v, %v", w, err)
	}
	if w, err := start(watched{err: errConversion}); !errors.Is(err, errConversion) || apierrors.IsBadRequest(err) || w != nil {
		t.Errorf("a watch that fails: %v, %v", w, err)
	}
	if released != 0 {
		t.Error("a watch that has not started was released")
	}
	events := watch.NewFake()
	w, err := start(watched{events: events})
	if err != nil || released != 1 {
		t.Fatal(err, released)
	}
	of.requests.Release()
	if of.requests.CloseIdle() {
		t.Error("the CRD of a watch is idle")
	}
	w.Stop()
	if !events.IsStopped() {
		t.Error("the events go on")
	}
	if w.Stop(); !of.requests.Acquire() {
		t.Fatal("the CRD is closed")
	}
	// The end of the CRD ends its watches.
	events = watch.NewFake()
	if w, err = start(watched{events: events}); err != nil {
		t.Fatal(err)
	}
	of.leave()
	for range w.ResultChan() {
	}
	w.Stop()
}

// TestChangedCatalog checks which resources are forgotten if nothing is known about a new catalog.
func TestChangedCatalog(t *testing.T) {
	t.Parallel()
	d := newWidgets(t, widgetCRD, schema.KEP)
	source := &refreshedSource{catalog: crd.NewCatalog(d)}
	s := newMemoryServer(t, source, nil)
	h := s.handler
	if w := sendTo(s, http.MethodGet, widgetPath, "", ""); w.Code != http.StatusOK {
		t.Fatal(w.Code, w.Body)
	}
	for _, name := range []string{"as.example.com", "bs.example.com"} {
		h.named.add(runtimeschema.ParseGroupResource(name))
	}
	if names := h.named.names(); len(names) != 3 || !slices.Contains(names, "as.example.com") || !slices.Contains(names, "widgets.example.com") {
		t.Errorf("got %v", names)
	}
	gone := func(names ...string) string {
		var list []string
		for _, gr := range h.change(source.Catalog(), names) {
			list = append(list, gr.String())
		}
		slices.Sort(list)
		return strings.Join(slices.Compact(list), " ")
	}
	if got := gone(); got != "as.example.com bs.example.com" {
		t.Errorf("got %s", got)
	}
	if got := gone("bs.example.com", "widgets.example.com"); got != "bs.example.com" {
		t.Errorf("got %s", got)
	}
	of := h.servings[d.Name()]
	if of == nil || of.gone.Err() != nil {
		t.Fatal("a CRD that has not changed is not served")
	}
	// Its status has changed.
	next := d.CRD().DeepCopy()
	next.Status.StoredVersions = append(next.Status.StoredVersions, "v2")
	renewed := d.Renew(next)
	source.catalog = crd.NewCatalog(renewed)
	if got := gone("widgets.example.com"); got != "" || h.servings[d.Name()] != of || of.definition.Load() != renewed {
		t.Errorf("%s is gone, or is served in another way", got)
	}
	// Its spec has changed.
	source.catalog = crd.NewCatalog(newWidgets(t, strings.Replace(widgetCRD, `"minimum":0`, `"minimum":1`, 1), schema.KEP))
	if got := gone("widgets.example.com"); got != "" || h.servings[d.Name()] != nil || of.gone.Err() == nil {
		t.Errorf("%s is gone, or the old CRD is served", got)
	}
	if w := sendTo(s, http.MethodGet, widgetPath, "", ""); w.Code != http.StatusOK {
		t.Fatal(w.Code, w.Body)
	}
	source.catalog = crd.NewCatalog()
	if got := gone(); got != "as.example.com bs.example.com widgets.example.com" || len(h.servings) != 0 {
		t.Errorf("got %s", got)
	}
	h.Changed(source.Catalog())
	if names := h.named.names(); len(names) != 0 {
		t.Errorf("metrics name %v", names)
	}
}

// TestNames checks which resources metrics name.
func TestNames(t *testing.T) {
	t.Parallel()
	n := metricNames{resources: map[runtimeschema.GroupResource]bool{}}
	of := func(i int) runtimeschema.GroupResource {
		return runtimeschema.GroupResource{Group: "g", Resource: fmt.Sprint(i)}
	}
	for i := range maxNamed + 2 {
		if n.add(of(i)) != (i < maxNamed) {
			t.Errorf("resource %d is named: %v", i, i >= maxNamed)
		}
	}
	if !n.add(of(0)) || len(n.names()) != maxNamed {
		t.Errorf("%d names", len(n.names()))
	}
	if n.remove(of(0)); !n.add(of(maxNamed)) || n.add(of(0)) {
		t.Error("there is no room for another resource, or too much")
	}
}

// TestCompressedReads checks which answers are compressed.
func TestCompressedReads(t *testing.T) {
	t.Parallel()
	s := newWidgetServer(t, widgetCRD, schema.KEP)
	r, of := s.readerOf(t)
	// The object has exactly the size from which on answers are compressed, or one more.
	for more, compressed := range []bool{false, true} {
		s.put(t, "a", stored("a", ""))
		base := strings.Replace(stored("a", ""), `"x"`, `"`+strings.Repeat("x", 1000)+`"`, 1)
		s.put(t, "a", base)
		size := func() int {
			req, info := getRequest(t, widgetPath+"/a")
			w := httptest.NewRecorder()
			r.handle(w, req, info, of, func() {})
			return w.Body.Len()
		}
		for range 3 { // the revision may get another digit
			s.put(t, "a", strings.Replace(base, "xxx", strings.Repeat("x", 3+gzipBytes+more-size()), 1))
			base = string(s.store.Get(widgetKeys + "n/a").Value)
			if size() == gzipBytes+more {
				break
			}
		}
		for encoding, want := range map[string]bool{"gzip": compressed, "": false} {
			req, info := getRequest(t, widgetPath+"/a")
			req.Header.Set("Accept-Encoding", encoding)
			w := httptest.NewRecorder()
			if !r.handle(w, req, info, of, func() {}) || (w.Header().Get("Content-Encoding") == "gzip") != want || (w.Header().Get("Vary") == "Accept-Encoding") != want || (w.Header().Get("Content-Length") == "") != want {
				t.Errorf("%d more, encoding %q: %v", more, encoding, w.Header())
			}
		}
	}
}
