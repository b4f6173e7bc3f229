package lru

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
)

// TestCache checks that the cache stays within its limit, makes a value once for concurrent
// callers, and keeps no errors.
func TestCache(t *testing.T) {
	t.Parallel()
	c := New(10_000, func(int, int) int64 { return 1000 })
	made := atomic.Int64{}
	get := func(key int) (int, error) {
		return c.Get(key, func() (int, error) {
			made.Add(1)
			if key < 0 {
				return 0, errors.New("failed")
			}
			return 2 * key, nil
		})
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, err := get(0); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if made.Load() != 1 {
		t.Error(made.Load(), "were made for one key")
	}
	for key := range 100 {
		for _, key := range []int{0, key} { // the first stays in use
			if v, err := get(key); err != nil || v != 2*key {
				t.Error(v, err)
			}
		}
		if c.total > c.limit || c.Len() != c.order.Len() {
			t.Fatal(c.total, c.Len(), c.order.Len())
		}
	}
	if made.Load() != 100 {
		t.Error(made.Load(), "were made: what is used often was removed")
	}
	if c.Len() != 10 {
		t.Error(c.Len(), "are kept")
	}
	made.Store(0)
	for range 2 {
		if _, err := get(-1); err == nil {
			t.Error("no error")
		}
	}
	if made.Load() != 2 || c.Len() != 10 || c.total != 10_000 {
		t.Error("an error is kept")
	}
}

// TestTooLarge keeps the last value even if it is larger than all may be.
func TestTooLarge(t *testing.T) {
	t.Parallel()
	c := New(10, func(string, int) int64 { return 100 })
	made := 0
	for _, key := range []string{"a", "b", "b"} {
		if _, err := c.Get(key, func() (int, error) { made++; return 0, nil }); err != nil {
			t.Error(err)
		}
	}
	if made != 2 || c.Len() != 1 || c.total != 100 {
		t.Error(made, c.Len(), c.total)
	}
}

// TestRemovedBefore forgets a value before it is made.
func TestRemovedBefore(t *testing.T) {
	t.Parallel()
	c := New(10, func(string, int) int64 { return 10 })
	v, err := c.Get("slow", func() (int, error) {
		for _, key := range []string{"a", "b"} {
			if _, err := c.Get(key, func() (int, error) { return 1, nil }); err != nil {
				t.Error(err)
			}
		}
		return 2, nil
	})
	if v != 2 || err != nil || c.Len() != 1 || c.total != 10 || c.items["b"] == nil {
		t.Error(v, err, c.Len(), c.total)
	}
}

// TestPanic returns an error to those who wait for a value, and makes it again for others.
func TestPanic(t *testing.T) {
	t.Parallel()
	c := New(10, func(string, int) int64 { return 1 })
	waits := make(chan error, 1)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		_, _ = c.Get("a", func() (int, error) {
			e := c.items["a"]
			go func() { // as Get, after it has found the item
				i := e.Value.(*item[string, int])
				i.once.Do(func() {})
				waits <- i.err
			}()
			panic("making")
		})
	}()
	if err := <-waits; !errors.Is(err, ErrPanicked) {
		t.Error(err)
	}
	if v, err := c.Get("a", func() (int, error) { return 1, nil }); v != 1 || err != nil {
		t.Error(v, err)
	}
}

// TestReplace checks that a value that is not valid any more is replaced, and that values are removed by key.
func TestReplace(t *testing.T) {
	t.Parallel()
	c := New(1000, func(_ string, v int) int64 { return int64(v) })
	get := func(key string, want int) {
		t.Helper()
		got, err := c.GetValid(key, func(v int) bool { return v == want }, func() (int, error) { return want, nil })
		if err != nil || got != want {
			t.Errorf("%s: got %d, want %d, %v", key, got, want, err)
		}
	}
	get("a", 1)
	get("a", 20)
	get("b", 300)
	if c.Len() != 2 || c.total != 320 {
		t.Errorf("%d values of size %d", c.Len(), c.total)
	}
	if v, err := c.GetValid("a", func(int) bool { return false }, func() (int, error) { return 5, nil }); v != 5 || err != nil {
		t.Errorf("never valid: %d, %v", v, err)
	}
	c.Retain(func(key string) bool { return key == "b" })
	if c.Len() != 1 || c.total != 300 || c.order.Len() != 1 {
		t.Errorf("%d values of size %d", c.Len(), c.total)
	}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 100 {
				get("b", i%2)
			}
		})
	}
	wg.Wait()
	if c.Len() != 1 || c.order.Len() != 1 || c.total > 1 {
		t.Errorf("%d values of size %d", c.Len(), c.total)
	}
}
