package follow_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"espalier.dev/server/etcd/etcdtest"
	"espalier.dev/server/follow"
	"espalier.dev/store"
)

const prefix = "/registry/"

// followed is a follower that counts the values of keys.
type followed struct {
	*testing.T
	client   *clientv3.Client
	store    *store.Store
	config   follow.Config
	follower *follow.Follower

	mu      sync.Mutex
	known   map[string]string // what was taken in; the follower's goroutine writes it
	resets  int
	handled []string
	// handle decides what becomes of an item. It may be nil.
	handle func(item string) error
}

func newFollowed(t *testing.T, ready <-chan struct{}) *followed {
	t.Helper()
	db := etcdtest.Open(t)
	f := &followed{T: t, client: db.Client, known: map[string]string{}}
	var err error
	if f.store, err = store.Open(store.Config{Client: f.client, Watcher: db.NewWatcher(), Prefix: prefix}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.store.Close)
	f.config = follow.Config{
		Store: f.store, Ready: ready,
		Reset: func(s *store.Snapshot) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.resets++
			clear(f.known)
			for e := range s.Range(prefix, "") {
				f.known[e.Key] = string(e.Value)
			}
		},
		Take: func(e *store.Event) {
			f.mu.Lock()
			defer f.mu.Unlock()
			if delete(f.known, e.Key()); e.Entry != nil {
				f.known[e.Key()] = string(e.Entry.Value)
			}
		},
		Handle: func(_ context.Context, item string) error {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.handled = append(f.handled, item+"="+f.known[prefix+item])
			if f.handle == nil {
				return nil
			}
			return f.handle(item)
		},
	}
	f.follower = follow.New(f.config)
	return f
}

// run runs the follower until the test ends.
func (f *followed) run() {
	ctx, cancel := context.WithCancel(f.Context())
	done := make(chan error, 1)
	go func() { done <- f.follower.Run(ctx) }()
	f.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			f.Error("it ended with", err)
		}
	})
}

func (f *followed) put(key, value string) {
	f.Helper()
	if _, err := f.client.Put(f.Context(), prefix+key, value); err != nil {
		f.Fatal(err)
	}
}

// await waits until the handled items are as expected.
func (f *followed) await(want ...string) {
	f.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		f.mu.Lock()
		got := strings.Join(f.handled, " ")
		f.mu.Unlock()
		if got == strings.Join(want, " ") {
			return
		}
		if time.Now().After(deadline) {
			f.Fatalf("handled %s, want %v", got, want)
		}
	}
}

// TestNewest checks that an item is handled with the newest state of etcd, also with what was
// written just before the item was added.
func TestNewest(t *testing.T) {
	t.Parallel()
	f := newFollowed(t, nil)
	f.put("a", "1")
	f.follower.Add("a")
	f.follower.Add("a") // once is enough
	f.run()
	f.await("a=1")
	want := []string{"a=1"}
	for _, value := range []string{"2", "3", "4", "5"} {
		f.put("b", value)
		f.follower.Add("b")
		want = append(want, "b="+value)
		f.await(want...)
	}
	if _, err := f.client.Delete(t.Context(), prefix+"b"); err != nil {
		t.Fatal(err)
	}
	f.follower.Add("b")
	f.await(append(want, "b=")...)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.resets != 1 {
		t.Errorf("it began %d times", f.resets)
	}
}

// TestReady checks that nothing is handled before the follower may begin.
func TestReady(t *testing.T) {
	t.Parallel()
	ready := make(chan struct{})
	f := newFollowed(t, ready)
	f.put("a", "1")
	f.follower.Add("a")
	f.run()
	<-f.store.Loaded()
	f.put("a", "2")
	f.mu.Lock()
	if f.resets > 0 || len(f.handled) > 0 {
		t.Error("it began too early")
	}
	f.mu.Unlock()
	close(ready)
	f.await("a=2")
}

// TestRetry checks that an item is handled until it succeeds, and that others do not wait for it.
func TestRetry(t *testing.T) {
	t.Parallel()
	f := newFollowed(t, nil)
	failures := 3
	f.handle = func(item string) error {
		if item == "a" && failures > 0 {
			failures--
			return errors.New("not yet")
		}
		return nil
	}
	f.follower.Add("a")
	f.run()
	f.await("a=", "a=", "a=", "a=")
	f.follower.Add("b")
	f.await("a=", "a=", "a=", "a=", "b=")
}

// TestPanic checks that an item whose handling panics is handled again, as one that fails, and that the
// process does not end.
func TestPanic(t *testing.T) {
	t.Parallel()
	f := newFollowed(t, nil)
	begun := 0
	f.handle = func(item string) error {
		if begun++; begun < 3 {
			panic("at the begin of " + item)
		}
		return nil
	}
	finished := false
	config := f.config
	config.Begin = func(ctx context.Context, item string) (func(context.Context) error, error) {
		return func(context.Context) error {
			if !finished {
				finished = true
				panic("at the end of " + item)
			}
			return nil
		}, config.Handle(ctx, item)
	}
	f.follower = follow.New(config)
	f.follower.Add("a")
	f.run()
	f.await("a=", "a=", "a=", "a=")
}

// TestSlow checks that the follower goes on while an item takes long, and handles it again
// afterwards, not meanwhile.
func TestSlow(t *testing.T) {
	t.Parallel()
	f := newFollowed(t, nil)
	release := make(chan struct{})
	config := f.config
	config.Begin = func(ctx context.Context, item string) (func(context.Context) error, error) {
		if err := config.Handle(ctx, item); err != nil || item[0] != 's' {
			return nil, err
		}
		return func(ctx context.Context) error {
			select {
			case <-release:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}, nil
	}
	f.follower = follow.New(config)
	f.run()
	f.follower.Add("slow")
	f.await("slow=")
	f.follower.Add("slow")
	f.put("a", "1") // it is taken in meanwhile
	f.follower.Add("a")
	f.await("slow=", "a=1")
	f.follower.Add("slow")
	f.follower.Add("b")
	f.await("slow=", "a=1", "b=")
	close(release)
	f.await("slow=", "a=1", "b=", "slow=")
}

// TestManySlow checks that the follower goes on while more items take long than may, and that it
// ends them when it ends.
func TestManySlow(t *testing.T) {
	t.Parallel()
	f := newFollowed(t, nil)
	handled := make(chan struct{})
	var running, most atomic.Int32
	config := f.config
	config.Begin = func(_ context.Context, item string) (func(context.Context) error, error) {
		if item == "quick" {
			close(handled)
			return nil, nil
		}
		return func(ctx context.Context) error {
			most.Store(max(running.Add(1), most.Load()))
			defer running.Add(-1)
			<-ctx.Done()
			return ctx.Err()
		}, nil
	}
	f.follower = follow.New(config)
	for i := range 90 {
		f.follower.Add(strconv.Itoa(i))
	}
	f.follower.Add("quick")
	t.Run("follower", func(t *testing.T) {
		f := &followed{T: t, follower: f.follower}
		f.run()
		select {
		case <-handled:
		case <-time.After(time.Minute):
			t.Error("the other item was not handled")
		}
	})
	if n := running.Load(); n != 0 {
		t.Errorf("%d items are left", n)
	}
	if n := most.Load(); n > 80 {
		t.Errorf("there were %d at the same time", n)
	}
}
