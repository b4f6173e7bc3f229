package compliance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/component-base/metrics/legacyregistry"

	"espalier.dev/api"
	"espalier.dev/crd"
	"espalier.dev/crd/compliance"
	"espalier.dev/store"
)

// TestMetricsOfCRD checks which series a CRD has: none without objects, and one for each kind of problems
// that occurs.
func TestMetricsOfCRD(t *testing.T) {
	t.Parallel()
	const name = "metrics.example.com"
	series := func() (all []string) {
		families, err := legacyregistry.DefaultGatherer.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				of, kind := "", ""
				for _, l := range m.GetLabel() {
					switch l.GetName() {
					case "crd":
						of = l.GetValue()
					case "kind":
						kind = " " + l.GetValue()
					}
				}
				if of == name && strings.HasPrefix(f.GetName(), "espalier_") {
					all = append(all, fmt.Sprintf("%s%s %v", f.GetName(), kind, m.GetGauge().GetValue()))
				}
			}
		}
		slices.Sort(all)
		return all
	}
	var counts compliance.Counts
	expect := func(want ...string) {
		t.Helper()
		if scanMetrics().set(name, counts); !slices.Equal(series(), want) {
			t.Errorf("got %q, want %q", series(), want)
		}
	}
	expect()
	counts.AddKinds(1<<compliance.Invalid, 2)
	counts.AddKinds(0, 1)
	expect("espalier_noncompliant_objects "+compliance.Invalid.String()+" 2", "espalier_stored_objects 3")
	counts.AddKinds(1<<compliance.Invalid, -2)
	counts.AddKinds(1<<compliance.Unspecified, 1)
	expect("espalier_noncompliant_objects "+compliance.Unspecified.String()+" 1", "espalier_stored_objects 2")
	counts = compliance.Counts{}
	expect()
}

// TestUnreadable checks that an object that the store cannot read is reported as that, whatever its value is.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	with := compliance.New(plainDefinition(t, api.ClusterScoped))
	r, err := report(t.Context(), with, &store.Entry{Err: errors.New("no key"), Value: []byte(`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"}}`)})
	if err != nil || len(r.Problems) != 1 || r.Problems[0].Kind != compliance.Unreadable || r.Problems[0].Message != "no key" {
		t.Errorf("got %+v, %v", r, err)
	}
}

// TestEnds checks that a scanner ends with its context: before the store has loaded, and amid events.
func TestEnds(t *testing.T) {
	t.Parallel()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := New(Config{Store: &store.Store{}}).Run(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("before the store has loaded: %v", err)
	}

	w := newWorld(t)
	w.define("as", `"a":{"type":"string"}`)
	s := w.idle(store.Config{})
	s.catalog = w.catalog.Load()
	s.begin(s.catalog.Get("as.example.com"))
	c := s.scans["as.example.com"]
	c.complete, c.cursor = true, c.end()
	watch, err := s.config.Store.Watch(s.config.Store.Prefix(), s.config.Store.Revision())
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	w.put("as", "one", `{"b":1}`)
	if _, err := s.config.Store.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-watch.Ready()
	before := s.reached
	if err := s.drain(ended, watch); !errors.Is(err, context.Canceled) || s.reached != before || c.counts.Failing != 0 {
		t.Errorf("got %v, reached %d, %+v", err, s.reached, c.counts)
	}
}

// TestFailing checks that only the objects that do not comply are listed if the scanner knows none.
func TestFailing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.define("as", `"a":{"type":"string"}`)
	w.put("as", "bad", `{"b":1}`)
	w.put("as", "good", `{"a":"x"}`)
	w.put("as", "other", `{"b":1}`)
	s := w.idle(store.Config{})
	var names []string
	for e, r := range s.failing(t.Context(), s.config.Store.Snapshot(), w.catalog.Load().Get("as.example.com"), "", "") {
		names = append(names, fmt.Sprint(strings.HasSuffix(e.Key, "/bad"), len(r.Problems)))
	}
	if want := []string{"true 1", "false 1"}; !slices.Equal(names, want) {
		t.Errorf("got %q, want %q", names, want)
	}
}

// TestIdle checks that a scanner without work waits for changes.
func TestIdle(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.define("as", `"a":{"type":"string"}`)
	w.put("as", "one", `{"a":"x"}`)
	s := w.idle(store.Config{})
	var asked atomic.Int64
	s.config.Catalog = func() *crd.Catalog {
		asked.Add(1)
		return w.catalog.Load()
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	w.eventually(s, func() string { return w.check(s, "as") })
	before := asked.Load()
	time.Sleep(20 * time.Millisecond)
	// It may still have to write the condition.
	if n := asked.Load() - before; n > 50 {
		t.Errorf("the catalog was read %d times", n)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
