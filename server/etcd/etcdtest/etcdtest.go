// Package etcdtest runs an etcd for a test.
package etcdtest

import (
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"espalier.dev/server/etcd"
)

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
