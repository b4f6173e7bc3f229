package store

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"
)

// TestReplaced replaces the data of etcd by other data with the same revisions of keys.
func TestReplaced(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	stop := runEtcd(t, dir)
	t.Cleanup(func() { stop() })
	s := open(t, Config{Client: connect(t, dir)})
	write := connect(t, dir)
	put(t, write, prefix+"a", "old")
	at := put(t, write, prefix+"b", "old")
	settle(t, s)
	old := s.Snapshot()
	s.Keep(old)
	put(t, write, prefix+"b", "newer")
	settle(t, s)
	if s.SnapshotAt(at) == nil {
		t.Fatal("the snapshot was not kept")
	}
	w, err := s.Watch(prefix, s.Revision())
	if err != nil {
		t.Fatal(err)
	}

	stop()
	if err := os.RemoveAll(filepath.Join(dir, "data")); err != nil {
		t.Fatal(err)
	}
	stop = runEtcd(t, dir)
	put(t, write, prefix+"a", "new")
	if _, err := s.Sync(t.Context()); !errors.Is(err, ErrReplaced) {
		t.Fatal(err)
	}
	if _, _, err := wait(t.Context(), w); !isExpired(err) {
		t.Fatal(err)
	}
	if e := s.Get(prefix + "a"); e == nil || string(e.Value) != "new" {
		t.Errorf("%+v", e)
	}
	if s.SnapshotAt(at) != nil {
		t.Error("a snapshot of the old data was kept")
	}
	s.Keep(old)
	if s.SnapshotAt(at) != nil {
		t.Error("a snapshot of the old data is kept")
	}
	s.Keep(s.Snapshot())
	at = s.Revision()
	put(t, write, prefix+"a", "newer")
	settle(t, s)
	if s.SnapshotAt(at) == nil {
		t.Error("a snapshot of the new data is not kept")
	}
}

// TestOlderLoad loads older data without a question for the revision before.
func TestOlderLoad(t *testing.T) {
	t.Parallel()
	client := newEtcd(t)
	put(t, client, prefix+"a", "new")
	s := open(t, Config{Client: client})
	e := s.Get(prefix + "a")
	s.mu.Lock()
	s.tree.set(&Entry{Key: e.Key, Value: []byte("old"), Revision: e.Revision})
	s.advance(s.Revision() + 100)
	s.mu.Unlock()
	w, err := s.Watch(prefix, s.Revision())
	if err != nil {
		t.Fatal(err)
	}
	s.Reload()
	if _, _, err := wait(t.Context(), w); !isExpired(err) {
		t.Fatal(err)
	}
	if e := s.Get(prefix + "a"); string(e.Value) != "new" {
		t.Errorf("%s", e.Value)
	}
}

// unreliable is a transformer that fails while failing is set, and always for the key "lost".
type unreliable struct {
	failing atomic.Bool
	calls   atomic.Int64
}

func (u *unreliable) FromStorage(_ context.Context, key string, data []byte) ([]byte, bool, error) {
	u.calls.Add(1)
	if u.failing.Load() || key == prefix+"lost" {
		return nil, false, errors.New("failed")
	}
	return data, false, nil
}

func (*unreliable) ToStorage(_ context.Context, _ string, value []byte) ([]byte, error) {
	return value, nil
}

// TestRetry retries only the entries that could not be transformed, and ends the watchers only
// if one of them can be.
func TestRetry(t *testing.T) {
	t.Parallel()
	client := newEtcd(t)
	u := &unreliable{}
	s := open(t, Config{Client: client, Transformer: u})
	for _, key := range []string{"a", "b", "lost"} {
		put(t, client, prefix+key, "1")
	}
	settle(t, s)
	calls := u.calls.Load()
	s.Retry(t.Context())
	if n := u.calls.Load() - calls; n != 1 {
		t.Errorf("%d entries were transformed", n)
	}
	if len(s.reload) != 0 {
		t.Error("everything is read again for an entry that cannot be transformed")
	}
	u.failing.Store(true)
	put(t, client, prefix+"c", "1")
	settle(t, s)
	if s.Get(prefix+"c").Err == nil {
		t.Fatal("the transformer did not fail")
	}
	w, err := s.Watch(prefix, s.Revision())
	if err != nil {
		t.Fatal(err)
	}
	u.failing.Store(false)
	s.Retry(t.Context())
	if _, _, err := wait(t.Context(), w); !isExpired(err) {
		t.Fatal(err)
	}
	if e := s.Get(prefix + "c"); e.Err != nil {
		t.Error(e.Err)
	}
}

// TestKeptExpire removes kept snapshots although no other is kept or asked for.
func TestKeptExpire(t *testing.T) {
	t.Parallel()
	k := &kept{}
	k.keep(&Snapshot{Revision: 1}, time.Millisecond)
	k.keep(&Snapshot{Revision: 2}, 2*time.Millisecond)
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		k.mu.Lock()
		n, timer := len(k.snaps), k.timer
		k.mu.Unlock()
		if n == 0 && timer == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%d snapshots are kept", n)
		}
	}
	k.keep(&Snapshot{Revision: 3}, time.Hour)
	k.close()
	if k.timer.Stop() {
		t.Error("the timer was not stopped")
	}
	k.keep(&Snapshot{Revision: 4}, time.Hour)
	if len(k.snaps) != 0 {
		t.Error("a closed store keeps snapshots")
	}
}
