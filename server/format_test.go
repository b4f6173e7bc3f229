package server_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"espalier.dev/server/etcd"
	"espalier.dev/server/keys"
	"espalier.dev/server/servertest"
)

// TestNewerData starts a server on data in the format of a newer release, in its own etcd and in
// another one. It must fail, and change nothing.
func TestNewerData(t *testing.T) {
	t.Parallel()
	for _, external := range []bool{false, true} {
		t.Run(fmt.Sprintf("external=%v", external), func(t *testing.T) {
			t.Parallel()
			o := servertest.EtcdOptions(t)
			dir := filepath.Join(o.DataDir, "etcd")
			if external {
				dir = t.TempDir()
			}
			// edit starts etcd without a server, and returns what it has.
			edit := func(do func(ctx context.Context, c *clientv3.Client) error) string {
				t.Helper()
				m, err := etcd.Start(t.Context(), etcd.Config{Dir: dir, UnsafeNoFsync: true})
				if err != nil {
					t.Fatal(err)
				}
				defer m.Close()
				c, err := etcd.Connect(t.Context(), etcd.Endpoints{URLs: []string{m.Endpoint()}})
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = c.Close() }()
				if err := do(t.Context(), c); err != nil {
					t.Fatal(err)
				}
				if external {
					o.Etcd.URLs = []string{m.Endpoint()}
					servertest.StartFails(t, o, "the data has format 2", "use espalier v2.0.0 or later")
				}
				all, err := c.Get(t.Context(), "\x00", clientv3.WithFromKey())
				if err != nil {
					t.Fatal(err)
				}
				return fmt.Sprint(all.Header.Revision, all.Kvs)
			}
			before := edit(func(ctx context.Context, c *clientv3.Client) error {
				_, err := c.Put(ctx, keys.NewRoot(o.EtcdPrefix).Format(), "2 v2.0.0")
				return err
			})
			if !external {
				servertest.StartFails(t, o, "the data has format 2", "use espalier v2.0.0 or later")
			}
			after := edit(func(context.Context, *clientv3.Client) error { return nil })
			if before != after {
				t.Errorf("the data has changed from\n%s\nto\n%s", before, after)
			}
			if external {
				return
			}
			edit(func(ctx context.Context, c *clientv3.Client) error {
				_, err := c.Put(ctx, keys.NewRoot(o.EtcdPrefix).Format(), fmt.Sprint(keys.DataFormat))
				return err
			})
			servertest.Start(t, o)
		})
	}
}
