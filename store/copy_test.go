package store

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// contents returns the keys and values of a store.
func contents(s *Store) string {
	var out []string
	for e := range s.Snapshot().Range(prefix, "") {
		out = append(out, strings.TrimPrefix(e.Key, prefix)+"="+string(e.Value))
	}
	return strings.Join(out, " ")
}

// TestCopy opens stores with a copy of another one: they read nothing, and follow etcd from there.
func TestCopy(t *testing.T) {
	t.Parallel()
	client := newEtcd(t)
	s := open(t, Config{Client: client, MaxEvents: 5})
	states := map[int64]string{}
	write := func(key, value string) (revision int64) {
		t.Helper()
		if value == "" {
			resp, err := client.Delete(t.Context(), prefix+key)
			if err != nil {
				t.Fatal(err)
			}
			revision = resp.Header.Revision
		} else {
			resp, err := client.Put(t.Context(), prefix+key, value)
			if err != nil {
				t.Fatal(err)
			}
			revision = resp.Header.Revision
		}
		if err := s.Await(t.Context(), revision); err != nil {
			t.Fatal(err)
		}
		states[revision] = contents(s)
		return revision
	}
	first := write("a", "1")
	write("b", "2")
	write("a", "3")
	middle := write("b", "")
	write("c", "4")
	copied := s.Copy()
	want := contents(s)
	later := write("d", "5")
	for i := range 20 {
		later = write("e", fmt.Sprint(i)) // events leave the window of the original
	}
	if copied.Revision() != middle+1 {
		t.Errorf("the copy has revision %d", copied.Revision())
	}
	fork := open(t, Config{Client: client, From: copied})
	w, err := fork.Watch(prefix, first)
	if err != nil {
		t.Fatal("events before the copy are lost:", err)
	}
	defer w.Stop()
	if err := fork.Await(t.Context(), later); err != nil {
		t.Fatal(err)
	}
	if got := contents(fork); got != contents(s) {
		t.Errorf("got %q, want %q", got, contents(s))
	}
	if fork.Get(prefix+"c") != s.Get(prefix+"c") {
		t.Error("the entries are not shared")
	}
	// The copy is as it was.
	again := &Store{config: Config{MaxEvents: 5, MaxBytes: 1 << 20}, loaded: make(chan struct{})}
	again.begin(copied)
	if got := contents(again); got != want {
		t.Errorf("the copy has %q instead of %q", got, want)
	}
	for revision, want := range states {
		past, ok := copied.Rewind(revision)
		if inside := revision <= copied.Revision(); ok != inside {
			t.Errorf("revision %d: %v", revision, ok)
			continue
		} else if !inside {
			continue
		}
		old := &Store{config: Config{MaxEvents: 5, MaxBytes: 1 << 20}, loaded: make(chan struct{})}
		old.begin(past)
		if got := contents(old); got != want || old.Revision() != revision {
			t.Errorf("revision %d: got %q at %d, want %q", revision, got, old.Revision(), want)
		}
		if events := old.window.after(0); len(events) > 0 && events[len(events)-1].Revision > revision {
			t.Errorf("revision %d has an event of revision %d", revision, events[len(events)-1].Revision)
		}
		sum := int64(0)
		for _, e := range old.window.after(0) {
			sum += e.size()
		}
		if old.window.bytes != sum {
			t.Errorf("revision %d: the window has %d bytes instead of %d", revision, old.window.bytes, sum)
		}
	}
	if _, ok := s.Copy().Rewind(first); ok {
		t.Error("events that have left the window were undone")
	}
	if _, err := s.Watch(prefix, first); !errors.As(err, new(*ExpiredError)) {
		t.Error("the window of the original:", err)
	}
}

// TestMarks checks that marks are set one by one.
func TestMarks(t *testing.T) {
	t.Parallel()
	e := &Entry{}
	if e.Marked(MarkIndependent) {
		t.Error("a new entry is marked")
	}
	e.SetMark(MarkIndependent)
	if !e.Marked(MarkIndependent) || e.Marked(2) {
		t.Error("the wrong marks")
	}
}
