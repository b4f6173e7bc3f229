package espaliertest_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"espalier.dev/espaliertest"
)

// TestMain starts a server for all tests of a package with Run. A test of its own uses
// Start, which also stops the server.
func Example() {
	server, err := espaliertest.Run(espaliertest.WithCRDs("testdata/crds"))
	if err != nil {
		log.Fatal(err)
	}
	defer func() {
		if err := server.Stop(); err != nil {
			log.Fatal(err)
		}
	}()
	client, err := dynamic.NewForConfig(server.Config())
	if err != nil {
		log.Fatal(err)
	}
	crontabs := client.Resource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "crontabs"}).Namespace("default")

	crontab := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1",
		"kind":       "CronTab",
		"metadata":   map[string]any{"name": "nightly"},
		"spec":       map[string]any{"schedule": "0 3 * * *", "privileged": true},
	}}
	created, err := crontabs.Create(context.Background(), crontab, metav1.CreateOptions{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(created.Object["spec"])

	crontab.Object["spec"] = map[string]any{"schedule": "at night"}
	crontab.SetName("daily")
	_, err = crontabs.Create(context.Background(), crontab, metav1.CreateOptions{})
	fmt.Println(err)
	// Output:
	// map[replicas:1 schedule:0 3 * * *]
	// CronTab.example.com "daily" is invalid: spec.schedule: Invalid value: "at night": spec.schedule in body should match '^(\S+ ){4}\S+$'
}

// A server for one test. It stops when the test ends.
func ExampleStart() {
	_ = func(t *testing.T) { // TestController
		server := espaliertest.Start(t, espaliertest.WithCRDs("testdata/crds"))
		if _, err := dynamic.NewForConfig(server.Config()); err != nil {
			t.Fatal(err)
		}
	}
}

// InstallCRDs accepts paths, YAML, file systems and objects.
func ExampleServer_InstallCRDs() {
	_ = func(t *testing.T) { // TestController
		server := espaliertest.Start(t)
		server.InstallCRDs(t, "testdata/crds", os.DirFS("testdata"), []byte(`{
			"apiVersion": "apiextensions.k8s.io/v1",
			"kind": "CustomResourceDefinition",
			"metadata": {"name": "notes.example.com"},
			"spec": {
				"group": "example.com",
				"scope": "Namespaced",
				"names": {"plural": "notes", "kind": "Note"},
				"versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]
			}}`))
	}
}

// AddUser returns a client configuration for another user.
func ExampleServer_AddUser() {
	_ = func(t *testing.T) { // TestForbidden
		server := espaliertest.Start(t, espaliertest.WithCRDs("testdata/crds"))
		client, err := dynamic.NewForConfig(server.AddUser(t, "alice", "developers"))
		if err != nil {
			t.Fatal(err)
		}
		trees := client.Resource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "trees"})
		if _, err := trees.List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("got %v", err)
		}
	}
}
