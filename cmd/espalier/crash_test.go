package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"
)

// crashRounds is the number of times that TestCrash kills the server.
const crashRounds = 24

// history records the writes of one object.
type history struct {
	// acknowledged is the last value that the server acknowledged, attempted the last value
	// that was sent. The server may store either. Zero stands for no object.
	acknowledged, attempted int64
}

// TestCrash repeatedly kills the server while clients write. After the restart, the server
// must have every acknowledged write, and no other objects.
func TestCrash(t *testing.T) {
	if testing.Short() {
		t.Skip("kills the server many times")
	}
	dir := t.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	var mu sync.Mutex
	histories := map[string]*history{}

	for round := range crashRounds {
		// A killed server does not remove its kubeconfig.
		if err := os.RemoveAll(kubeconfig); err != nil {
			t.Fatal(err)
		}
		p := serveProcess(t, "--data-dir", dir)
		p.ready(t, kubeconfig)
		config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
		if err != nil {
			t.Fatal(err)
		}
		config.QPS = -1
		client, err := dynamic.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		if round == 0 {
			installExample(t, client)
		}
		crontabs := client.Resource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "crontabs"}).Namespace("default")
		compare(t, crontabs, histories)

		ctx, cancel := context.WithCancel(t.Context())
		var writers sync.WaitGroup
		for w := range 4 {
			writers.Go(func() {
				for i := 0; ctx.Err() == nil; i++ {
					// Create some objects and update others.
					name := fmt.Sprintf("w%d-r%d-%d", w, round, i)
					if i%2 == 1 {
						name = fmt.Sprintf("w%d", w)
					}
					mu.Lock()
					h := histories[name]
					if h == nil {
						h = &history{}
						histories[name] = h
					}
					mu.Unlock()
					if err := write(ctx, crontabs, name, h); err != nil {
						// The result of this write is unknown: stop writing this object.
						if status := apierrors.APIStatus(nil); errors.As(err, &status) {
							t.Errorf("write %s: %v", name, err)
						}
						return
					}
				}
			})
		}
		time.Sleep(time.Duration(20+rand.IntN(150)) * time.Millisecond)
		if err := p.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		cancel()
		writers.Wait()
		p.exit(t)
	}
	if len(histories) < crashRounds {
		t.Errorf("only %d objects were written: too few to prove anything", len(histories))
	}
}

// write writes the next value of an object and records the result. Each object has a single
// writer.
func write(ctx context.Context, crontabs dynamic.ResourceInterface, name string, h *history) error {
	value := h.attempted + 1
	obj := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "CronTab",
		"metadata": map[string]any{"name": name},
		"spec":     map[string]any{"schedule": "0 3 * * *", "replicas": value},
	}}
	h.attempted = value
	var err error
	if h.acknowledged == 0 {
		_, err = crontabs.Create(ctx, obj, metav1.CreateOptions{})
	} else {
		_, err = crontabs.Apply(ctx, name, obj, metav1.ApplyOptions{FieldManager: "writer", Force: true})
	}
	if err == nil {
		h.acknowledged = value
	}
	return err
}

// compare compares the objects in the server with their histories.
func compare(t *testing.T, crontabs dynamic.ResourceInterface, histories map[string]*history) {
	t.Helper()
	list, err := crontabs.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]int64{}
	for _, obj := range list.Items {
		value, _, err := unstructured.NestedInt64(obj.Object, "spec", "replicas")
		if err != nil {
			t.Error(err)
		}
		if histories[obj.GetName()] == nil {
			t.Errorf("%s was never written", obj.GetName())
		}
		have[obj.GetName()] = value
	}
	for name, h := range histories {
		if value := have[name]; value != h.acknowledged && value != h.attempted {
			t.Errorf("%s is %d; %d was acknowledged and %d attempted", name, value, h.acknowledged, h.attempted)
		}
		// The result of the last attempt is known now.
		h.acknowledged = have[name]
	}
}

// installExample creates the CRD of the README's example.
func installExample(t *testing.T, client dynamic.Interface) {
	t.Helper()
	text, err := os.ReadFile("../../examples/crontab/crd.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var crd unstructured.Unstructured
	if err := yaml.Unmarshal(text, &crd.Object); err != nil {
		t.Fatal(err)
	}
	crds := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	if _, err := crds.Create(t.Context(), &crd, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}
