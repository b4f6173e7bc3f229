package store

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
)

// TestSlowWatchers limits the memory of watchers that do not read: they end when their events
// have left the window. Others receive everything, in parts.
func TestSlowWatchers(t *testing.T) {
	t.Parallel()
	client := newEtcd(t)
	const limit = 4 << 20
	s := open(t, Config{Client: client, MaxBytes: limit})
	start := s.Revision()
	watch := func(key string) *Watcher {
		t.Helper()
		w, err := s.Watch(key, start)
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	slow, other, idle, fast := watch(prefix), watch(prefix+"a"), watch(prefix+"b"), watch(prefix)
	value := strings.Repeat("x", 100_000)
	received := 0
	for n := range 100 {
		key := prefix + "a"
		if n > 50 {
			key = prefix + "c" // other gets no more events
		}
		put(t, client, key, value)
		if n%10 != 9 {
			continue
		}
		settle(t, s)
		for received <= n {
			events, revision, err := wait(t.Context(), fast)
			if err != nil {
				t.Fatal(err)
			}
			received += len(events)
			if last := events[len(events)-1].Revision; received <= n && revision != last || len(events) > 4 {
				t.Errorf("%d events up to %d, the last is %d", len(events), revision, last)
			}
		}
	}
	for name, w := range map[string]*Watcher{"slow": slow, "other": other} {
		if _, _, err := wait(t.Context(), w); !errors.Is(err, ErrSlow) {
			t.Errorf("%s: %v", name, err)
		}
	}
	put(t, client, prefix+"b", "1")
	if got, want := next(t, idle), []string{"b:->1"}; !slices.Equal(got, want) {
		t.Error(got)
	}
}

// wait waits for events or the end of a watcher.
func wait(ctx context.Context, w *Watcher) ([]*Event, int64, error) {
	for {
		if events, revision, err := w.Poll(); len(events) > 0 || err != nil {
			return events, revision, err
		}
		select {
		case <-w.Ready():
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		}
	}
}
