package server_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"espalier.dev/server"
	"espalier.dev/server/servertest"
)

// TestReplacedEtcd stops servers whose external etcd comes back with other data: they neither show
// that everything is deleted, nor write into it.
func TestReplacedEtcd(t *testing.T) {
	t.Parallel()
	const object = `{"metadata":{"name":"a"}}`
	for name, test := range map[string]struct {
		replace func(c *servertest.Cluster)
		reason  string
	}{
		"empty": {func(c *servertest.Cluster) {
			c.Member.Close()
			c.EmptyEtcd()
		}, "its revision is"},
		"without the marker": {func(c *servertest.Cluster) {
			for _, key := range c.Keys("espalier.dev/semantics") {
				if _, err := c.Etcd.Delete(c.Context(), key); err != nil {
					c.Fatal(err)
				}
			}
		}, "which every server records"},
	} {
		t.Run(name, func(t *testing.T) {
			c := servertest.NewCluster(t)
			var servers []*server.Server
			for range 2 {
				o := servertest.ShareEtcd(t, []string{c.Member.Endpoint()})
				o.EtcdCompactionInterval = 100 * time.Millisecond
				s, err := servertest.TryStart(t, o)
				if err != nil {
					t.Fatal(err)
				}
				servers = append(servers, s)
			}
			client := servertest.Client(t, servers[0], nil)
			if code, text := servertest.Exchange(t, client, http.MethodPost, servers[0].URL()+"/api/v1/namespaces/default/configmaps", object); code != http.StatusCreated {
				t.Fatal(code, text)
			}
			time.Sleep(300 * time.Millisecond) // some compactions
			test.replace(c)
			for _, s := range servers {
				select {
				case <-s.Done():
				case <-time.After(30 * time.Second):
					t.Fatal("a server serves other data than before")
				}
				if err := s.Stop(); err == nil || !strings.Contains(err.Error(), "the data of etcd was replaced: ") || !strings.Contains(err.Error(), test.reason) {
					t.Errorf("a server has stopped with %v", err)
				}
			}
			if name == "empty" {
				if keys := c.Keys("/registry/"); len(keys) > 0 {
					t.Errorf("servers have written into the new data: %q", keys)
				}
			}
		})
	}
}
