package compliance

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"espalier.dev/api"
	"espalier.dev/crd"
	"espalier.dev/crd/compliance"
	"espalier.dev/store"
)

// TestUnreadable checks that an object that the store cannot read is reported as that, whatever its value is.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	with := compliance.New(plainDefinition(t, api.ClusterScoped))
	r, err := report(t.Context(), with, &store.Entry{Err: errors.New("no key"), Value: []byte(`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"}}`)})
	if err != nil || len(r.Problems) != 1 || r.Problems[0].Kind != compliance.Unreadable || r.Problems[0].Message != "no key" {
		t.Errorf("got %+v, %v", r, err)
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
