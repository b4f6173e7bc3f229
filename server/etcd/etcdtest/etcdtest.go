// Package etcdtest runs an etcd for a test, or a store in memory that has its API.
package etcdtest

import (
	"os"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"espalier.dev/server/etcd"
	"espalier.dev/server/etcd/memory"
)

// Everywhere reports whether all tests use etcd, also those for which memory is as good: ESPALIER_TEST_STORE is etcd.
func Everywhere() bool { return os.Getenv("ESPALIER_TEST_STORE") == "etcd" }

// Database is an etcd, or a store in memory that has its API.
type Database struct {
	*clientv3.Client
	memory *memory.DB
}

// Open opens a store in memory, or an etcd if the tests use it [Everywhere]. It ends with the test.
func Open(t testing.TB) *Database {
	t.Helper()
	if Everywhere() {
		return &Database{Client: Start(t)}
	}
	db := memory.Open(memory.Config{})
	t.Cleanup(db.Close)
	client := db.Client()
	t.Cleanup(func() { _ = client.Close() })
	return &Database{client, db}
}

// NewWatcher returns a watcher of its own, as a store needs it. The caller closes it.
func (d *Database) NewWatcher() clientv3.Watcher {
	if d.memory != nil {
		return d.memory.NewWatcher()
	}
	return clientv3.NewWatcher(d.Client)
}

// Start starts an etcd that ends with the test, and returns a client of it. The endpoint of the
// etcd is the only one of the client.
func Start(t testing.TB) *clientv3.Client {
	t.Helper()
	member, err := etcd.Start(t.Context(), etcd.Config{Dir: t.TempDir(), UnsafeNoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(member.Close)
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{member.Endpoint()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}
