package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"espalier.dev/espaliertest"
	"espalier.dev/server/etcd/etcdtest"
)

// etcdServer is a server, and the etcd that has its objects.
type etcdServer struct {
	*espaliertest.Server
	etcd     *clientv3.Client
	endpoint string
}

func newEtcdServer(t *testing.T, options ...espaliertest.Option) *etcdServer {
	t.Helper()
	client := etcdtest.Start(t)
	endpoint := client.Endpoints()[0]
	return &etcdServer{espaliertest.Start(t, append(options, espaliertest.WithFlags("--etcd-servers="+endpoint))...), client, endpoint}
}

// snapshot saves a snapshot, as etcdctl does.
func (s *etcdServer) snapshot(t *testing.T) string {
	t.Helper()
	in, err := s.etcd.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }() // it is only read
	text, err := io.ReadAll(in)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "snapshot.db")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// request sends a request with a body of JSON, and returns the status, the answer and its headers.
func request(ctx context.Context, client *http.Client, method, url string, body []byte) (int, []byte, http.Header, error) {
	r, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return 0, nil, nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		r.Header.Set("Content-Type", "application/merge-patch+json")
	}
	resp, err := client.Do(r)
	if err != nil {
		return 0, nil, nil, err
	}
	defer func() { _ = resp.Body.Close() }() // it is only read
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, text, resp.Header, err
}
