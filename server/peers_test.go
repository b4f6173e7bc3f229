package server_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"espalier.dev/server"
	"espalier.dev/server/etcd/etcdtest"
	"espalier.dev/server/servertest"
)

// TestServers runs three servers on three etcd members. Each CRD is created through one server
// and used through the others as soon as one of them says that it is established.
func TestServers(t *testing.T) {
	t.Parallel()
	urls := servertest.Members(t)
	servers, clients := make([]*server.Server, 3), make([]*http.Client, 3)
	for i := range servers {
		servers[i] = servertest.Start(t, servertest.ShareEtcd(t, urls))
		clients[i] = servertest.Client(t, servers[i], nil)
	}
	rounds := 100
	if testing.Short() {
		rounds = 10
	}
	for round := range rounds {
		group := fmt.Sprintf("g%d.example.com", round)
		creator := round % 3
		code, text := servertest.Exchange(t, clients[creator], http.MethodPost, servers[creator].URL()+servertest.CRDs, servertest.ThingCRD(group))
		if code != http.StatusCreated {
			t.Fatal(code, text)
		}
		reader := (creator + round/3) % 3
		servertest.Eventually(t, func() error {
			if !servertest.IsEstablished(t, servers[reader], clients[reader], "things."+group) {
				return errors.New("not established")
			}
			return nil
		})
		for i := range 3 {
			// The catalog behind discovery must have it: unlike a request for the resource,
			// discovery does not look it up in etcd.
			if code, text := servertest.Get(t, servers[i], clients[i], "/apis/"+group+"/v1"); code != http.StatusOK || !strings.Contains(text, `"things"`) {
				t.Fatalf("round %d, server %d: discovery: %d %s", round, i, code, text)
			}
			name := fmt.Sprint("a", i)
			code, text := servertest.Exchange(t, clients[i], http.MethodPost, servers[i].URL()+"/apis/"+group+"/v1/things",
				fmt.Sprintf(`{"apiVersion":"%s/v1","kind":"Thing","metadata":{"name":%q}}`, group, name))
			if code != http.StatusCreated {
				t.Fatalf("round %d, server %d: create: %d %s", round, i, code, text)
			}
			other := (i + 1) % 3
			if code, text := servertest.Get(t, servers[other], clients[other], "/apis/"+group+"/v1/things/"+name); code != http.StatusOK {
				t.Fatalf("round %d, server %d: get: %d %s", round, other, code, text)
			}
		}
	}
}

// TestServerBehind registers a server that does not take in a CRD. The CRD is served where it
// was created, but it is not established until the server has caught up or has gone.
func TestServerBehind(t *testing.T) {
	t.Parallel()
	db := etcdtest.Start(t)
	o := servertest.ShareEtcd(t, db.Endpoints())
	o.EtcdPrefix = "/shared"
	s := servertest.Start(t, o)
	c := servertest.Client(t, s, nil)
	for _, test := range []struct {
		name    string
		recover func(key string, revision int64)
	}{
		{"caught up", func(key string, revision int64) {
			if _, err := db.Put(t.Context(), key, fmt.Sprint(revision)); err != nil {
				t.Fatal(err)
			}
		}},
		{"gone", func(key string, _ int64) {
			if _, err := db.Delete(t.Context(), key); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			group := strings.ReplaceAll(test.name, " ", "-") + ".example.com"
			key := "espalier.dev/servers/shared/" + group
			if _, err := db.Put(t.Context(), key, "1"); err != nil {
				t.Fatal(err)
			}
			code, text := servertest.Exchange(t, c, http.MethodPost, s.URL()+servertest.CRDs, servertest.ThingCRD(group))
			if code != http.StatusCreated {
				t.Fatal(code, text)
			}
			if code, text := servertest.Get(t, s, c, "/apis/"+group+"/v1/things"); code != http.StatusOK {
				t.Error(code, text)
			}
			time.Sleep(100 * time.Millisecond)
			if servertest.IsEstablished(t, s, c, "things."+group) {
				t.Error("established although a server cannot serve it")
			}
			test.recover(key, 1<<40)
			servertest.Eventually(t, func() error {
				if !servertest.IsEstablished(t, s, c, "things."+group) {
					return errors.New("not established")
				}
				return nil
			})
		})
	}
}
