package clients

import (
	"context"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"espalier.dev/espaliertest"
)

// The CRD of the tests: with a status, a scale and a selectable field.
const (
	definitionFile = "../kubectl/testdata/crd.yaml"
	definitionName = "backups.storage.example.com"
)

var (
	backups = schema.GroupVersionResource{Group: "storage.example.com", Version: "v1", Resource: "backups"}
	backup  = backups.GroupVersion().WithKind("Backup")
)

// timeout bounds every wait in a test.
const timeout = time.Minute

// start starts a server with the CRD, and returns a context with a timeout.
func start(t *testing.T, opts ...espaliertest.Option) (context.Context, *espaliertest.Server) {
	t.Helper()
	server := espaliertest.Start(t, opts...)
	server.InstallCRDs(t, definitionFile)
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	t.Cleanup(cancel)
	return ctx, server
}

// dynamicClient returns a client for Backups in a namespace.
func dynamicClient(t *testing.T, server *espaliertest.Server) dynamic.ResourceInterface {
	t.Helper()
	client, err := dynamic.NewForConfig(server.Config())
	if err != nil {
		t.Fatal(err)
	}
	return client.Resource(backups).Namespace("default")
}

// newBackup returns a Backup to create.
func newBackup(name, target string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": backup.GroupVersion().String(), "kind": backup.Kind,
		"metadata": map[string]any{"name": name},
		"spec":     map[string]any{"target": target},
	}}
}

// create creates Backups with these names.
func create(ctx context.Context, t *testing.T, client dynamic.ResourceInterface, names ...string) {
	t.Helper()
	for _, name := range names {
		must(client.Create(ctx, newBackup(name, name), metav1.CreateOptions{}))(t)
	}
}

// must returns a function that returns value, or fails the test if there is an error.
func must[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// rejected checks that a call failed with a reason.
func rejected(t *testing.T, err error, reason metav1.StatusReason) {
	t.Helper()
	if apierrors.ReasonForError(err) != reason {
		t.Errorf("got %v, want an error because of %q", err, reason)
	}
}

// at returns the value at a path in an object, as text.
func at(obj *unstructured.Unstructured, path ...string) string {
	value, ok, err := unstructured.NestedFieldNoCopy(obj.Object, path...)
	if !ok || err != nil {
		return ""
	}
	return fmt.Sprint(value)
}

func equal[T comparable](t *testing.T, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}
