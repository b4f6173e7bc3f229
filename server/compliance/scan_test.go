package compliance

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

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
