package server_test

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/client-go/rest"

	"espalier.dev/espaliertest"
	"espalier.dev/server/keys"
	"espalier.dev/server/servertest"
)

// TestStateOfCluster starts a server with a snapshot of an etcd that has the keys of kube-apiserver,
// and nothing else: built-in objects in protobuf, CRDs and custom resources.
func TestStateOfCluster(t *testing.T) {
	t.Parallel()
	c := servertest.NewCluster(t)
	p := c.Start()
	p.Want(http.StatusCreated, http.MethodPost, servertest.CRDs, map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "notes.example.com"},
		"spec": map[string]any{"group": "example.com", "scope": "Namespaced", "names": map[string]any{"kind": "Note", "plural": "notes"},
			"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object"}}}}},
	})
	p.Want(http.StatusCreated, http.MethodPost, "/api/v1/namespaces", map[string]any{"metadata": map[string]any{"name": "shop"}})
	p.Want(http.StatusCreated, http.MethodPost, "/api/v1/namespaces/shop/configmaps", map[string]any{"metadata": map[string]any{"name": "mine"}, "data": map[string]any{"a": "b"}})
	p.Want(http.StatusCreated, http.MethodPost, "/apis/example.com/v1/namespaces/shop/notes",
		map[string]any{"apiVersion": "example.com/v1", "kind": "Note", "metadata": map[string]any{"name": "a"}})
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Etcd.Delete(t.Context(), keys.Own, clientv3.WithPrefix()); err != nil {
		t.Fatal(err)
	}
	stored, err := c.Etcd.Get(t.Context(), "/registry/configmaps/shop/mine")
	if err != nil || len(stored.Kvs) != 1 || !strings.HasPrefix(string(stored.Kvs[0].Value), "k8s\x00") {
		t.Fatalf("the config map is not stored as protobuf: %v, %v", stored, err)
	}
	file := filepath.Join(t.TempDir(), "snapshot.db")
	save(t, c.Etcd, file)

	again := &servertest.Peer{Cluster: c, Server: espaliertest.Start(t, espaliertest.WithState(file))}
	if again.Client, err = rest.HTTPClientFor(again.Config()); err != nil {
		t.Fatal(err)
	}
	got := again.Want(http.StatusOK, http.MethodGet, "/api/v1/namespaces/shop/configmaps/mine", nil)
	if data, _ := got.Object["data"].(map[string]any); data["a"] != "b" {
		t.Errorf("the config map is %s", got.Body)
	}
	again.Want(http.StatusOK, http.MethodGet, "/apis/example.com/v1/namespaces/shop/notes/a", nil)
	again.Want(http.StatusCreated, http.MethodPost, "/apis/example.com/v1/namespaces/shop/notes",
		map[string]any{"apiVersion": "example.com/v1", "kind": "Note", "metadata": map[string]any{"name": "b"}})
	// The server has made what it needs to delete a namespace and a CRD.
	again.Want(http.StatusOK, http.MethodDelete, "/api/v1/namespaces/shop", nil)
	again.Gone("/api/v1/namespaces/shop")
	again.Want(http.StatusOK, http.MethodDelete, servertest.CRDs+"/notes.example.com", nil)
	again.Gone(servertest.CRDs + "/notes.example.com")
}

// save writes a snapshot of etcd, as etcdctl does.
func save(t *testing.T, client *clientv3.Client, file string) {
	t.Helper()
	snapshot, err := client.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(f, snapshot); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}
