package servertest

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/client-go/rest"

	"espalier.dev/espaliertest"
	"espalier.dev/server/etcd"
)

// Cluster is an etcd with several servers.
type Cluster struct {
	*testing.T
	// Member is the etcd, and Etcd a client of it.
	Member *etcd.Member
	Etcd   *clientv3.Client
	config etcd.Config
}

// NewCluster starts an etcd.
func NewCluster(t *testing.T) *Cluster {
	t.Helper()
	dir, err := os.MkdirTemp("", "etcd") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	c := &Cluster{T: t, config: etcd.Config{Dir: dir, UnsafeNoFsync: true}}
	c.StartEtcd()
	t.Cleanup(func() { c.Member.Close() })
	if c.Etcd, err = clientv3.New(clientv3.Config{Endpoints: []string{c.Member.Endpoint()}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Etcd.Close() })
	return c
}

// StartEtcd starts the etcd again, after the caller has closed it.
func (c *Cluster) StartEtcd() {
	c.Helper()
	var err error
	if c.Member, err = etcd.Start(c.Context(), c.config); err != nil {
		c.Fatal(err)
	}
}

// EmptyEtcd starts the etcd without its data, after the caller has closed it.
func (c *Cluster) EmptyEtcd() {
	c.Helper()
	if err := os.RemoveAll(filepath.Join(c.config.Dir, "member")); err != nil {
		c.Fatal(err)
	}
	c.StartEtcd()
}

// Keys returns the keys below a prefix.
func (c *Cluster) Keys(prefix string) (keys []string) {
	c.Helper()
	resp, err := c.Etcd.Get(c.Context(), prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		c.Fatal(err)
	}
	for _, kv := range resp.Kvs {
		keys = append(keys, string(kv.Key))
	}
	return keys
}

// Edit changes the value that is stored under a key.
func (c *Cluster) Edit(key string, change func(map[string]any)) {
	c.Helper()
	resp, err := c.Etcd.Get(c.Context(), key)
	if err != nil || len(resp.Kvs) != 1 {
		c.Fatal(key, resp, err)
	}
	obj := map[string]any{}
	if err := json.Unmarshal(resp.Kvs[0].Value, &obj); err != nil {
		c.Fatal(err)
	}
	change(obj)
	c.Put(key, obj)
}

// Put stores a value under a key: bytes, or what marshals to JSON.
func (c *Cluster) Put(key string, obj any) {
	c.Helper()
	data, ok := obj.([]byte)
	if !ok {
		var err error
		if data, err = json.Marshal(obj); err != nil {
			c.Fatal(err)
		}
	}
	if _, err := c.Etcd.Put(c.Context(), key, string(data)); err != nil {
		c.Fatal(err)
	}
}

// Peer is one server of a cluster.
type Peer struct {
	*Cluster
	*espaliertest.Server
	Client *http.Client
}

// Start starts a server with flags.
func (c *Cluster) Start(flags ...string) *Peer {
	c.Helper()
	s := espaliertest.Start(c.T, espaliertest.WithFlags(append([]string{"--etcd-servers", c.Member.Endpoint()}, flags...)...))
	client, err := rest.HTTPClientFor(s.Config())
	if err != nil {
		c.Fatal(err)
	}
	return &Peer{Cluster: c, Server: s, Client: client}
}

// Apply stands for the method of a server-side apply.
const Apply = "APPLY"

// Send sends a request. It is safe for concurrent use.
func (p *Peer) Send(ctx context.Context, method, path string, body any) (Answer, error) {
	text, ok := body.(string)
	if !ok && body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return Answer{}, err
		}
		text = string(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, p.URL()+path, strings.NewReader(text))
	if err != nil {
		return Answer{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	switch method {
	case http.MethodPatch:
		req.Header.Set("Content-Type", "application/merge-patch+json")
	case Apply:
		req.Method = http.MethodPatch
		req.Header.Set("Content-Type", "application/apply-patch+yaml")
	}
	resp, err := p.Client.Do(req)
	if err != nil {
		return Answer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	a := Answer{Code: resp.StatusCode}
	if a.Body, err = io.ReadAll(resp.Body); err == nil {
		_ = json.Unmarshal(a.Body, &a.Object) // not every answer is an object
	}
	return a, err
}

// Want sends a request and checks the status code of the response.
func (p *Peer) Want(code int, method, path string, body any) Answer {
	p.Helper()
	a, err := p.Send(p.Context(), method, path, body)
	if err != nil {
		p.Fatal(err)
	}
	if a.Code != code {
		p.Fatalf("%s %s: got %d, want %d: %.500s", method, path, a.Code, code, a.Body)
	}
	return a
}

// Gone waits until a path is not found.
func (p *Peer) Gone(path string) {
	p.Helper()
	var a Answer
	for until := time.Now().Add(30 * time.Second); time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
		var err error
		if a, err = p.Send(p.Context(), http.MethodGet, path, nil); err != nil {
			p.Fatal(err)
		}
		if a.Code == http.StatusNotFound {
			return
		}
	}
	p.Fatalf("%s is still there: %s", path, a.Body)
}

// Await waits until a condition holds.
func (p *Peer) Await(so func() bool) {
	p.Helper()
	for until := time.Now().Add(30 * time.Second); !so(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(until) {
			p.Fatal("it does not happen")
		}
	}
}

// StopSoon stops a server and checks that this does not take long.
func (p *Peer) StopSoon() {
	p.Helper()
	done := make(chan error, 1)
	go func() { done <- p.Stop() }()
	select {
	case err := <-done:
		if err != nil {
			p.Error(err)
		}
	case <-time.After(30 * time.Second):
		p.Fatal("the server does not stop")
	}
}
