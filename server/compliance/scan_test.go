package compliance

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"espalier.dev/api"
	"espalier.dev/crd"
	"espalier.dev/store"
)

// TestTurns checks that scans take turns, and that a scan ends if there is time.
func TestTurns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, plural := range []string{"as", "bs"} {
		w.define(plural, `"a":{"type":"string"}`)
		for i := range 3 {
			w.put(plural, fmt.Sprint("o", i), `{"b":1}`)
		}
	}
	s := w.idle(store.Config{})
	s.reached = s.config.Store.Revision()
	s.begin(w.catalog.Load().Get("as.example.com"))
	s.begin(w.catalog.Load().Get("bs.example.com"))
	a, b := s.scans["as.example.com"], s.scans["bs.example.com"]
	s.restart(a, a.definition) // it is in the queue already
	past := time.Now().Add(-time.Hour)
	for i, want := range []struct {
		first        *scan
		inA, inB     int64
		doneA, doneB bool
	}{
		{b, 1, 0, false, false}, {a, 1, 1, false, false}, {b, 2, 1, false, false}, {a, 2, 2, false, false},
	} {
		if err := s.work(t.Context(), past); err != nil {
			t.Fatal(err)
		}
		if len(s.queue) != 2 || s.queue[0] != want.first || a.counts.Objects != want.inA || b.counts.Objects != want.inB || a.complete || b.complete {
			t.Fatalf("turn %d: %d in the queue, %d and %d objects were counted", i, len(s.queue), a.counts.Objects, b.counts.Objects)
		}
	}
	// The events of the last slice come first.
	s.reached = a.revision - 1
	if err := s.work(t.Context(), past); err != nil || a.counts.Objects != 2 || len(s.queue) != 2 {
		t.Errorf("%v, %d objects were counted", err, a.counts.Objects)
	}
	s.reached = s.config.Store.Revision()
	if err := s.work(t.Context(), time.Now().Add(time.Hour)); err != nil || len(s.queue) != 0 {
		t.Fatalf("%v, %d in the queue", err, len(s.queue))
	}
	for _, c := range []*scan{a, b} {
		if !c.complete || c.counts.Objects != 3 || c.counts.Failing != 3 || c.queued || c.slow != nil || !s.unpublished[c] || c.shown || c.worked <= 0 {
			t.Errorf("%s: %+v", c.definition.Name(), c.counts)
		}
	}
	// With enough time, a scan ends in one turn. One that is forgotten is not continued.
	s.restart(a, a.definition)
	s.restart(b, b.definition)
	s.forget(a)
	if err := s.work(t.Context(), time.Now().Add(time.Hour)); err != nil || len(s.queue) != 0 || !b.complete || b.counts.Objects != 3 || a.complete {
		t.Errorf("%v, %d in the queue, %+v", err, len(s.queue), b.counts)
	}
	s.restart(b, b.definition)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.work(ended, time.Now().Add(time.Hour)); !errors.Is(err, context.Canceled) || b.complete || b.counts.Objects != 0 {
		t.Errorf("%v, %+v", err, b.counts)
	}
	if s.advance(ended, b, time.Now().Add(time.Hour)) || b.counts.Objects != 0 || b.err != nil {
		t.Errorf("a scan that is interrupted has ended: %+v, %v", b.counts, b.err)
	}
	if !s.advance(t.Context(), b, time.Now().Add(time.Hour)) || b.counts.Objects != 3 {
		t.Errorf("a scan that was interrupted does not continue: %+v", b.counts)
	}
	s.forgetAll()
	if len(s.scans) != 0 || len(s.queue) != 0 || len(s.results) != 0 || s.catalog != nil {
		t.Error("something is left")
	}
}

// TestConfigDefaults checks the documented defaults.
func TestConfigDefaults(t *testing.T) {
	t.Parallel()
	if c := New(Config{}).config; c.Interval != 2*time.Second || c.MaxFailing != 10_000 {
		t.Errorf("got %v, %d", c.Interval, c.MaxFailing)
	}
	if c := New(Config{Interval: time.Minute, MaxFailing: 7}).config; c.Interval != time.Minute || c.MaxFailing != 7 {
		t.Errorf("got %v, %d", c.Interval, c.MaxFailing)
	}
}

