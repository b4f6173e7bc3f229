package espaliertest

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
)

// later is a CRD that is not there from the start.
const later = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: laters.example.com}
spec:
  group: example.com
  scope: Cluster
  names: {plural: laters, kind: Later}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
`

func TestReset(t *testing.T) {
	s := Start(t, WithCRDs("testdata/crds"))
	ctx := t.Context()
	client := kubernetes.NewForConfigOrDie(s.Config())
	dyn := dynamic.NewForConfigOrDie(s.Config())
	laters := dyn.Resource(runtimeschema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "laters"})
	events, err := trees(t, s.Config()).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()

	for round := range 3 {
		s.InstallCRDs(t, []byte(later))
		object := tree("oak")
		object.SetFinalizers([]string{"example.com/never"})
		if _, err := trees(t, s.Config()).Create(ctx, object, metav1.CreateOptions{}); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if _, err := laters.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "example.com/v1", "kind": "Later", "metadata": map[string]any{"name": "a"},
		}}, metav1.CreateOptions{}); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if _, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, metav1.CreateOptions{}); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		for _, namespace := range []string{"shop", "default"} {
			if _, err := client.CoreV1().ConfigMaps(namespace).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "mine", Finalizers: []string{"example.com/never"}}}, metav1.CreateOptions{}); err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
		}
		// What exists from the start is changed, and deleted.
		namespace, err := client.CoreV1().Namespaces().Get(ctx, "default", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		namespace.Labels["changed"] = "yes"
		if _, err := client.CoreV1().Namespaces().Update(ctx, namespace, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		crds := dyn.Resource(crdResource("v1"))
		if err := crds.Delete(ctx, "crontabs.example.com", metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}

		keep := round == 1
		if keep {
			s.Reset(t, KeepCRDs())
		} else {
			s.Reset(t)
		}

		list, err := trees(t, s.Config()).List(ctx, metav1.ListOptions{})
		if err != nil || len(list.Items) != 0 {
			t.Errorf("round %d: the custom resources are %v, %v", round, list, err)
		}
		if got, err := laters.List(ctx, metav1.ListOptions{}); keep && (err != nil || len(got.Items) != 0) || !keep && !apierrors.IsNotFound(err) {
			t.Errorf("round %d: the custom resources of the later CRD are %v, %v", round, got, err)
		}
		if _, err := client.CoreV1().Namespaces().Get(ctx, "shop", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("round %d: the namespace is there: %v", round, err)
		}
		for _, namespace := range []string{"shop", "default"} {
			if _, err := client.CoreV1().ConfigMaps(namespace).Get(ctx, "mine", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				t.Errorf("round %d: the config map is there: %v", round, err)
			}
		}
		if namespace, err = client.CoreV1().Namespaces().Get(ctx, "default", metav1.GetOptions{}); err != nil || namespace.Labels["changed"] != "" {
			t.Errorf("round %d: the namespace default is %v, %v", round, namespace, err)
		}
		for _, want := range []watch.EventType{watch.Added, watch.Deleted} {
			select {
			case e := <-events.ResultChan():
				if e.Type != want {
					t.Errorf("round %d: the event is %v", round, e)
				}
			case <-time.After(time.Minute):
				t.Fatalf("round %d: no event %s", round, want)
			}
		}
	}
	// CRDs of the start are back.
	if _, err := dyn.Resource(crdResource("v1")).Get(ctx, "crontabs.example.com", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}

// TestManyServers runs servers at the same time, and makes sure that nothing of them is left.
// ESPALIER_SERVERS is their number.
func TestManyServers(t *testing.T) {
	n := 5
	if text := os.Getenv("ESPALIER_SERVERS"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	one := func() error {
		s, err := Run(WithCRDs("testdata/crds"))
		if err != nil {
			return err
		}
		config := s.Config()
		_, err = trees(t, config).Create(t.Context(), tree("oak"), metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("%w; stop: %v", err, s.Stop())
		}
		return s.Stop()
	}
	if err := one(); err != nil { // starts what the process starts once
		t.Fatal(err)
	}
	goroutines, files := runtime.NumGoroutine(), openFiles(t)
	began := time.Now()
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			if err := one(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	t.Logf("%d servers in %v", n, time.Since(began))
	// Connections of clients, and goroutines that are ending.
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		nowGoroutines, nowFiles := runtime.NumGoroutine(), openFiles(t)
		if nowGoroutines <= goroutines && nowFiles <= files {
			break
		}
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<20)
			t.Fatalf("%d goroutines, not %d; %d open files, not %d:\n%s", nowGoroutines, goroutines, nowFiles, files, stacks[:runtime.Stack(stacks, true)])
		}
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("files are left: %v, %v", left, err)
	}
}

// openFiles returns the number of open files, or zero if the system does not tell.
func openFiles(t *testing.T) int {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(files)
}

// TestResetLarge resets more data than fits into a transaction of etcd.
func TestResetLarge(t *testing.T) {
	if testing.Short() {
		t.Skip("large CRDs")
	}
	var crds []any
	for i := range 5 {
		name := fmt.Sprintf("large%d", i)
		text := strings.ReplaceAll(strings.ReplaceAll(later, "laters", name+"s"), "Later", "Large"+strconv.Itoa(i))
		crds = append(crds, []byte(strings.Replace(text, "type: object", "type: object, description: "+strings.Repeat("x", 500_000), 1)))
	}
	s := Start(t, WithCRDs(crds...))
	client := dynamic.NewForConfigOrDie(s.Config()).Resource(crdResource("v1"))
	if err := client.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	s.Reset(t)
	list, err := client.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != len(crds) {
		t.Errorf("%v: %d CRDs", err, len(list.Items))
	}
}
