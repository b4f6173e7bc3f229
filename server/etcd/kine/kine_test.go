package kine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"espalier.dev/server/etcd"
	"espalier.dev/server/etcd/kine"
	"espalier.dev/server/etcd/kine/kinetest"
	"espalier.dev/store"
)

const memory = "memory/"

// connect connects to a server, without a registration.
func connect(t *testing.T, s *kinetest.Server) (*kine.Conn, *clientv3.Client) {
	t.Helper()
	conn := kine.New(memory)
	client, err := etcd.Connect(t.Context(), etcd.Endpoints{URLs: []string{s.URL}, Kine: conn})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	if !conn.Detected() {
		t.Fatal("kine is not detected")
	}
	return conn, client
}

func register(t *testing.T, conn *kine.Conn, client *clientv3.Client, file string, lease time.Duration) (*kine.Registration, error) {
	r, err := conn.Register(t.Context(), kine.RegistrationConfig{Client: client, Root: "/registry/", Lease: lease, File: file})
	if err == nil {
		t.Cleanup(func() { r.Close() })
	}
	return r, err
}

// registered returns a client that may write.
func registered(t *testing.T, s *kinetest.Server) *clientv3.Client {
	t.Helper()
	conn, client := connect(t, s)
	if _, err := register(t, conn, client, filepath.Join(t.TempDir(), "token"), 10*time.Second); err != nil {
		t.Fatal(err)
	}
	return client
}

func TestDetect(t *testing.T) {
	t.Parallel()
	s := kinetest.Start(t)
	t.Run("etcd is not kine", func(t *testing.T) {
		conn := kine.New(memory)
		client, err := etcd.Connect(t.Context(), etcd.Endpoints{URLs: s.Client.Endpoints(), Kine: conn})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = client.Close() }()
		if conn.Detected() || (*kine.Conn)(nil).Detected() {
			t.Error("kine is detected")
		}
	})
	t.Run("one address", func(t *testing.T) {
		_, err := etcd.Connect(t.Context(), etcd.Endpoints{URLs: []string{s.URL, kinetest.Start(t).URL}, Kine: kine.New(memory)})
		if err == nil || !strings.Contains(err.Error(), "set one of them") {
			t.Error(err)
		}
	})
}

// TestTransactions executes random transactions with etcd and with kine. The results must be
// the same, apart from revisions.
func TestTransactions(t *testing.T) {
	t.Parallel()
	s := kinetest.Start(t)
	reference := kinetest.Start(t).Client
	client := registered(t, s)
	random := rand.New(rand.NewPCG(1, 2))
	keys := []string{"/registry/a", "/registry/b", memory + "a", memory + "b"}
	pick := func() string { return keys[random.IntN(len(keys))] }
	revision := func(c *clientv3.Client, key string, wrong bool) int64 {
		resp, err := c.Get(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case wrong:
			return 12345678
		case len(resp.Kvs) == 0:
			return 0
		}
		return resp.Kvs[0].ModRevision
	}
	for range 300 {
		// Each builds the same transaction twice, because the revisions differ.
		var compares []func(c *clientv3.Client) clientv3.Cmp
		var text []string
		written := pick()
		if written[0] == '/' && random.IntN(2) == 0 {
			wrong := random.IntN(4) == 0
			text = append(text, fmt.Sprintf("if the revision of %s is right: %t", written, !wrong))
			compares = append(compares, func(c *clientv3.Client) clientv3.Cmp {
				return clientv3.Compare(clientv3.ModRevision(written), "=", revision(c, written, wrong))
			})
		}
		for range random.IntN(2) {
			key, operator, value := pick(), []string{"=", "!="}[random.IntN(2)], fmt.Sprint(random.IntN(2))
			text = append(text, "if "+key+operator+value)
			compares = append(compares, func(*clientv3.Client) clientv3.Cmp { return clientv3.Compare(clientv3.Value(key), operator, value) })
		}
		if random.IntN(2) == 0 {
			key, operator := pick(), []string{"=", ">"}[random.IntN(2)]
			text = append(text, "if created "+key+operator+"0")
			compares = append(compares, func(*clientv3.Client) clientv3.Cmp {
				return clientv3.Compare(clientv3.CreateRevision(key), operator, 0)
			})
		}
		op := func(key string) clientv3.Op {
			if random.IntN(3) == 0 {
				text = append(text, "delete "+key)
				return clientv3.OpDelete(key)
			}
			value := fmt.Sprint(random.IntN(2))
			text = append(text, "put "+key+"="+value)
			return clientv3.OpPut(key, value)
		}
		then := []clientv3.Op{op(written)}
		if other := keys[2+random.IntN(2)]; other != written {
			then = append(then, op(other))
		}
		otherwise := []clientv3.Op{clientv3.OpGet(pick()), clientv3.OpGet(memory + "a")}
		run := func(c *clientv3.Client) string {
			var ifs []clientv3.Cmp
			for _, compare := range compares {
				ifs = append(ifs, compare(c))
			}
			resp, err := c.Txn(t.Context()).If(ifs...).Then(then...).Else(otherwise...).Commit()
			if err != nil {
				t.Fatal(text, err)
			}
			result := fmt.Sprint(resp.Succeeded)
			for _, r := range resp.Responses {
				for _, kv := range r.GetResponseRange().GetKvs() {
					result += fmt.Sprintf(" %s=%s", kv.Key, kv.Value)
				}
			}
			for _, key := range keys {
				got, err := c.Get(t.Context(), key)
				if err != nil {
					t.Fatal(err)
				}
				for _, kv := range got.Kvs {
					result += fmt.Sprintf("; %s: %s", kv.Key, kv.Value)
				}
			}
			return result
		}
		if want, got := run(reference), run(client); got != want {
			t.Fatalf("%q\nkine: %s\netcd: %s", text, got, want)
		}
	}
	// The keys in memory are not stored, and another client does not see them.
	if resp, err := s.Client.Get(t.Context(), memory, clientv3.WithPrefix()); err != nil || resp.Count != 0 {
		t.Error(resp, err)
	}
}

