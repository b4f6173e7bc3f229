package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"

	"espalier.dev/api"
)

// startCluster starts an etcd cluster of three members on loopback addresses and returns their
// URLs. Another process can take an address before its member listens: then it tries others.
func startCluster(t testing.TB) []string {
	t.Helper()
	for range 10 {
		urls, err := tryCluster(t)
		if err == nil {
			return urls
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			t.Fatal(err)
		}
	}
	t.Fatal("no free addresses for etcd")
	return nil
}

func tryCluster(t testing.TB) (urls []string, err error) {
	t.Helper()
	free := func() url.URL {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }()
		return url.URL{Scheme: "http", Host: l.Addr().String()}
	}
	const members = 3
	configs := make([]*embed.Config, members)
	var cluster []string
	for i := range configs {
		c := embed.NewConfig()
		c.Name = fmt.Sprint("member", i)
		c.Dir = filepath.Join(t.TempDir(), "etcd")
		c.LogLevel = "panic"
		c.UnsafeNoFsync = true
		c.ListenClientUrls, c.ListenPeerUrls = []url.URL{free()}, []url.URL{free()}
		c.AdvertiseClientUrls, c.AdvertisePeerUrls = c.ListenClientUrls, c.ListenPeerUrls
		cluster = append(cluster, c.Name+"="+c.AdvertisePeerUrls[0].String())
		configs[i] = c
	}
	var running []*embed.Etcd
	for _, c := range configs {
		c.InitialCluster = strings.Join(cluster, ",")
		e, err := embed.StartEtcd(c)
		if err != nil {
			for _, e := range running {
				e.Close()
			}
			return nil, err
		}
		running = append(running, e)
		urls = append(urls, c.AdvertiseClientUrls[0].String())
	}
	for _, e := range running {
		t.Cleanup(e.Close)
		select {
		case <-e.Server.ReadyNotify():
		case <-time.After(time.Minute):
			t.Fatal("etcd does not start")
		}
	}
	return urls, nil
}

// shareEtcd returns options for a server on an external etcd.
func shareEtcd(t testing.TB, urls []string) *Options {
	o := testOptions(t)
	o.Etcd.URLs = urls
	return o
}

// sharedCRD returns a CRD in a group of its own.
func sharedCRD(group string) string {
	return fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"things.%[1]s"},
"spec":{"group":"%[1]s","scope":"Cluster","names":{"plural":"things","kind":"Thing"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`, group)
}

// isEstablished reports whether a server says that a CRD is established.
func isEstablished(t testing.TB, s *Server, c *http.Client, name string) bool {
	t.Helper()
	code, text := get(t, s, c, crdsPath+"/"+name)
	if code != http.StatusOK {
		return false
	}
	var crd api.CustomResourceDefinition
	if err := json.Unmarshal([]byte(text), &crd); err != nil {
		t.Fatal(err)
	}
	for _, condition := range crd.Status.Conditions {
		if condition.Type == api.Established && condition.Status == api.ConditionTrue {
			return true
		}
	}
	return false
}

// TestServers runs three servers on three etcd members. Each CRD is created through one server
// and used through the others as soon as one of them says that it is established.
func TestServers(t *testing.T) {
	urls := startCluster(t)
	servers, clients := make([]*Server, 3), make([]*http.Client, 3)
	for i := range servers {
		servers[i] = startServer(t, shareEtcd(t, urls))
		clients[i] = client(t, servers[i], nil)
	}
	rounds := 100
	if testing.Short() {
		rounds = 10
	}
	for round := range rounds {
		group := fmt.Sprintf("g%d.example.com", round)
		creator := round % 3
		code, text := exchange(t, clients[creator], http.MethodPost, servers[creator].URL()+crdsPath, sharedCRD(group))
		if code != http.StatusCreated {
			t.Fatal(code, text)
		}
		reader := (creator + round/3) % 3
		eventually(t, func() error {
			if !isEstablished(t, servers[reader], clients[reader], "things."+group) {
				return errors.New("not established")
			}
			return nil
		})
		for i := range 3 {
			// The catalog behind discovery must have it: unlike a request for the resource,
			// discovery does not look it up in etcd.
			if code, text := get(t, servers[i], clients[i], "/apis/"+group+"/v1"); code != http.StatusOK || !strings.Contains(text, `"things"`) {
				t.Fatalf("round %d, server %d: discovery: %d %s", round, i, code, text)
			}
			name := fmt.Sprint("a", i)
			code, text := exchange(t, clients[i], http.MethodPost, servers[i].URL()+"/apis/"+group+"/v1/things",
				fmt.Sprintf(`{"apiVersion":"%s/v1","kind":"Thing","metadata":{"name":%q}}`, group, name))
			if code != http.StatusCreated {
				t.Fatalf("round %d, server %d: create: %d %s", round, i, code, text)
			}
			other := (i + 1) % 3
			if code, text := get(t, servers[other], clients[other], "/apis/"+group+"/v1/things/"+name); code != http.StatusOK {
				t.Fatalf("round %d, server %d: get: %d %s", round, other, code, text)
			}
		}
	}
}

// TestServerBehind registers a server that does not take in a CRD. The CRD is served where it
// was created, but it is not established until the server has caught up or has gone.
func TestServerBehind(t *testing.T) {
	m := startServer(t, testOptions(t)) // its etcd
	o := shareEtcd(t, m.db.endpoints.URLs)
	o.EtcdPrefix = "/shared"
	s := startServer(t, o)
	c := client(t, s, nil)
	for _, test := range []struct {
		name    string
		recover func(key string, revision int64)
	}{
		{"caught up", func(key string, revision int64) {
			if _, err := s.db.client.Put(t.Context(), key, fmt.Sprint(revision)); err != nil {
				t.Fatal(err)
			}
		}},
		{"gone", func(key string, _ int64) {
			if _, err := s.db.client.Delete(t.Context(), key); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			group := strings.ReplaceAll(test.name, " ", "-") + ".example.com"
			key := "espalier.dev/servers/shared/" + group
			if _, err := s.db.client.Put(t.Context(), key, "1"); err != nil {
				t.Fatal(err)
			}
			code, text := exchange(t, c, http.MethodPost, s.URL()+crdsPath, sharedCRD(group))
			if code != http.StatusCreated {
				t.Fatal(code, text)
			}
			if code, text := get(t, s, c, "/apis/"+group+"/v1/things"); code != http.StatusOK {
				t.Error(code, text)
			}
			time.Sleep(100 * time.Millisecond)
			if isEstablished(t, s, c, "things."+group) {
				t.Error("established although a server cannot serve it")
			}
			test.recover(key, 1<<40)
			eventually(t, func() error {
				if !isEstablished(t, s, c, "things."+group) {
					return errors.New("not established")
				}
				return nil
			})
		})
	}
}
