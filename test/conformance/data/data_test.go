package data

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apiextensions-apiserver/test/integration/fixtures"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"espalier.dev/espaliertest"
	"espalier.dev/server/etcd"
)

var (
	crds    = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	backups = schema.GroupVersionResource{Group: "storage.example.com", Version: "v1", Resource: "backups"}
)

const encryption = `
apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
- resources: ["*.*"]
  providers:
  - aesgcm: {keys: [{name: a, secret: YWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWE=}]}
  - identity: {}
`

// TestData fills an etcd with the reference, opens it with Espalier, reads, updates and
// deletes, and reads the result with the reference.
func TestData(t *testing.T) {
	file := filepath.Join(t.TempDir(), "encryption.yaml")
	if err := os.WriteFile(file, []byte(encryption), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, prefix string
		flags        []string
	}{
		{"plain", "{", nil},
		{"aesgcm", "k8s:enc:aesgcm:v1:a:", []string{"--encryption-provider-config=" + file}},
	} {
		t.Run(test.name, func(t *testing.T) { testData(t, test.prefix, test.flags) })
	}
}

func testData(t *testing.T, prefix string, flags []string) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	m, err := etcd.Start(ctx, etcd.Config{Dir: t.TempDir(), UnsafeNoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	flags = append([]string{"--etcd-servers=" + m.Endpoint()}, flags...)

	stop, reference := startReference(t, flags)
	install(ctx, t, reference, "../kubectl/testdata/crd.yaml")
	for name, finalizers := range map[string][]string{"a": nil, "b": {"example.com/wait"}, "c": nil} {
		if _, err := reference.Resource(backups).Namespace("default").Create(ctx, backup(name, finalizers), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	written := state(ctx, t, reference)
	stop()
	checkStored(ctx, t, m.Endpoint(), prefix)

	ours, err := espaliertest.Run(espaliertest.WithEtcd(), espaliertest.WithFlags(flags...))
	if err != nil {
		t.Fatal(err)
	}
	client := connect(t, ours.Config())
	if read := state(ctx, t, client); !reflect.DeepEqual(read, written) {
		t.Errorf("the reference has written\n%v\nEspalier reads\n%v", written, read)
	}
	objects := client.Resource(backups).Namespace("default")
	if _, err := objects.Patch(ctx, "a", types.MergePatchType, []byte(`{"metadata":{"labels":{"by":"espalier"}}}`), metav1.PatchOptions{}); err != nil {
		t.Error(err)
	}
	if err := objects.Delete(ctx, "c", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := objects.Create(ctx, backup("d", nil), metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
	read := state(ctx, t, client)
	if err := ours.Stop(); err != nil {
		t.Error(err)
	}
	checkStored(ctx, t, m.Endpoint(), prefix)

	// The reference starts to delete the CRD, and cannot finish because of a finalizer.
	stop, reference = startReference(t, flags)
	if again := state(ctx, t, reference); !reflect.DeepEqual(read, again) {
		t.Errorf("Espalier has written\n%v\nthe reference reads\n%v", read, again)
	}
	if err := reference.Resource(crds).Delete(ctx, "backups.storage.example.com", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	stop()
	ours, err = espaliertest.Run(espaliertest.WithEtcd(), espaliertest.WithFlags(flags...))
	if err != nil {
		t.Fatal(err)
	}
	client = connect(t, ours.Config())
	objects = client.Resource(backups).Namespace("default")
	if _, err := objects.Create(ctx, backup("late", nil), metav1.CreateOptions{}); err == nil {
		t.Error("created an object of a CRD that is being deleted")
	}
	if _, err := objects.Patch(ctx, "b", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		t.Error(err)
	}
	for {
		if _, err := client.Resource(crds).Get(ctx, "backups.storage.example.com", metav1.GetOptions{}); apierrors.IsNotFound(err) {
			break
		} else if ctx.Err() != nil {
			t.Fatal("the CRD is not deleted:", err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err := ours.Stop(); err != nil {
		t.Error(err)
	}
}

// startReference starts the server of k8s.io/apiextensions-apiserver.
func startReference(t *testing.T, flags []string) (stop func(), client dynamic.Interface) {
	t.Helper()
	stop, config, _, err := fixtures.StartDefaultServer(t, append([]string{"--etcd-prefix=/registry"}, flags...)...)
	if err != nil {
		t.Fatal(err)
	}
	return stop, connect(t, config)
}

func connect(t *testing.T, config *rest.Config) dynamic.Interface {
	t.Helper()
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// install creates a CRD and waits until it is served.
func install(ctx context.Context, t *testing.T, client dynamic.Interface, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	crd := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(text, &crd.Object); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Resource(crds).Create(ctx, crd, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for {
		if _, err = client.Resource(backups).Namespace("default").List(ctx, metav1.ListOptions{}); err == nil {
			return
		}
		if ctx.Err() != nil {
			t.Fatal("the CRD is not served:", err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// backup returns an object to create.
func backup(name string, finalizers []string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "storage.example.com/v1", "kind": "Backup",
		"metadata": map[string]any{"name": name}, "spec": map[string]any{"target": "target"},
	}}
	u.SetFinalizers(finalizers)
	return u
}

// state returns all CRDs and objects. A server may complete the status of a CRD when it starts,
// so only its identity and its spec count.
func state(ctx context.Context, t *testing.T, client dynamic.Interface) map[string]any {
	t.Helper()
	all := map[string]any{}
	for _, r := range []schema.GroupVersionResource{crds, backups} {
		list, err := client.Resource(r).List(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range list.Items {
			name := u.GetName()
			if r == crds {
				u.Object = map[string]any{"uid": u.GetUID(), "created": u.GetCreationTimestamp(), "spec": u.Object["spec"]}
			}
			all[r.Resource+"/"+name] = u.Object
		}
	}
	return all
}

// checkStored checks the beginning of all stored CRDs and objects.
func checkStored(ctx context.Context, t *testing.T, endpoint, prefix string) {
	t.Helper()
	client, err := etcd.Connect(ctx, etcd.Endpoints{URLs: []string{endpoint}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	for _, key := range []string{"/registry/apiextensions.k8s.io/customresourcedefinitions/", "/registry/storage.example.com/backups/default/"} {
		resp, err := client.Get(ctx, key, clientv3.WithPrefix())
		if err != nil || len(resp.Kvs) == 0 {
			t.Fatal("nothing is stored below", key, err)
		}
		for _, kv := range resp.Kvs {
			if len(kv.Value) < len(prefix) || string(kv.Value[:len(prefix)]) != prefix {
				t.Errorf("%s is stored as %.40q", kv.Key, kv.Value)
			}
		}
	}
}