// TestFollow checks what a scanner does after it has lost events, and after it has not.
func TestFollow(t *testing.T) {
	t.Parallel()
	const name = "as.example.com"
	w := newWorld(t)
	w.define("as", `"a":{"type":"string"}`)
	w.put("as", "one", `{"b":1}`)
	// prepare returns a scanner that has counted nothing, and believes that it has counted everything.
	prepare := func() (*Scanner, *scan) {
		s := w.idle(store.Config{})
		s.begin(w.catalog.Load().Get(name))
		c := s.scans[name]
		s.queue, c.queued, c.complete, c.cursor, s.catalog = nil, false, true, c.end(), w.catalog.Load()
		return s, c
	}
	follow := func(s *Scanner, after int64) (stop func()) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		s.position.Reach(0)
		go func() { done <- s.follow(ctx, after) }()
		return func() {
			cancel()
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Errorf("follow: %v", err)
			}
		}
	}
	s, _ := prepare()
	stop := follow(s, 0)
	w.eventually(s, func() string {
		if r := s.result(name); !r.knows() || r.counts.Objects != 1 {
			return "the objects are not counted again"
		}
		return ""
	})
	stop()
	s, c := prepare()
	before := s.config.Store.Revision()
	stop = follow(s, before)
	w.put("as", "two", `{"b":1}`)
	w.eventually(s, func() string {
		if r := s.result(name); !r.knows() || r.counts.Failing != 1 {
			return "the event is not counted"
		}
		return ""
	})
	stop()
	if c.counts.Objects != 1 || s.reached <= before {
		t.Errorf("%d objects were counted, reached %d", c.counts.Objects, s.reached)
	}
	expired := (*store.ExpiredError)(nil)
	if err := s.follow(t.Context(), -1); !errors.As(err, &expired) {
		t.Errorf("events that are lost: %v", err)
	}

	// A catalog that is too expensive to compare now is compared later.
	s = w.idle(store.Config{})
	s.catalog, s.synced, s.syncCost = crd.NewCatalog(), time.Now(), 5*time.Millisecond
	stop = follow(s, s.config.Store.Revision())
	w.eventually(s, func() string {
		if !s.result(name).knows() {
			return "the catalog is not compared again"
		}
		return ""
	})
	stop()
}

// TestNext checks when a scanner works, and when it has something to do next.
func TestNext(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.define("as", `"a":{"type":"string"}`)
	w.put("as", "one", `{"b":1}`)
	s := w.idle(store.Config{})
	s.reached = s.config.Store.Revision()
	s.begin(w.catalog.Load().Get("as.example.com"))
	c := s.scans["as.example.com"]
	later := time.Now().Add(time.Hour)
	if resume, err := s.turn(t.Context(), later); err != nil || !resume.Equal(later) || c.complete {
		t.Errorf("during a pause: %v, %v, complete: %v", resume, err, c.complete)
	}
	before := time.Now()
	if resume, err := s.turn(t.Context(), before); err != nil || !resume.After(before) || resume.After(later) || !c.complete {
		t.Errorf("after a pause: %v, %v, complete: %v", resume, err, c.complete)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	s.restart(c, c.definition)
	if _, err := s.turn(ended, before); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}

	at := func(n int) time.Time { return before.Add(time.Duration(n) * time.Minute) }
	none := time.Time{}
	for _, test := range []struct {
		due, resume, compare time.Time
		queue, stale         bool
		want                 time.Time
	}{
		{none, at(1), at(2), false, false, none},
		{at(3), at(1), at(2), false, false, at(3)},
		{none, at(1), at(2), true, false, at(1)},
		{at(3), at(1), at(2), true, false, at(1)},
		{at(3), at(4), at(2), true, false, at(3)},
		{none, at(1), at(2), false, true, at(2)},
		{at(3), at(1), at(2), false, true, at(2)},
		{at(1), at(3), at(2), false, true, at(1)},
		{at(4), at(1), at(2), true, true, at(1)},
		{at(4), at(3), at(2), true, true, at(2)},
	} {
		s.queue = nil
		if test.queue {
			s.queue = []*scan{c}
		}
		if s.catalog = w.catalog.Load(); test.stale {
			s.catalog = nil
		}
		s.synced, s.syncCost = test.compare.Add(-20*time.Second), time.Second
		if got := s.next(test.due, test.resume); !got.Equal(test.want) {
			t.Errorf("%+v: got %v", test, got)
		}
	}
}

