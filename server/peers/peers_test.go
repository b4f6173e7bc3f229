package peers

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"espalier.dev/server/etcd"
)

const crds = "/registry/apiextensions.k8s.io/customresourcedefinitions/"

func connect(t *testing.T) *clientv3.Client {
	t.Helper()
	m, err := etcd.Start(t.Context(), etcd.Config{Dir: t.TempDir(), UnsafeNoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	client, err := etcd.Connect(t.Context(), etcd.Endpoints{URLs: []string{m.Endpoint()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// running is a registered server.
type running struct {
	*Peers
	stop func()
}

// join registers a server whose catalog has reached a revision.
func join(t *testing.T, client *clientv3.Client, file string, lease time.Duration, progress int64) *running {
	t.Helper()
	r := launch(t, client, file, lease, progress)
	select {
	case <-r.Joined():
	case <-time.After(time.Minute):
		t.Fatal("the server did not join")
	}
	return r
}

func launch(t *testing.T, client *clientv3.Client, file string, lease time.Duration, progress int64) *running {
	t.Helper()
	p := New(Config{Client: client, Root: "/registry/", Lease: lease, File: file})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if err := p.Run(ctx); err != nil {
				t.Log(err)
			}
		}
	}()
	r := &running{Peers: p, stop: func() { cancel(); <-done }}
	t.Cleanup(r.stop)
	p.Reach(progress)
	return r
}

func file(t *testing.T) string { return filepath.Join(t.TempDir(), "lease") }

func reached(t *testing.T, r *running, revision int64, want bool) {
	t.Helper()
	if got, err := r.Reached(t.Context(), revision); got != want || err != nil {
		t.Errorf("all servers have reached %d: %v instead of %v, %v", revision, got, want, err)
	}
}

// await starts to wait for a revision.
func await(t *testing.T, r *running, revision int64) <-chan error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- r.Await(t.Context(), revision) }()
	return done
}

func registered(t *testing.T, client *clientv3.Client) int64 {
	t.Helper()
	resp, err := client.Get(t.Context(), "espalier.dev/servers/registry/", clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		t.Fatal(err)
	}
	return resp.Count
}

// TestProgress waits for the progress of another server, and for its end.
func TestProgress(t *testing.T) {
	t.Parallel()
	client := connect(t)
	a := join(t, client, file(t), time.Hour, 10)
	reached(t, a, 1000, true) // it is alone
	b := join(t, client, file(t), time.Hour, 5)
	reached(t, a, 5, true)
	reached(t, a, 6, false)
	reached(t, b, 10, true)

	done := await(t, a, 7)
	b.Reach(6)
	select {
	case err := <-done:
		t.Fatal("it did not wait:", err)
	case <-time.After(100 * time.Millisecond):
	}
	b.Reach(7)
	if err := <-done; err != nil {
		t.Error(err)
	}
	reached(t, a, 8, false)
	done = await(t, a, 8)
	b.stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if n := registered(t, client); n != 1 {
		t.Errorf("%d servers are registered after one of two has stopped", n)
	}
	if b.Check() == nil {
		t.Error("a server is ready that is not registered")
	}
}

// fullLease does not grant leases, as an etcd without space.
type fullLease struct{ clientv3.Lease }

func (fullLease) Grant(context.Context, int64) (*clientv3.LeaseGrantResponse, error) {
	return nil, rpctypes.ErrNoSpace
}

// failingReads fails after some reads.
type failingReads struct {
	clientv3.KV
	left int
}

func (r *failingReads) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	if r.left--; r.left < 0 {
		return nil, rpctypes.ErrNoLeader
	}
	return r.KV.Get(ctx, key, opts...)
}

// TestFull checks that a server is ready without a registration while etcd is full, and not when
// etcd does not answer any more.
func TestFull(t *testing.T) {
	t.Parallel()
	client := connect(t)
	client.Lease, client.KV = fullLease{client.Lease}, &failingReads{client.KV, 1}
	p := New(Config{Client: client, Root: "/registry/", File: file(t)})
	p.Reach(1)
	err := p.Run(t.Context())
	if !errors.Is(err, rpctypes.ErrNoLeader) {
		t.Fatal(err)
	}
	select {
	case <-p.Joined():
	default:
		t.Error("the server was not ready while etcd was full")
	}
	if p.Check() == nil {
		t.Error("the server is ready, but it cannot know the CRDs")
	}
}

// TestAlone counts the writes of a server that is alone.
func TestAlone(t *testing.T) {
	t.Parallel()
	client := connect(t)
	a := join(t, client, file(t), time.Hour, 10)
	before, err := client.Get(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	for i := range int64(100) {
		a.Reach(20 + i)
		reached(t, a, 20+i, true)
	}
	after, err := client.Get(t.Context(), "x")
	if err != nil || after.Header.Revision != before.Header.Revision {
		t.Error(before.Header, after.Header, err)
	}
}

// TestStalled waits for a server that keeps its lease but makes no progress.
func TestStalled(t *testing.T) {
	t.Parallel()
	client := connect(t)
	a := join(t, client, file(t), 2*time.Second, 10)
	b := join(t, client, file(t), time.Hour, 5)
	if err := a.Await(t.Context(), 6); err != nil {
		t.Error(err)
	}
	reached(t, a, 7, true) // it does not wait again
	b.Reach(7)             // it has recovered
	for stalled := true; stalled; {
		var err error
		if stalled, err = a.Reached(t.Context(), 8); err != nil {
			t.Fatal(err)
		}
	}
	done := await(t, a, 8)
	b.Reach(8)
	if err := <-done; err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.ErrUnsupported)
	if err := a.Await(ctx, 9); err == nil {
		t.Error("it did not wait")
	}
}

// TestCrash leaves the lease of a server in etcd.
func TestCrash(t *testing.T) {
	t.Parallel()
	client := connect(t)
	f := file(t)
	crashed := New(Config{Client: client, Root: "/registry/", Lease: time.Hour, File: f})
	crashed.Reach(1)
	if _, _, err := crashed.register(t.Context()); err != nil {
		t.Fatal(err)
	}
	a := join(t, client, file(t), time.Hour, 10)
	reached(t, a, 2, false)
	b := join(t, client, f, time.Hour, 2) // the next one in the same directory
	reached(t, a, 2, true)
	reached(t, b, 2, true)
}

// TestLostLease revokes the lease of a server that runs.
func TestLostLease(t *testing.T) {
	t.Parallel()
	client := connect(t)
	a := join(t, client, file(t), time.Hour, 1)
	b := join(t, client, file(t), time.Hour, 1)
	b.mu.Lock()
	key := b.key
	b.mu.Unlock()
	resp, err := client.Get(t.Context(), key)
	if err != nil || len(resp.Kvs) != 1 {
		t.Fatal(resp, err)
	}
	// While it is not registered, CRDs are stored that nobody waited for it to serve.
	put, err := client.Put(t.Context(), crds+"things.example.com", "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Revoke(t.Context(), clientv3.LeaseID(resp.Kvs[0].Lease)); err != nil {
		t.Fatal(err)
	}
	// What it wrote with the CRDs that it has would need a key that does not exist.
	if kv, err := client.Get(t.Context(), b.Registration()); err != nil || kv.Count != 0 {
		t.Error("it can write objects:", kv, err)
	}
	b.Reach(2) // it cannot publish this with its old lease
	deadline := time.Now().Add(time.Minute)
	for {
		b.mu.Lock()
		again := b.key != "" && b.key != key
		b.mu.Unlock()
		if again {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("it did not register again")
		}
		time.Sleep(time.Millisecond)
	}
	if err := b.Check(); err == nil {
		t.Error("it is ready without the CRDs that were stored when it registered again")
	}
	reached(t, a, put.Header.Revision, false)
	if kv, err := client.Get(t.Context(), b.Registration()); err != nil || kv.Count != 0 {
		t.Error("it can write objects without the CRDs that were stored when it registered again:", kv, err)
	}
	b.Reach(put.Header.Revision)
	if kv, err := client.Get(t.Context(), b.Registration()); err != nil || kv.Count != 1 {
		t.Error("it cannot write objects:", kv, err)
	}
	if err := b.Check(); err != nil {
		t.Error(err)
	}
	if err := a.Await(t.Context(), put.Header.Revision); err != nil {
		t.Error(err)
	}
	if n := registered(t, client); n != 2 {
		t.Errorf("%d of 2 servers are registered", n)
	}
}

// TestLate starts a server that has listed the CRDs before the newest one was stored.
func TestLate(t *testing.T) {
	t.Parallel()
	client := connect(t)
	put, err := client.Put(t.Context(), crds+"things.example.com", "")
	if err != nil {
		t.Fatal(err)
	}
	late := launch(t, client, file(t), time.Hour, put.Header.Revision-1)
	for registered(t, client) == 0 {
		time.Sleep(time.Millisecond)
	}
	select {
	case <-late.Joined():
		t.Error("it joined without a CRD that was stored before")
	case <-time.After(50 * time.Millisecond):
	}
	late.Reach(put.Header.Revision)
	<-late.Joined()
}

// TestProgressGoesBack registers again when the data of etcd was replaced by older data.
func TestProgressGoesBack(t *testing.T) {
	t.Parallel()
	client := connect(t)
	a := join(t, client, file(t), time.Minute, 1000)
	b := join(t, client, file(t), time.Minute, 1000)
	reached(t, a, 1000, true)
	a.mu.Lock()
	a.revision += 1000 // that of the data before
	key := a.key
	a.mu.Unlock()
	b.stop()
	a.Reach(1)
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		a.mu.Lock()
		registered, others := a.key != "" && a.key != key, len(a.others)
		a.mu.Unlock()
		if registered && others == 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("registered again: %v, %d other servers", registered, others)
		}
	}
}
