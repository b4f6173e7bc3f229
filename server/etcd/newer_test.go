package etcd

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/server/v3/storage/backend"
	"go.etcd.io/etcd/server/v3/storage/schema"
)

// TestNewer starts a member on the data of a newer etcd. It must fail before it changes the data,
// and start again when the version is its own.
func TestNewer(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "etcd")
	m := startMember(t, Config{Dir: dir})
	c := connect(t, m.Endpoint())
	if _, err := c.Put(t.Context(), "key", "value"); err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	m.Close()
	path := filepath.Join(dir, "member", "snap", "db")
	set := func(bucket backend.Bucket, key []byte, value string) (old string) {
		t.Helper()
		db, err := bbolt.Open(path, 0o600, nil)
		if err != nil {
			t.Fatal(err)
		}
		err = db.Update(func(tx *bbolt.Tx) error {
			b := tx.Bucket(bucket.Name())
			old = string(b.Get(key))
			if value == "" {
				return b.Delete(key)
			}
			return b.Put(key, []byte(value))
		})
		if err := errors.Join(err, db.Close()); err != nil {
			t.Fatal(err)
		}
		return old
	}
	for _, test := range []struct {
		bucket backend.Bucket
		key    []byte
		value  string
	}{
		{schema.Cluster, schema.ClusterClusterVersionKeyName, "3.99.0"},
		{schema.Cluster, schema.ClusterClusterVersionKeyName, "4.0.0"},
		{schema.Meta, schema.MetaStorageVersionName, "3.99.0"},
	} {
		old := set(test.bucket, test.key, test.value)
		before, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		started, err := Start(t.Context(), Config{Dir: dir, UnsafeNoFsync: true})
		var newer *NewerError
		if !errors.As(err, &newer) || newer.Written != test.value {
			if err == nil {
				started.Close()
			}
			t.Errorf("%s=%s: %v", test.key, test.value, err)
		}
		if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
			t.Errorf("%s=%s: the database has changed (%v)", test.key, test.value, err)
		}
		set(test.bucket, test.key, old)
	}
	m = startMember(t, Config{Dir: dir})
	got, err := connect(t, m.Endpoint()).Get(t.Context(), "key")
	if err != nil || len(got.Kvs) != 1 {
		t.Errorf("got %v, %v", got, err)
	}
}
