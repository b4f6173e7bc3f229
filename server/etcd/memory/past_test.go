package memory

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// TestAt compares the state at each revision with what was read then.
func TestAt(t *testing.T) {
	db, c := open(t, Config{})
	want := map[int64]string{1: ""}
	sizes := map[int64]int64{1: 0}
	for i := range 3 * chunkLen {
		revision := put(t, c, fmt.Sprint("key ", i%7), fmt.Sprint(i))
		if i%5 == 0 {
			resp, err := c.Delete(t.Context(), fmt.Sprint("key ", i%3))
			if err != nil {
				t.Fatal(err)
			}
			revision = resp.Header.Revision
		}
		want[revision], sizes[revision] = everything(t, c, 0), db.state.Load().size
	}
	state := db.State()
	for revision, keys := range want {
		past, err := state.At(revision)
		if err != nil {
			t.Fatal(err)
		}
		old, client := open(t, Config{State: past})
		if got := everything(t, client, 0); got != keys {
			t.Errorf("revision %d: got %q, want %q", revision, got, keys)
		}
		if size := old.state.Load().size; size != sizes[revision] {
			t.Errorf("revision %d: got %d bytes, want %d", revision, size, sizes[revision])
		}
		// It can go on from there, and the original does not notice.
		if next := put(t, client, "other", "x"); next != revision+1 {
			t.Errorf("the revision after %d is %d", revision, next)
		}
		if revision > 10 {
			if got := everything(t, client, 3); got != want[3] {
				t.Errorf("revision %d: got %q at revision 3", revision, got)
			}
		}
	}
	if got := everything(t, c, 0); got != want[state.Revision()] {
		t.Errorf("the original has %q", got)
	}
	for revision, want := range map[int64]error{0: rpctypes.ErrCompacted, -1: rpctypes.ErrCompacted, state.Revision() + 1: rpctypes.ErrFutureRev} {
		if _, err := state.At(revision); !errors.Is(err, want) {
			t.Errorf("revision %d: %v", revision, err)
		}
	}
	if _, err := c.Compact(t.Context(), 200); err != nil {
		t.Fatal(err)
	}
	if _, err := db.State().At(199); !errors.Is(err, rpctypes.ErrCompacted) || db.State().Oldest() != 200 {
		t.Error("a compacted revision:", err, db.State().Oldest())
	}
	if _, err := db.State().At(200); err != nil {
		t.Error("the compacted revision itself:", err)
	}
	newest := state.Newest()
	if _, err := newest.At(state.Revision() - 1); !errors.Is(err, rpctypes.ErrCompacted) {
		t.Error("a state without history:", err)
	}
	_, client := open(t, Config{State: newest})
	if got := everything(t, client, 0); got != want[state.Revision()] {
		t.Errorf("a state without history has %q", got)
	}
}

// TestAtLeases checks that nothing expires in the past.
func TestAtLeases(t *testing.T) {
	db, c := open(t, Config{})
	lease, err := c.Grant(t.Context(), 100)
	if err != nil {
		t.Fatal(err)
	}
	put(t, c, "a", "b", clientv3.WithLease(lease.ID))
	past, err := db.State().At(db.State().Revision())
	if err != nil {
		t.Fatal(err)
	}
	old, client := open(t, Config{State: past})
	if old.expiry.timer != nil || len(slices.Collect(past.Leases())) != 0 {
		t.Error("a past state has leases")
	}
	put(t, client, "a", "c")
	if got := everything(t, client, 0); got != "a=c" {
		t.Error(got)
	}
}

// TestNewState makes a state of the items and leases of another one.
func TestNewState(t *testing.T) {
	db, c := open(t, Config{})
	lease, err := c.Grant(t.Context(), 100)
	if err != nil {
		t.Fatal(err)
	}
	put(t, c, "a", "1")
	put(t, c, "a", "2")
	put(t, c, "b", "3", clientv3.WithLease(lease.ID))
	put(t, c, "c", "4")
	if _, err := c.Delete(t.Context(), "c"); err != nil {
		t.Fatal(err)
	}
	state := db.State()
	copied, client := open(t, Config{State: NewState(state.Revision(), state.Items(), state.Leases())})
	for _, key := range []string{"a", "b", "c"} {
		want, err := c.Get(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		got, err := client.Get(t.Context(), key)
		if err != nil || fmt.Sprint(got.Kvs) != fmt.Sprint(want.Kvs) || got.Header.Revision != want.Header.Revision {
			t.Errorf("got %v, want %v: %v", got, want, err)
		}
	}
	if got, want := copied.state.Load().size, db.state.Load().size; got != want {
		t.Errorf("got %d bytes, want %d", got, want)
	}
	left, err := client.TimeToLive(t.Context(), lease.ID, clientv3.WithAttachedKeys())
	if err != nil || left.TTL < 90 || left.GrantedTTL != 100 || len(left.Keys) != 1 {
		t.Errorf("the lease is %+v, %v", left, err)
	}
	if _, err := client.Get(t.Context(), "a", clientv3.WithRev(state.Revision()-1)); !errors.Is(err, rpctypes.ErrCompacted) {
		t.Error("an older revision:", err)
	}
	for l := range db.State().Leases() {
		if l.Remaining < 1 || time.Duration(l.Remaining)*time.Second > 100*time.Second {
			t.Errorf("the lease is %+v", l)
		}
	}
}
