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

// A server whose objects are in etcd, as in production.
func ExampleWithEtcd() {
	server, err := espaliertest.Run(espaliertest.WithEtcd(), espaliertest.WithCRDs("testdata/crds"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(server.Stop())
	// Output: <nil>
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

// The answer of a create is lost: the client gets an error, but the object is stored. A test
// uses Inject, which removes the rules when the test ends.
func ExampleServer_InjectFaults() {
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
	trees := client.Resource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "trees"})

	faults, err := server.InjectFaults(espaliertest.Rule{
		Fault: espaliertest.LostAnswer, Verbs: []string{"create"}, Resource: "trees.example.com", First: 1,
	})
	if err != nil {
		log.Fatal(err)
	}
	oak := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Tree", "metadata": map[string]any{"name": "oak"},
	}}
	for range 2 {
		_, err = trees.Create(context.Background(), oak, metav1.CreateOptions{})
		fmt.Println(apierrors.ReasonForError(err))
	}
	fmt.Println(faults.Hits())
	// Output:
	// Timeout
	// AlreadyExists
	// 1
}

// Random faults come from a seed, which finds again what it has found.
func ExampleChaos() {
	_ = func(t *testing.T) { // TestController
		server := espaliertest.Start(t, espaliertest.WithCRDs("testdata/crds"))
		const seed = 1
		server.Inject(t, espaliertest.Chaos(seed, espaliertest.Profile{
			User: "system:serviceaccount:default:my-controller", Conflicts: 0.1, LostAnswers: 0.1, HeldEvents: 0.5,
		})...)
	}
	for _, profile := range espaliertest.Profiles() {
		fmt.Println(profile.Name)
	}
	// Output:
	// conflicts
	// outages
	// lost-answers
	// watches
	// stale-caches
	// everything
}

// Forks begin with the objects of a server, and do not see each other. A test uses Fork, which stops
// the fork when the test ends.
func ExampleServer_RunFork() {
	template, err := espaliertest.Run(espaliertest.WithCRDs("testdata/crds"))
	if err != nil {
		log.Fatal(err)
	}
	plant := func(s *espaliertest.Server, name string) dynamic.ResourceInterface {
		client, err := dynamic.NewForConfig(s.Config())
		if err != nil {
			log.Fatal(err)
		}
		trees := client.Resource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "trees"})
		if _, err := trees.Create(context.Background(), &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "example.com/v1", "kind": "Tree", "metadata": map[string]any{"name": name},
		}}, metav1.CreateOptions{}); err != nil {
			log.Fatal(err)
		}
		return trees
	}
	plant(template, "oak")
	for _, name := range []string{"elm", "fir"} {
		fork, err := template.RunFork()
		if err != nil {
			log.Fatal(err)
		}
		list, err := plant(fork, name).List(context.Background(), metav1.ListOptions{})
		if err != nil {
			log.Fatal(err)
		}
		for _, tree := range list.Items {
			fmt.Println(name, "has", tree.GetName())
		}
		if err := fork.Stop(); err != nil {
			log.Fatal(err)
		}
	}
	if err := template.Stop(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// elm has elm
	// elm has oak
	// fir has fir
	// fir has oak
}

// The state before a change shows why a controller has made it.
func ExampleServer_Before() {
	_ = func(t *testing.T, changed *unstructured.Unstructured) { // in a test that has received an object
		server := espaliertest.Start(t)
		client, err := dynamic.NewForConfig(server.Before(t, changed))
		if err != nil {
			t.Fatal(err)
		}
		_ = client // reads what was stored before the object was changed
	}
}

// A file has the objects that every test begins with.
func ExampleWithState() {
	_ = func(t *testing.T) {
		server := espaliertest.Start(t, espaliertest.WithState("testdata/state.db"))
		_ = server
	}
}