func TestRejectedTransactions(t *testing.T) {
	t.Parallel()
	s := kinetest.Start(t)
	client := registered(t, s)
	for name, test := range map[string]struct {
		then []clientv3.Op
		code codes.Code
	}{
		"two keys":        {[]clientv3.Op{clientv3.OpPut("/registry/a", ""), clientv3.OpPut("/registry/b", "")}, codes.Unimplemented},
		"an underscore":   {[]clientv3.Op{clientv3.OpPut("/my_registry/a", "")}, codes.InvalidArgument},
		"an upper case":   {[]clientv3.Op{clientv3.OpPut("/Registry/a", "")}, codes.InvalidArgument},
		"a per cent":      {[]clientv3.Op{clientv3.OpPut("/registry/%", "")}, codes.InvalidArgument},
		"a backslash":     {[]clientv3.Op{clientv3.OpDelete(`/registry\a`)}, codes.InvalidArgument},
		"an ordinary one": {[]clientv3.Op{clientv3.OpPut("/registry/a-1.b", "")}, codes.OK},
	} {
		if _, err := client.Txn(t.Context()).Then(test.then...).Commit(); status.Code(err) != test.code {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, stranger := connect(t, s)
	if _, err := stranger.Txn(t.Context()).Then(clientv3.OpPut("/registry/a", "")).Commit(); status.Code(err) != codes.Unavailable {
		t.Error("without a registration:", err)
	}
}

// TestReads checks options of reads that kine does not support, and lists in pages.
func TestReads(t *testing.T) {
	t.Parallel()
	s := kinetest.Start(t)
	client := registered(t, s)
	var revision int64
	for i := range 10 {
		resp, err := client.Txn(t.Context()).Then(clientv3.OpPut(fmt.Sprint("/registry/", i), "value")).Commit()
		if err != nil {
			t.Fatal(err)
		}
		revision = resp.Header.Revision
		// The revision of a read is never older than a write before it.
		for _, key := range []string{"/registry/", "/registry/none", "/registry/1"} {
			got, err := client.Get(t.Context(), key, clientv3.WithCountOnly())
			if err != nil || got.Header.Revision < revision || len(got.Kvs) != 0 {
				t.Fatalf("%s at %d: %v %v", key, revision, got, err)
			}
		}
		if got, err := client.Get(t.Context(), "/none/", clientv3.WithPrefix()); err != nil || got.Header.Revision < revision || got.Count != 0 {
			t.Fatalf("at %d: %v %v", revision, got, err)
		}
	}
	end := clientv3.GetPrefixRangeEnd("/registry/")
	page, err := client.Get(t.Context(), "/registry/", clientv3.WithRange(end), clientv3.WithLimit(4), clientv3.WithKeysOnly())
	if err != nil || len(page.Kvs) != 4 || page.Count != 10 || !page.More || page.Header.Revision < revision || page.Kvs[0].Value != nil {
		t.Fatal(page, err)
	}
	if between, err := client.Get(t.Context(), kinetest.Between); err != nil || len(between.Kvs) != 1 || between.Kvs[0].ModRevision <= page.Header.Revision {
		t.Errorf("the page is at %d, before %v: %v", page.Header.Revision, between, err)
	}
	if _, err := client.Txn(t.Context()).Then(clientv3.OpDelete("/registry/5")).Commit(); err != nil {
		t.Fatal(err)
	}
	rest, err := client.Get(t.Context(), "/registry/3\x00", clientv3.WithRange(end), clientv3.WithRev(page.Header.Revision))
	if err != nil || len(rest.Kvs) != 6 || rest.More {
		t.Error(rest, err)
	}
}

// TestStore runs a store on kine: every write can be read afterwards, every event arrives once
// and in order, also if kine ends watches or restarts.
func TestStore(t *testing.T) {
	t.Parallel()
	s := kinetest.Start(t)
	client := registered(t, s)
	index, err := store.Open(store.Config{Client: client, Prefix: "/registry/"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(index.Close)
	<-index.Loaded()
	watcher, err := index.Watch("/registry/", index.Revision())
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Stop()
	const writers, writes = 4, 25
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range writes {
				key := fmt.Sprintf("/registry/%d-%02d", w, i)
				// The revision is that of a key outside of the store half of the time.
				if i%2 == 0 {
					if _, err := client.Txn(t.Context()).Then(clientv3.OpPut("/elsewhere/"+fmt.Sprint(w), "")).Commit(); err != nil {
						t.Error(err)
					}
				}
				if _, _, err := index.Put(t.Context(), nil, key, []byte("value"), 0, 0); err != nil {
					t.Error(key, err)
					return
				}
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				if _, err := index.Sync(ctx); err != nil || index.Get(key) == nil {
					t.Errorf("%s: %v, found: %t", key, err, index.Get(key) != nil)
				}
				cancel()
				if w == 0 && i%5 == 4 {
					s.EndWatches()
				}
			}
		})
	}
	wg.Wait()
	s.Restart()
	var last int64
	for {
		if last, _, err = index.Put(t.Context(), nil, "/registry/last", nil, 0, 0); err == nil {
			break
		}
		var unavailable *store.UnavailableError
		if !errors.As(err, &unavailable) {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var got []int64
	for len(got) == 0 || got[len(got)-1] < last {
		select {
		case <-watcher.Ready():
		case <-ctx.Done():
			t.Fatalf("%v after %d events", ctx.Err(), len(got))
		}
		events, _, err := watcher.Poll()
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			got = append(got, e.Revision)
		}
	}
	// A write elsewhere is progress.
	if _, err := client.Txn(t.Context()).Then(clientv3.OpPut("/elsewhere/last", "")).Commit(); err != nil {
		t.Fatal(err)
	}
	if _, err := index.Sync(ctx); err != nil {
		t.Error(err)
	}
	if len(got) != writers*writes+1 || !slices.IsSorted(got) || len(slices.Compact(slices.Clone(got))) != len(got) {
		t.Errorf("%d events instead of %d: %v", len(got), writers*writes+1, got)
	}
}

func TestRegistration(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for leases")
	}
	t.Parallel()
	const lease = 3 * time.Second
	put := func(c *clientv3.Client) error {
		_, err := c.Txn(t.Context()).Then(clientv3.OpPut("/registry/a", "")).Commit()
		return err
	}
	dir := t.TempDir()
	s := kinetest.Start(t)
	conn, client := connect(t, s)
	first, err := register(t, conn, client, filepath.Join(dir, "first"), lease)
	if err != nil {
		t.Fatal(err)
	}
	otherConn, other := connect(t, s)
	if _, err := register(t, otherConn, other, filepath.Join(dir, "other"), lease); !errors.Is(err, kine.ErrTaken) {
		t.Error("a second server:", err)
	}
	// It is renewed.
	time.Sleep(lease + lease/2)
	if err := errors.Join(first.Check(), put(client)); err != nil {
		t.Error(err)
	}
	if _, err := register(t, otherConn, other, filepath.Join(dir, "other"), lease); !errors.Is(err, kine.ErrTaken) {
		t.Error("a second server:", err)
	}

	// The next server in the same directory takes over. The first one, if it still runs, notices.
	nextConn, next := connect(t, s)
	second, err := register(t, nextConn, next, filepath.Join(dir, "first"), lease)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-first.Lost():
	case <-time.After(lease):
		t.Error("the first server has not noticed")
	}
	if err := put(next); err != nil {
		t.Error(err)
	}

	// A server that has crashed is one whose connection is closed: others wait for the lease.
	if err := next.Close(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for {
		_, err := register(t, otherConn, other, filepath.Join(dir, "other"), lease)
		if err == nil {
			break
		}
		if !errors.Is(err, kine.ErrTaken) || time.Since(began) > 5*lease {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Millisecond)
	}
	if second.Check() == nil {
		t.Error("the second server would still write")
	}
	if err := put(other); err != nil {
		t.Error(err)
	}
}
