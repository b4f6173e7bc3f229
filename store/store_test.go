package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
)

const prefix = "/registry/"

// newEtcd starts an etcd with one member.
func newEtcd(t testing.TB) *clientv3.Client {
	t.Helper()
	dir := t.TempDir()
	stop := runEtcd(t, dir)
	t.Cleanup(func() { stop() })
	return connect(t, dir)
}

func connect(t testing.TB, dir string) *clientv3.Client {
	t.Helper()
	again := backoff.Config{BaseDelay: 10 * time.Millisecond, Multiplier: 1, MaxDelay: 10 * time.Millisecond}
	client, err := clientv3.New(clientv3.Config{
		Endpoints:   []string{"unix://" + filepath.Join(dir, "c")},
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{Backoff: again})},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// runEtcd runs an etcd on the data in a directory until stop is called.
func runEtcd(t testing.TB, dir string) (stop func()) {
	t.Helper()
	c := embed.NewConfig()
	c.Dir = filepath.Join(dir, "data")
	c.LogLevel, c.LogOutputs = "fatal", []string{filepath.Join(dir, "log")}
	c.UnsafeNoFsync = true
	clients, peers := url.URL{Scheme: "unix", Path: filepath.Join(dir, "c")}, url.URL{Scheme: "unix", Path: filepath.Join(dir, "p")}
	c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{clients}, []url.URL{clients}
	c.ListenPeerUrls, c.AdvertisePeerUrls = []url.URL{peers}, []url.URL{peers}
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	e, err := embed.StartEtcd(c)
	if err != nil {
		t.Fatal(err)
	}
	<-e.Server.ReadyNotify()
	return e.Close
}

func open(t testing.TB, c Config) *Store {
	t.Helper()
	c.Prefix = prefix
	s, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	settle(t, s)
	return s
}

// settle waits until the store is as new as etcd.
func settle(t testing.TB, s *Store) int64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	revision, err := s.Sync(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return revision
}

func put(t testing.TB, c *clientv3.Client, key, value string) int64 {
	t.Helper()
	resp, err := c.Put(t.Context(), key, value)
	if err != nil {
		t.Fatal(err)
	}
	return resp.Header.Revision
}

func TestReads(t *testing.T) {
	t.Parallel()
	client := newEtcd(t)
	for i := range 700 {
		put(t, client, fmt.Sprintf("%sa/%04d", prefix, i), strings.Repeat("x", i))
	}
	put(t, client, "/registryx", "not below the prefix")
	s := open(t, Config{Client: client})
	if n := s.Snapshot().Count(prefix, ""); n != 700 {
		t.Fatal(n)
	}
	snap := s.Snapshot()
	put(t, client, prefix+"a/0001", "new")
	if _, err := client.Delete(t.Context(), prefix+"a/0002"); err != nil {
		t.Fatal(err)
	}
	revision := put(t, client, "elsewhere", "") // there is no event for it
	if got := settle(t, s); got < revision || s.Revision() < revision {
		t.Errorf("synced to %d and %d, want %d", got, s.Revision(), revision)
	}
	if e := s.Get(prefix + "a/0001"); string(e.Value) != "new" {
		t.Errorf("%s", e.Value)
	}
	if e := s.Get(prefix + "a/0002"); e != nil {
		t.Error("not deleted")
	}
	if e := snap.Get(prefix + "a/0001"); string(e.Value) != "x" {
		t.Errorf("the snapshot has changed: %s", e.Value)
	}
	if snap.Count(prefix, "") != 700 || s.Snapshot().Count(prefix+"a/", prefix+"a/0698") != 2 {
		t.Error("wrong counts")
	}
	s.Keep(snap)
	if s.SnapshotAt(snap.Revision) != snap || s.SnapshotAt(1) != nil {
		t.Error("the snapshot was not kept")
	}
	entries, at, left, err := s.ListAt(t.Context(), prefix, prefix+"a/0001", snap.Revision, 2)
	if err != nil || at != snap.Revision || left != 697 || len(entries) != 2 || string(entries[0].Value) != "x" {
		t.Error(entries, at, left, err)
	}
	if _, _, _, err := s.ListAt(t.Context(), prefix, "", revision+100, 0); !isBehind(err) {
		t.Error(err)
	}
	if _, err := client.Compact(t.Context(), revision); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := s.ListAt(t.Context(), prefix, "", snap.Revision, 0); !isExpired(err) {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := s.Await(ctx, revision+100); !isBehind(err) {
		t.Error(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiters) > 0 {
		t.Error("a waiter is left")
	}
}

func isBehind(err error) bool {
	var e *BehindError
	return errors.As(err, &e)
}

func isExpired(err error) bool {
	var e *ExpiredError
	return errors.As(err, &e)
}

func TestWrites(t *testing.T) {
	t.Parallel()
	s := open(t, Config{Client: newEtcd(t)})
	key := prefix + "a"
	write := func(value string, expected int64, wantStored string) int64 {
		t.Helper()
		revision, stored, err := s.Put(t.Context(), nil, key, []byte(value), expected, 0)
		if err != nil {
			t.Fatal(err)
		}
		if (revision == 0) != (wantStored != "") {
			t.Errorf("revision %d", revision)
		}
		if got := ""; stored != nil {
			if got = string(stored.Value); got != wantStored {
				t.Errorf("stored %s, want %s", got, wantStored)
			}
		}
		return revision
	}
	first := write("1", 0, "")
	write("2", 0, "1")
	second := write("2", first, "")
	write("3", first, "2")
	if err := s.Await(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	if e := s.Get(key); string(e.Value) != "2" || e.Revision != second || s.Revision() < second {
		t.Error(e, s.Revision())
	}
	if _, stored, err := s.Delete(t.Context(), nil, key, first); err != nil || stored == nil {
		t.Error(stored, err)
	}
	deleted, stored, err := s.Delete(t.Context(), nil, key, second)
	if err != nil || stored != nil || deleted <= second {
		t.Error(deleted, stored, err)
	}
	if _, stored, err := s.Delete(t.Context(), nil, key, second); err != nil || stored != nil {
		t.Error(stored, err)
	}
	if e, _, err := s.Read(t.Context(), key); e != nil || err != nil {
		t.Error(e, err)
	}
}

// next returns the next events of a watcher as text.
func next(t testing.TB, w *Watcher) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	events, revision, err := wait(ctx, w)
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, e := range events {
		if e.Revision > revision {
			t.Errorf("the event of revision %d is later than %d", e.Revision, revision)
		}
		texts = append(texts, show(e))
	}
	return texts
}

func show(e *Event) string {
	value := func(e *Entry) string {
		if e == nil {
			return "-"
		}
		return string(e.Value)
	}
	return fmt.Sprintf("%s:%s>%s", strings.TrimPrefix(e.Key(), prefix), value(e.Old), value(e.Entry))
}

func TestWatch(t *testing.T) {
	t.Parallel()
	client := newEtcd(t)
	s := open(t, Config{Client: client, MaxEvents: 6, MaxQueue: 3})
	watch := func(key string, after int64) *Watcher {
		t.Helper()
		w, err := s.Watch(prefix+key, after)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(w.Stop)
		return w
	}
	start := s.Revision()
	all, some, one := watch("", start), watch("a/", start), watch("a/1", start)
	put(t, client, prefix+"a/1", "x")
	put(t, client, prefix+"a/10", "y")
	last := put(t, client, prefix+"ab/1", "z")
	settle(t, s)
	if got, want := next(t, all), []string{"a/1:->x", "a/10:->y", "ab/1:->z"}; !slices.Equal(got, want) {
		t.Error(got)
	}
	if got, want := next(t, some), []string{"a/1:->x", "a/10:->y"}; !slices.Equal(got, want) {
		t.Error(got)
	}
	if got, want := next(t, one), []string{"a/1:->x"}; !slices.Equal(got, want) {
		t.Error(got)
	}
	// A later watcher receives the events after its revision, and none before a revision that
	// has not been reached.
	late, future := watch("a/", start+1), watch("", last+1)
	if got, want := next(t, late), []string{"a/10:->y"}; !slices.Equal(got, want) {
		t.Error(got)
	}
	if events, revision, err := late.Poll(); len(events) > 0 || revision != s.Revision() || err != nil {
		t.Error(events, revision, err)
	}
	put(t, client, prefix+"a/1", "1")
	// One transaction has several events.
	if _, err := client.Txn(t.Context()).Then(clientv3.OpPut(prefix+"a/1", "2"), clientv3.OpDelete(prefix+"ab/1")).Commit(); err != nil {
		t.Fatal(err)
	}
	settle(t, s)
	if got, want := next(t, future), []string{"a/1:1>2", "ab/1:z>-"}; !slices.Equal(got, want) {
		t.Error(got)
	}
	if got, want := next(t, one), []string{"a/1:x>1", "a/1:1>2"}; !slices.Equal(got, want) {
		t.Error(got)
	}

	// all and some are not read any more. all ends first, because it gets more events.
	put(t, client, prefix+"b", "1")
	put(t, client, prefix+"b", "2")
	settle(t, s)
	if _, _, err := wait(t.Context(), all); !errors.Is(err, ErrSlow) {
		t.Error(err)
	}
	if got, want := next(t, some), []string{"a/1:x>1", "a/1:1>2"}; !slices.Equal(got, want) {
		t.Error(got)
	}
	if _, err := s.Watch(prefix, start); !isExpired(err) {
		t.Error(err)
	}
	s.mu.RLock()
	if len(s.window.after(0)) > 6 {
		t.Error("the window is too large")
	}
	s.mu.RUnlock()

	// A watcher of a closed store ends.
	s.Close()
	if _, _, err := wait(t.Context(), some); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if _, err := s.Watch(prefix, 0); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if _, err := s.Current(t.Context()); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if err := s.Await(t.Context(), 1<<40); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

func TestWindowBytes(t *testing.T) {
	t.Parallel()
	client := newEtcd(t)
	const limit = 100_000
	s := open(t, Config{Client: client, MaxBytes: limit})
	value := strings.Repeat("x", 10_000)
	for range 50 {
		put(t, client, prefix+"a", value)
	}
	settle(t, s)
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.window.bytes > limit || len(s.window.after(0)) < 5 {
		t.Error(s.window.bytes, len(s.window.after(0)))
	}
}

// TestReload continues after etcd has compacted events that the store has not seen.
func TestReload(t *testing.T) {
	t.Parallel()
	client := newEtcd(t)
	s := open(t, Config{Client: client})
	put(t, client, prefix+"a", "1")
	put(t, client, prefix+"b", "1")
	settle(t, s)
	kept := s.Get(prefix + "b")
	w, err := s.Watch(prefix, s.Revision())
	if err != nil {
		t.Fatal(err)
	}
	s.Reload()
	if _, _, err := wait(t.Context(), w); !isExpired(err) {
		t.Error(err)
	}
	put(t, client, prefix+"a", "2")
	settle(t, s)
	if e := s.Get(prefix + "a"); string(e.Value) != "2" {
		t.Errorf("%s", e.Value)
	}
	if s.Get(prefix+"b") != kept {
		t.Error("an unchanged entry was replaced")
	}
}

// TestRestart restarts etcd while a watcher waits, with and without compacting what the store
// has not seen, and replaces its data by older data.
func TestRestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	stop := runEtcd(t, dir)
	t.Cleanup(func() { stop() })
	s := open(t, Config{Client: connect(t, dir)})
	write := connect(t, dir)
	put(t, write, prefix+"a", "1")
	settle(t, s)
	w, err := s.Watch(prefix, s.Revision())
	if err != nil {
		t.Fatal(err)
	}
	stop()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	if _, err := s.Sync(ctx); err == nil {
		t.Error("synced with an etcd that is down")
	}
	cancel()
	if e := s.Get(prefix + "a"); e == nil || string(e.Value) != "1" {
		t.Error("the index is lost:", e)
	}
	stop = runEtcd(t, dir)
	put(t, write, prefix+"a", "2")
	if got, want := next(t, w), []string{"a:1>2"}; !slices.Equal(got, want) {
		t.Error(got)
	}
	settle(t, s)

	// Older data has a lower revision.
	stop()
	if err := os.RemoveAll(filepath.Join(dir, "data")); err != nil {
		t.Fatal(err)
	}
	stop = runEtcd(t, dir)
	put(t, write, prefix+"b", "3")
	if _, err := s.Sync(t.Context()); !errors.Is(err, ErrReplaced) {
		t.Error(err)
	}
	if _, _, err := wait(t.Context(), w); !isExpired(err) {
		t.Error(err)
	}
	settle(t, s)
	if a, b := s.Get(prefix+"a"), s.Get(prefix+"b"); a != nil || b == nil {
		t.Error(a, b)
	}
}

// broken is a transformer that cannot read some values.
type broken struct{}

func (broken) FromStorage(_ context.Context, _ string, data []byte) ([]byte, bool, error) {
	value, ok := strings.CutPrefix(string(data), "enc:")
	if !ok {
		return nil, false, errors.New("not encrypted")
	}
	return []byte(strings.ToUpper(value)), value == "old", nil
}

func (broken) ToStorage(_ context.Context, _ string, value []byte) ([]byte, error) {
	return []byte("enc:" + strings.ToLower(string(value))), nil
}

func TestTransformer(t *testing.T) {
	t.Parallel()
	client := newEtcd(t)
	s := open(t, Config{Client: client, Transformer: broken{}})
	revision, _, err := s.Put(t.Context(), nil, prefix+"a", []byte("NEW"), 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	put(t, client, prefix+"b", "enc:old")
	put(t, client, prefix+"c", "plain")
	settle(t, s)
	if e := s.Get(prefix + "a"); string(e.Value) != "NEW" || e.Stale || e.Revision != revision {
		t.Errorf("%+v", e)
	}
	if e := s.Get(prefix + "b"); string(e.Value) != "OLD" || !e.Stale {
		t.Errorf("%+v", e)
	}
	if e := s.Get(prefix + "c"); e.Err == nil || string(e.Value) != "plain" {
		t.Errorf("%+v", e)
	}
	s.SetTransformer(nil)
	if err := s.Renew(t.Context()); err != nil {
		t.Error(err)
	}
	if e := s.Get(prefix + "c"); e.Err != nil {
		t.Errorf("%+v", e)
	}
	if e := s.Get(prefix + "b"); string(e.Value) != "enc:old" {
		t.Errorf("not transformed anew: %+v", e)
	}
}

// TestModel writes at random, while watchers start at random revisions, end and resume. Each
// must receive every event once and in order, and what they built from them must be what etcd
// has.
func TestModel(t *testing.T) {
	t.Parallel()
	client := newEtcd(t)
	s := open(t, Config{Client: client})
	seed := rand.Uint64()
	t.Log("seed", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	const writes = 600
	keys := []string{"a/1", "a/2", "a/3", "b/1", "b/2", "b"}
	begin := s.Revision()

	type seen struct {
		revision int64
		text     string
	}
	follow := func(key string, random *rand.Rand, stop <-chan struct{}) (got []seen) {
		at := begin
		for done := false; !done; {
			w, err := s.Watch(prefix+key, at)
			if err != nil {
				t.Error(err)
				return got
			}
			for range 1 + random.IntN(5) {
				ctx, cancel := context.WithCancel(t.Context())
				go func() {
					select {
					case <-stop:
						cancel()
					case <-ctx.Done():
					}
				}()
				events, revision, err := wait(ctx, w)
				cancel()
				if err != nil {
					done = true
					break
				}
				for _, e := range events {
					got = append(got, seen{e.Revision, show(e)})
				}
				at = revision
			}
			w.Stop()
		}
		return got
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	watched := map[string][]seen{}
	var mu sync.Mutex
	for i, key := range []string{"", "a/", "b/", "b", "a/2", ""} {
		r := rand.New(rand.NewPCG(seed, uint64(i)+1))
		wg.Go(func() {
			got := follow(key, r, stop)
			mu.Lock()
			defer mu.Unlock()
			if have, ok := watched[key]; ok && !slices.Equal(have, got) {
				t.Errorf("two watchers of %q differ", key)
			}
			watched[key] = got
		})
	}
	// Readers check that the index only moves forward, and that consistent reads see writes.
	var want []seen
	state := map[string]string{}
	for i := range writes {
		key := keys[random.IntN(len(keys))]
		old, exists := state[key]
		if !exists {
			old = "-"
		}
		value := fmt.Sprint(i)
		var revision int64
		if exists && random.IntN(3) == 0 {
			resp, err := client.Delete(t.Context(), prefix+key)
			if err != nil {
				t.Fatal(err)
			}
			revision, value = resp.Header.Revision, "-"
			delete(state, key)
		} else {
			revision = put(t, client, prefix+key, value)
			state[key] = value
		}
		want = append(want, seen{revision, fmt.Sprintf("%s:%s>%s", key, old, value)})
		if random.IntN(10) == 0 {
			settle(t, s)
			e := s.Get(prefix + key)
			if (e == nil) != (value == "-") || e != nil && string(e.Value) != value {
				t.Fatalf("the read after the write of %s is %v", want[len(want)-1].text, e)
			}
		}
	}
	settle(t, s)
	for key, value := range state {
		if e := s.Get(prefix + key); e == nil || string(e.Value) != value {
			t.Errorf("%s is %v, want %s", key, e, value)
		}
	}
	if n := s.Snapshot().Count(prefix, ""); int(n) != len(state) {
		t.Error(n, "entries")
	}
	// The watchers have everything in their queues.
	time.AfterFunc(200*time.Millisecond, func() { close(stop) })
	wg.Wait()
	for key, got := range watched {
		var expected []seen
		for _, e := range want {
			name, _, _ := strings.Cut(e.text, ":")
			if w := (&Watcher{key: prefix + key}); w.matches(prefix + name) {
				expected = append(expected, e)
			}
		}
		if !slices.Equal(got, expected) {
			t.Errorf("the watcher of %q got %d events, want %d", key, len(got), len(expected))
		}
	}
}
