package keyspace_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
	clientv3 "go.etcd.io/etcd/client/v3"

	"espalier.dev/server/etcd"
	"espalier.dev/store/keyspace"
)

func newEtcd(t testing.TB) *clientv3.Client {
	t.Helper()
	client, _ := startEtcd(t)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func startEtcd(t testing.TB) (*clientv3.Client, *etcd.Member) {
	t.Helper()
	member, err := etcd.Start(t.Context(), etcd.Config{Dir: t.TempDir(), UnsafeNoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(member.Close)
	client, err := etcd.Connect(t.Context(), etcd.Endpoints{URLs: []string{member.Endpoint()}})
	if err != nil {
		t.Fatal(err)
	}
	return client, member
}

// save writes a snapshot, as etcdctl does.
func save(t testing.TB, client *clientv3.Client) string {
	t.Helper()
	in, err := client.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	path := filepath.Join(t.TempDir(), "snapshot.db")
	out, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(out, in)
	if err := errors.Join(err, out.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}

func openFile(t testing.TB, path string) *keyspace.File {
	t.Helper()
	f, err := keyspace.OpenFile(t.Context(), path, keyspace.FileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// content reads all entries, and fails if a key comes twice.
func content(t testing.TB, r keyspace.Reader, prefix string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for e, err := range r.Range(t.Context(), prefix) {
		if err != nil {
			t.Fatal(err)
		}
		if _, twice := all[e.Key]; twice {
			t.Fatalf("%s is returned twice", e.Key)
		}
		all[e.Key] = fmt.Sprintf("%d %s", e.Revision, e.Value)
	}
	return all
}

// TestReadersAgree writes, deletes, creates again and compacts at random, and compares a snapshot
// file and a paged reader with what etcd returns at once.
func TestReadersAgree(t *testing.T) {
	t.Parallel()
	client := newEtcd(t)
	random := rand.New(rand.NewPCG(1, 2))
	key := func() string { return fmt.Sprintf("/%c/%d", 'a'+rune(random.IntN(3)), random.IntN(60)) }
	for round := range 12 {
		for range 150 {
			var err error
			switch random.IntN(8) {
			case 0, 1:
				_, err = client.Delete(t.Context(), key())
			case 2:
				_, err = client.Delete(t.Context(), "/a/1", clientv3.WithPrefix())
			case 3: // several writes of one revision
				a, b := key(), key()
				if a == b {
					continue
				}
				_, err = client.Txn(t.Context()).Then(clientv3.OpPut(a, "x"), clientv3.OpDelete(b), clientv3.OpPut(b+"x", "y")).Commit()
			default:
				_, err = client.Put(t.Context(), key(), fmt.Sprint(random.Int64()))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if round%3 == 1 {
			resp, err := client.Get(t.Context(), "x")
			if err == nil {
				_, err = client.Compact(t.Context(), resp.Header.Revision-int64(random.IntN(60)), clientv3.WithCompactPhysical())
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		file := openFile(t, save(t, client))
		// A Cluster closes its client.
		cluster := keyspace.NewCluster(client)
		for _, prefix := range []string{"", "/a/", "/b/1", "/b/10", "/none"} {
			options := []clientv3.OpOption{clientv3.WithPrefix()}
			resp, err := client.Get(t.Context(), prefix, options...)
			if err != nil {
				t.Fatal(err)
			}
			want := map[string]string{}
			for _, kv := range resp.Kvs {
				want[string(kv.Key)] = fmt.Sprintf("%d %s", kv.ModRevision, kv.Value)
			}
			if prefix == "" && len(want) < 30 {
				t.Fatalf("only %d keys", len(want))
			}
			for name, r := range map[string]keyspace.Reader{"file": file, "cluster": cluster} {
				if got := content(t, r, prefix); fmt.Sprint(got) != fmt.Sprint(want) {
					t.Fatalf("round %d, prefix %q, %s: got %v, want %v", round, prefix, name, got, want)
				}
			}
		}
		for _, k := range []string{"/b/1", "/b/10", "/none"} {
			a, foundA, errA := file.Get(t.Context(), k)
			b, foundB, errB := cluster.Get(t.Context(), k)
			if errA != nil || errB != nil || foundA != foundB || !bytes.Equal(a.Value, b.Value) {
				t.Errorf("%s: file %v %t %v, cluster %v %t %v", k, a, foundA, errA, b, foundB, errB)
			}
		}
	}
}

// TestClusterAtOneRevision changes keys between the pages, and compacts.
func TestClusterAtOneRevision(t *testing.T) {
	t.Parallel()
	client := newEtcd(t)
	const keys = 500
	put := func(value string) (revision int64) {
		for i := range keys {
			resp, err := client.Put(t.Context(), fmt.Sprintf("/k/%03d", i), value)
			if err != nil {
				t.Fatal(err)
			}
			revision = resp.Header.Revision
		}
		return revision
	}
	put("old")
	for _, compact := range []bool{false, true} {
		n, newer := 0, 0
		for e, err := range keyspace.NewCluster(client).Range(t.Context(), "/k/") {
			if err != nil {
				t.Fatal(err)
			}
			if n++; string(e.Value) == "new" {
				newer++
			}
			if n == 1 {
				if revision := put("new"); compact {
					if _, err := client.Compact(t.Context(), revision); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		if n != keys || !compact && newer > 0 || compact && newer == 0 {
			t.Errorf("compact %t: %d keys, %d of them newer", compact, n, newer)
		}
		put("old")
	}
}

func TestClusterDies(t *testing.T) {
	t.Parallel()
	client, member := startEtcd(t)
	for i := range 100 {
		if _, err := client.Put(t.Context(), fmt.Sprintf("/k/%03d", i), "x"); err != nil {
			t.Fatal(err)
		}
	}
	cluster := keyspace.NewCluster(client)
	defer cluster.Close()
	keyspace.SetTimeout(cluster, 200*time.Millisecond)
	n := 0
	var failed error
	for _, err := range cluster.Range(t.Context(), "/k/") {
		if failed = err; err != nil {
			break
		}
		if n++; n == 1 {
			member.Close()
		}
	}
	if failed == nil || n == 0 {
		t.Errorf("%d keys, then the error %v", n, failed)
	}
}

func TestFileErrors(t *testing.T) {
	t.Parallel()
	client := newEtcd(t)
	if _, err := client.Put(t.Context(), "/a", "1"); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(save(t, client))
	if err != nil {
		t.Fatal(err)
	}
	database := good[:len(good)-sha256.Size]
	sum := func(data []byte) []byte {
		hash := sha256.Sum256(data)
		return append(bytes.Clone(data), hash[:]...)
	}
	// edited returns the snapshot after a change of its database.
	edited := func(change func(*bolt.Tx) error) []byte {
		path := filepath.Join(t.TempDir(), "db")
		if err := os.WriteFile(path, database, 0o600); err != nil {
			t.Fatal(err)
		}
		db, err := bolt.Open(path, 0o600, nil)
		if err == nil {
			err = errors.Join(db.Update(change), db.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return sum(data)
	}
	altered := bytes.Clone(good)
	altered[len(altered)/2] ^= 1
	var version *keyspace.VersionError
	for _, tc := range []struct {
		name string
		data []byte
		want error
	}{
		{"good", good, nil},
		{"empty", nil, keyspace.ErrNotSnapshot},
		{"short", good[:100], keyspace.ErrNotSnapshot},
		{"no checksum", database, keyspace.ErrNoChecksum},
		{"cut off in the checksum", good[:len(good)-1], keyspace.ErrAltered},
		{"cut off in a page", good[:len(good)/2+77], keyspace.ErrAltered},
		{"cut off before a block", good[:1024], keyspace.ErrNoChecksum},
		{"altered", altered, keyspace.ErrAltered},
		{"text", sum(bytes.Repeat([]byte("text"), 1024)), keyspace.ErrNotSnapshot},
		{"a part with a checksum", sum(database[:2*os.Getpagesize()]), keyspace.ErrDamaged},
		{"another database", edited(func(tx *bolt.Tx) error { return tx.DeleteBucket([]byte("key")) }), keyspace.ErrNotSnapshot},
		{"another version", edited(func(tx *bolt.Tx) error {
			return tx.Bucket([]byte("meta")).Put([]byte("storageVersion"), []byte("4.0.0"))
		}), version},
		{"a malformed revision", edited(func(tx *bolt.Tx) error { return tx.Bucket([]byte("key")).Put([]byte("zzz"), []byte("x")) }), keyspace.ErrDamaged},
		{"a malformed value", edited(func(tx *bolt.Tx) error {
			return tx.Bucket([]byte("key")).Put([]byte("zzzzzzzz_zzzzzzzz"), []byte("x"))
		}), keyspace.ErrDamaged},
	} {
		path := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(path, tc.data, 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := keyspace.OpenFile(t.Context(), path, keyspace.FileOptions{})
		if err == nil {
			for _, failed := range f.Range(t.Context(), "") {
				err = failed
			}
			_ = f.Close()
		}
		if tc.name == "another version" {
			if !errors.As(err, &version) || version.Version != "4.0.0" {
				t.Errorf("%s: got %v", tc.name, err)
			}
		} else if !errors.Is(err, tc.want) {
			t.Errorf("%s: got %v, want %v", tc.name, err, tc.want)
		}
	}
	path := filepath.Join(t.TempDir(), "db")
	if err := os.WriteFile(path, database, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := keyspace.OpenFile(t.Context(), path, keyspace.FileOptions{SkipChecksum: true})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got := content(t, f, "/"); len(got) != 1 {
		t.Errorf("without a checksum: got %v", got)
	}
	if _, err := keyspace.OpenFile(t.Context(), filepath.Join(t.TempDir(), "none"), keyspace.FileOptions{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := keyspace.OpenFile(ctx, save(t, client), keyspace.FileOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestLocked opens the database of a running etcd.
func TestLocked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	member, err := etcd.Start(t.Context(), etcd.Config{Dir: dir, UnsafeNoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer member.Close()
	_, err = keyspace.OpenFile(t.Context(), filepath.Join(dir, "member", "snap", "db"), keyspace.FileOptions{SkipChecksum: true})
	if !errors.Is(err, keyspace.ErrLocked) {
		t.Errorf("got %v", err)
	}
}
