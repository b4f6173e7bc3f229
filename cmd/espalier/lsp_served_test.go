package main

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/cmd/espalier/internal/lsp"
	"espalier.dev/cmd/espalier/internal/source"
	"espalier.dev/schema"
)

// TestServedCRDs removes the cache that a session uses, and switches to another cluster that has the
// same address.
func TestServedCRDs(t *testing.T) {
	root := filepath.Join(t.TempDir(), "clusters")
	changes := 0
	c := newCRDsOfCluster(source.Cluster{}, root, func() { changes++ }, func(_ lsp.MessageType, _ bool, message string) { t.Error(message) })
	c.files = input.NewRepositories(t.Context(), "")
	config := &rest.Config{Host: "https://example.com"}
	c.open(t.Context(), config)
	text, err := yaml.YAMLToJSON([]byte(widgetCRD))
	if err != nil {
		t.Fatal(err)
	}
	update := source.Update{Complete: true, CRDs: []source.Object{{Name: "widgets.example.com", JSON: text}}}
	c.update(t.Context(), update)
	before := c.crds().of(schema.Kubernetes)
	c.update(t.Context(), update)
	if now := c.crds().of(schema.Kubernetes); len(before) != 1 || now[0] != before[0] || changes != 1 {
		t.Fatalf("got %v and %v after %d changes", before, now, changes)
	}

	if err := os.RemoveAll(root); err != nil {
		t.Fatal(err)
	}
	runtime.GC() // the CRD is not in memory anymore
	if _, err := before[0].base(); err == nil {
		t.Fatal("the CRD is read")
	}
	select {
	case <-c.lost:
	default:
		t.Error("the CRDs are not listed again")
	}
	c.update(t.Context(), update)
	now := c.crds().of(schema.Kubernetes)
	runtime.GC()
	if _, err := now[0].base(); err != nil || now[0] == before[0] || changes != 2 {
		t.Errorf("got %v after %d changes", err, changes)
	}

	other := rest.CopyConfig(config)
	other.CAData = []byte("another")
	c.open(t.Context(), other)
	if c.crds() != nil || changes != 3 {
		t.Errorf("got %v after %d changes", c.crds(), changes)
	}
	c.open(t.Context(), config)
	if now := c.crds().of(schema.Kubernetes); len(now) != 1 {
		t.Errorf("got %v", now)
	}
}
