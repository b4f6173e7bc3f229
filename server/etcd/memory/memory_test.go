package memory

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// open returns a DB and a client of it, which end with the test.
func open(t testing.TB, c Config) (*DB, *clientv3.Client) {
	t.Helper()
	db := Open(c)
	t.Cleanup(db.Close)
	client := db.Client()
	t.Cleanup(func() { _ = client.Close() })
	return db, client
}

// put writes a key, and returns the revision.
func put(t testing.TB, c *clientv3.Client, key, value string, opts ...clientv3.OpOption) int64 {
	t.Helper()
	resp, err := c.Put(t.Context(), key, value, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return resp.Header.Revision
}

// everything returns all keys with their values at a revision.
func everything(t testing.TB, c *clientv3.Client, revision int64) string {
	t.Helper()
	resp, err := c.Get(t.Context(), "\x00", clientv3.WithFromKey(), clientv3.WithRev(revision))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, kv := range resp.Kvs {
		out = append(out, string(kv.Key)+"="+string(kv.Value))
	}
	return strings.Join(out, " ")
}

func TestState(t *testing.T) {
	db, c := open(t, Config{})
	for i := range 3 * chunkLen / 2 {
		put(t, c, "a", fmt.Sprint(i))
	}
	state := db.State()
	_, fork := open(t, Config{State: state})
	_, other := open(t, Config{State: db.State()})
	_, second := open(t, Config{State: state})
	for i := range chunkLen {
		put(t, c, "a", fmt.Sprint("original ", i))
		put(t, fork, "a", fmt.Sprint("fork ", i))
		put(t, second, "a", fmt.Sprint("second ", i))
	}
	last := state.Revision() + chunkLen
	for i, want := range map[*clientv3.Client]string{
		c: fmt.Sprint("a=original ", chunkLen-1), fork: fmt.Sprint("a=fork ", chunkLen-1), second: fmt.Sprint("a=second ", chunkLen-1), other: fmt.Sprint("a=", 3*chunkLen/2-1),
	} {
		if got := everything(t, i, 0); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		// What was before is the same.
		if got := everything(t, i, 101); got != "a=99" {
			t.Errorf("got %q at revision 101", got)
		}
	}
	for client, prefix := range map[*clientv3.Client]string{c: "original ", fork: "fork ", second: "second "} {
		if got := everything(t, client, last-1); got != fmt.Sprint("a=", prefix, chunkLen-2) {
			t.Errorf("got %q at revision %d", got, last-1)
		}
		// A watch sees the history of before and after.
		n := 0
		watch := client.Watch(t.Context(), "a", clientv3.WithRev(1))
		for n < 5*chunkLen/2 {
			resp := <-watch
			for _, e := range resp.Events {
				want := fmt.Sprint(n)
				if n >= 3*chunkLen/2 {
					want = fmt.Sprint(prefix, n-3*chunkLen/2)
				}
				if string(e.Kv.Value) != want {
					t.Fatalf("event %d has %q, want %q", n, e.Kv.Value, want)
				}
				n++
			}
		}
	}
	// A compaction of one is none of the others.
	if _, err := fork.Compact(t.Context(), last); err != nil {
		t.Fatal(err)
	}
	if got := everything(t, c, 101); got != "a=99" {
		t.Errorf("got %q at revision 101", got)
	}
	if _, err := fork.Get(t.Context(), "a", clientv3.WithRev(101)); !errors.Is(err, rpctypes.ErrCompacted) {
		t.Error(err)
	}
}

// TestFirstRevision checks that clients of an earlier server notice that its revisions are gone.
func TestFirstRevision(t *testing.T) {
	const first = 1_000_000
	_, c := open(t, Config{Revision: first})
	put(t, c, "a", "1")
	if got := everything(t, c, 0); got != "a=1" {
		t.Errorf("got %q", got)
	}
	for _, revision := range []int64{1, first - 1} {
		if _, err := c.Get(t.Context(), "a", clientv3.WithRev(revision)); !errors.Is(err, rpctypes.ErrCompacted) {
			t.Errorf("read at revision %d: error %v, expected %v", revision, err, rpctypes.ErrCompacted)
		}
		if resp := <-c.Watch(t.Context(), "a", clientv3.WithRev(revision)); resp.CompactRevision != first {
			t.Errorf("watch at revision %d: %+v, expected the end, and the revision %d", revision, resp, first)
		}
	}
	if resp := <-c.Watch(t.Context(), "a", clientv3.WithRev(first)); len(resp.Events) != 1 || resp.Events[0].Kv.ModRevision != first+1 {
		t.Errorf("watch at the first revision: %+v", resp)
	}
}

// TestStateIsShared checks that a copy costs the same, whatever is stored.
func TestStateIsShared(t *testing.T) {
	db, c := open(t, Config{})
	cost := func() float64 {
		return testing.AllocsPerRun(10, func() { Open(Config{State: db.State()}).Close() })
	}
	before := cost()
	for i := range 2000 {
		put(t, c, fmt.Sprint(i), "")
	}
	if _, err := c.Compact(t.Context(), 2001); err != nil {
		t.Fatal(err)
	}
	if after := cost(); after > before+2 {
		t.Errorf("%v allocations, and %v with 2000 keys", before, after)
	}
}

// TestOldStates checks that a state that was replaced does not stay in memory.
func TestOldStates(t *testing.T) {
	t.Parallel()
	db, c := open(t, Config{})
	for what, write := range map[string]func(){
		"a write": func() { put(t, c, "a", "") },
		"a lease": func() {
			if _, err := c.Grant(t.Context(), 3600); err != nil {
				t.Error(err)
			}
		},
	} {
		write()
		old := weak.Make(db.state.Load())
		write()
		write()
		runtime.GC()
		if old.Value() != nil {
			t.Errorf("the state before %s is still in memory", what)
		}
	}
}

// TestBubbleLease checks how long leases last of a state that is taken in a bubble, from a DB outside of
// it: the time since the last change is not known there.
func TestBubbleLease(t *testing.T) {
	outside, c := open(t, Config{})
	lease, err := c.Grant(t.Context(), 3600)
	if err != nil {
		t.Fatal(err)
	}
	outside.mu.Lock()
	outside.epoch = outside.epoch.Add(-45 * time.Minute) // which have passed
	outside.mu.Unlock()
	put(t, c, "hour", "", clientv3.WithLease(lease.ID))
	synctest.Test(t, func(t *testing.T) {
		first := Open(Config{State: outside.State()})
		defer first.Close()
		time.Sleep(5 * time.Minute)
		// The last change is in the future of the bubble.
		db := Open(Config{State: first.State()})
		defer db.Close()
		c := db.Client()
		defer func() { _ = c.Close() }()
		resp, err := c.TimeToLive(t.Context(), lease.ID)
		if err != nil || resp.TTL < 9*60 || resp.TTL > 10*60 {
			t.Errorf("the lease has %v left, not ten minutes: %v", resp, err)
		}
	})
}

// TestBubble checks that time in a bubble passes for leases, keep-alives and reports of progress, and
// that nothing is left at its end. The state is from outside.
func TestBubble(t *testing.T) {
	outside, c := open(t, Config{})
	lease, err := c.Grant(t.Context(), 3600)
	if err != nil {
		t.Fatal(err)
	}
	put(t, c, "hour", "", clientv3.WithLease(lease.ID))
	put(t, c, "forever", "")
	state := outside.State()
	synctest.Test(t, func(t *testing.T) {
		db := Open(Config{State: state})
		defer db.Close()
		c := db.Client()
		defer func() { _ = c.Close() }()
		begin := time.Now()
		watch := c.Watch(t.Context(), "hour", clientv3.WithProgressNotify())
		progress := func() {
			if resp := <-watch; !resp.IsProgressNotify() || resp.Header.Revision != 3 {
				t.Errorf("after %v: %v", time.Since(begin), resp)
			}
		}
		for range 5 {
			progress()
		}
		time.Sleep(9 * time.Minute)
		if got := everything(t, c, 0); got != "forever= hour=" {
			t.Errorf("after 59 minutes: %s", got)
		}
		if _, err := c.KeepAliveOnce(t.Context(), lease.ID); err != nil {
			t.Error(err)
		}
		for range 6 {
			progress()
		}
		if got := time.Since(begin); got != 110*time.Minute {
			t.Errorf("11 reports of progress after %v", got)
		}
		time.Sleep(8 * time.Minute)
		if got := everything(t, c, 0); got != "forever= hour=" {
			t.Errorf("after 118 minutes: %s", got)
		}
		if resp := <-watch; len(resp.Events) != 1 || resp.Events[0].Type != clientv3.EventTypeDelete {
			t.Error(resp)
		}
		if got := time.Since(begin); got != 119*time.Minute {
			t.Errorf("the lease has expired after %v", got)
		}
		if got := everything(t, c, 0); got != "forever=" {
			t.Errorf("after 119 minutes: %s", got)
		}
		other, err := c.Grant(t.Context(), 5)
		if err != nil {
			t.Fatal(err)
		}
		put(t, c, "kept", "", clientv3.WithLease(other.ID))
		ctx, cancel := context.WithCancel(t.Context())
		if _, err := c.KeepAlive(ctx, other.ID); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if got := everything(t, c, 0); got != "forever= kept=" {
			t.Errorf("after a minute: %s", got)
		}
		cancel()
		time.Sleep(time.Minute)
		if got := everything(t, c, 0); got != "forever=" {
			t.Errorf("after two minutes: %s", got)
		}
	})
	if got := everything(t, c, 0); got != "forever= hour=" {
		t.Errorf("outside: %s", got)
	}
}

// TestExpiry checks that leases expire in their order, each at its own revision, and that the one
// which is granted last may be the first.
func TestExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := Open(Config{})
		defer db.Close()
		c := db.Client()
		defer func() { _ = c.Close() }()
		for _, ttl := range []int64{20, 30, 10, 10} {
			lease, err := c.Grant(t.Context(), ttl)
			if err != nil {
				t.Fatal(err)
			}
			put(t, c, fmt.Sprint(ttl, "-", lease.ID), "", clientv3.WithLease(lease.ID))
		}
		begin := time.Now()
		var got []string
		for resp := range c.Watch(t.Context(), "\x00", clientv3.WithFromKey()) {
			for _, e := range resp.Events {
				got = append(got, fmt.Sprintf("%s %s at %d after %v", e.Type, e.Kv.Key, e.Kv.ModRevision, time.Since(begin)))
			}
			if len(got) == 4 {
				break
			}
		}
		want := []string{"DELETE 10-3 at 6 after 10s", "DELETE 10-4 at 7 after 10s", "DELETE 20-1 at 8 after 20s", "DELETE 30-2 at 9 after 30s"}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// TestCompactionFrees checks that nothing holds old values after a compaction.
func TestCompactionFrees(t *testing.T) {
	db, c := open(t, Config{})
	var freed atomic.Int64
	const n = 3*chunkLen + 7
	for i := range n {
		key := fmt.Sprint(i % 5)
		put(t, c, key, fmt.Sprintf("value %d", i))
		i, _ := db.state.Load().keys().Get(key)
		runtime.AddCleanup(i, func(*atomic.Int64) { freed.Add(1) }, &freed)
	}
	if _, err := c.Compact(t.Context(), n+1); err != nil {
		t.Fatal(err)
	}
	for until := time.Now().Add(10 * time.Second); freed.Load() < n-5; time.Sleep(time.Millisecond) {
		if runtime.GC(); time.Now().After(until) {
			t.Fatalf("%d of %d are free", freed.Load(), n-5)
		}
	}
	if got := everything(t, c, 0); got != "0=value 390 1=value 386 2=value 387 3=value 388 4=value 389" {
		t.Error(got)
	}
	if size := db.state.Load().size; size != 5*int64(len("0value 390")) {
		t.Error(size)
	}
}

// TestMaxHistory checks that a DB compacts when its history has too many bytes.
func TestMaxHistory(t *testing.T) {
	const limit = 100_000
	db, c := open(t, Config{MaxHistory: limit})
	watch := c.Watch(t.Context(), "a")
	written := func() int64 {
		h := db.state.Load().history
		return h.at(h.last()).written - h.at(h.first).written
	}
	value := strings.Repeat("x", 1000)
	var compactions int
	for range 500 {
		before := db.State().Begin()
		put(t, c, "a", value)
		<-watch // it misses no event
		if written() > limit {
			t.Fatalf("the history has %d bytes", written())
		}
		if begin := db.State().Begin(); begin != before {
			compactions++
			if n := written(); n > limit/2 || n < limit/2-2000 {
				t.Errorf("a compaction leaves %d bytes", n)
			}
			if _, err := c.Get(t.Context(), "a", clientv3.WithRev(begin-1)); !errors.Is(err, rpctypes.ErrCompacted) {
				t.Errorf("a compacted revision: %v", err)
			}
		}
	}
	if compactions < 5 {
		t.Errorf("%d compactions", compactions)
	}
	if resp := <-c.Watch(t.Context(), "a", clientv3.WithRev(2)); !errors.Is(resp.Err(), rpctypes.ErrCompacted) {
		t.Errorf("a watch of a compacted revision: %v", resp)
	}
	// A copy counts what it begins with. A write that is larger than the limit leaves only itself.
	copied, d := open(t, Config{State: db.State(), MaxHistory: 2 * limit})
	if put(t, d, "b", value); copied.State().Begin() != db.State().Begin() {
		t.Errorf("a copy has compacted up to %d", copied.State().Begin())
	}
	if last := put(t, d, "b", strings.Repeat("x", 3*limit)); copied.State().Begin() != last {
		t.Errorf("after a large write, the changes begin at %d, and not at %d", copied.State().Begin(), last)
	}
}

// TestCompactionLeavesEvents checks that a watch receives events that were compacted before it could,
// as long as they are not too many.
func TestCompactionLeavesEvents(t *testing.T) {
	for _, n := range []int{maxBehind, maxBehind + 1} {
		synctest.Test(t, func(t *testing.T) {
			db := Open(Config{})
			defer db.Close()
			c := db.Client()
			defer func() { _ = c.Close() }()
			watch := c.Watch(t.Context(), "a", clientv3.WithPrevKV())
			put(t, c, "a", "")
			synctest.Wait() // until it waits for its client
			var last int64
			for i := range n {
				last = put(t, c, "a", fmt.Sprint(i))
				if i%300 == 0 || i == n-1 {
					if _, err := c.Compact(t.Context(), last); err != nil {
						t.Fatal(err)
					}
				}
			}
			if resp := <-watch; len(resp.Events) != 1 || resp.Canceled {
				t.Error(resp)
			}
			resp := <-watch
			if n > maxBehind {
				if !resp.Canceled || resp.CompactRevision != last || !errors.Is(resp.Err(), rpctypes.ErrCompacted) {
					t.Errorf("a watch that is far behind gets %v", resp)
				}
				if _, ok := <-watch; ok {
					t.Error("a watch that is far behind goes on")
				}
				return
			}
			switch {
			case len(resp.Events) != n || string(resp.Events[n-1].Kv.Value) != fmt.Sprint(n-1):
				t.Errorf("got %d events of %d", len(resp.Events), n)
			case resp.Events[1].PrevKv != nil:
				t.Errorf("a compacted value is %v", resp.Events[1].PrevKv)
			}
			last = put(t, c, "a", "last")
			if resp := <-watch; len(resp.Events) != 1 || resp.Events[0].Kv.ModRevision != last || resp.Events[0].PrevKv == nil {
				t.Error(resp)
			}
		})
	}
}

// TestWatchesEnd checks that watches end with their context and with their client.
func TestWatchesEnd(t *testing.T) {
	db, c := open(t, Config{})
	ctx, cancel := context.WithCancel(t.Context())
	first, second := c.Watch(ctx, "a"), c.Watch(t.Context(), "a")
	for i := range 100 {
		put(t, c, "a", fmt.Sprint(i))
	}
	cancel()
	for range first {
	}
	if resp, ok := <-second; !ok || len(resp.Events) == 0 {
		t.Error(resp, ok)
	}
	_ = c.Close()
	for range second {
	}
	if _, ok := <-c.Watch(t.Context(), "a"); ok {
		t.Error("a closed client has a watch")
	}
	if n := len(db.watches); n != 0 {
		t.Errorf("%d watches are left", n)
	}
}

func TestClose(t *testing.T) {
	db := Open(Config{})
	c := db.Client()
	lease, err := c.Grant(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	watch := c.Watch(t.Context(), "a")
	alive, err := (&leaseService{db}).LeaseKeepAlive(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	state := db.State()
	db.Close()
	db.Close()
	for what, do := range map[string]func() error{
		"get":       func() error { _, err := c.Get(t.Context(), "a"); return err },
		"put":       func() error { _, err := c.Put(t.Context(), "a", ""); return err },
		"compact":   func() error { _, err := c.Compact(t.Context(), 1); return err },
		"revoke":    func() error { _, err := c.Revoke(t.Context(), lease.ID); return err },
		"status":    func() error { _, err := c.Status(t.Context(), ""); return err },
		"watch":     func() error { resp := <-watch; return resp.Err() },
		"keepalive": func() error { _, err := alive.Recv(); return err },
	} {
		if err := do(); !errors.Is(rpctypes.Error(err), rpctypes.ErrStopped) {
			t.Errorf("%s: %v", what, err)
		}
	}
	_ = c.Close()
	_, c = open(t, Config{State: state})
	if _, err := c.Revoke(t.Context(), lease.ID); err != nil {
		t.Error(err)
	}
}

// TestConcurrency checks that a counter loses no increment, and that a watch and readers see each
// value once and in order. The race detector checks the rest.
func TestConcurrency(t *testing.T) {
	t.Parallel()
	_, c := open(t, Config{})
	put(t, c, "counter", "0")
	const writers, increments = 4, 100
	watch := c.Watch(t.Context(), "counter")
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for range increments {
				for done := false; !done; {
					got, err := c.Get(t.Context(), "counter")
					if err != nil {
						t.Error(err)
						return
					}
					n, _ := strconv.Atoi(string(got.Kvs[0].Value))
					resp, err := c.Txn(t.Context()).If(clientv3.Compare(clientv3.ModRevision("counter"), "=", got.Kvs[0].ModRevision)).
						Then(clientv3.OpPut("counter", strconv.Itoa(n+1))).Commit()
					if err != nil {
						t.Error(err)
						return
					}
					done = resp.Succeeded
				}
			}
		})
	}
	wg.Go(func() {
		for range 20 {
			got, err := c.Get(t.Context(), "counter")
			if err == nil {
				_, err = c.Compact(t.Context(), got.Header.Revision-1)
			}
			if err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
				t.Error(err)
			}
			time.Sleep(time.Millisecond)
		}
	})
	next := 1
	for next <= writers*increments {
		resp := <-watch
		if err := resp.Err(); err != nil {
			t.Fatal(err)
		}
		for _, e := range resp.Events {
			if string(e.Kv.Value) != strconv.Itoa(next) {
				t.Fatalf("got %s, want %d", e.Kv.Value, next)
			}
			next++
		}
	}
	wg.Wait()
}