// TestScanOf checks to which CRD a key belongs, and that its first object begins a scan.
func TestScanOf(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.define("as", `"a":{"type":"string"}`)
	s := w.idle(store.Config{})
	key := w.key("as", "one")
	if c := s.scanOf(key); c != nil || len(s.scans) != 0 {
		t.Error("a scan begins before there is a catalog")
	}
	s.catalog = w.catalog.Load()
	for _, other := range []string{w.key("bs", "one"), root + "apiextensions.k8s.io/customresourcedefinitions/as.example.com", root + "x", "/other"} {
		if c := s.scanOf(other); c != nil || len(s.scans) != 0 {
			t.Errorf("%s has a scan", other)
		}
	}
	if c := s.scanOf(key); c != nil || len(s.scans) != 1 || len(s.queue) != 1 {
		t.Error("the first object does not begin a scan")
	}
	if c := s.scanOf(key); c == nil || c != s.scans["as.example.com"] || len(s.queue) != 1 {
		t.Error("the second object has no scan")
	}
}

// TestSync checks which scans a new catalog begins, restarts and ends.
func TestSync(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, plural := range []string{"as", "bs", "cs", "ds"} {
		w.define(plural, `"a":{"type":"string"}`)
	}
	w.put("as", "one", `{"b":1}`)
	w.put("bs", "one", `{"b":1}`)
	// The condition of ds is that of objects that exist no longer.
	d := w.catalog.Load().Get("ds.example.com")
	if err := w.write(t.Context(), d, api.CustomResourceDefinitionCondition{Type: api.Compliant, Status: api.ConditionFalse, Reason: reasonNot}); err != nil {
		t.Fatal(err)
	}
	d = w.catalog.Load().Get("cs.example.com")
	if err := w.write(t.Context(), d, api.CustomResourceDefinitionCondition{Type: api.Compliant, Status: api.ConditionTrue, Reason: reasonComply}); err != nil {
		t.Fatal(err)
	}
	s := w.idle(store.Config{})
	s.sync()
	if len(s.scans) != 3 || s.scans["as.example.com"] == nil || s.scans["bs.example.com"] == nil || s.scans["ds.example.com"] == nil || len(s.queue) != 3 || s.stale() {
		t.Fatalf("%d scans, %d in the queue", len(s.scans), len(s.queue))
	}
	s.reached = s.config.Store.Revision()
	if err := s.work(t.Context(), time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	a, b, dd := s.scans["as.example.com"], s.scans["bs.example.com"], s.scans["ds.example.com"]
	clear(s.unpublished)
	// The status of as changes, the spec of bs, and ds is deleted.
	if err := w.write(t.Context(), a.definition, api.CustomResourceDefinitionCondition{Type: api.Compliant, Status: api.ConditionTrue}); err != nil {
		t.Fatal(err)
	}
	w.define("bs", `"b":{"type":"integer"}`)
	w.define("ds", "")
	before := a.definition
	s.synced, s.syncCost = time.Now(), time.Hour
	if s.sync(); !s.stale() || b.complete != true {
		t.Error("the catalogs are compared too early")
	}
	s.synced, s.syncCost = time.Now(), 0
	s.sync()
	if !a.complete || a.definition == before || !s.unpublished[a] || b.complete || !b.queued || !dd.gone || s.scans["ds.example.com"] != nil || s.unpublished[dd] || len(s.queue) != 1 {
		t.Errorf("as %+v, bs %+v, ds gone %v, %d in the queue", a.counts, b.counts, dd.gone, len(s.queue))
	}
	if s.synced.IsZero() || s.stale() {
		t.Error("the comparison is not remembered")
	}
}
