package fence

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"

	"espalier.dev/server/etcd/memory"
)

var things = runtimeschema.GroupResource{Group: "example.com", Resource: "things"}

const (
	crdKey   = "/registry/apiextensions.k8s.io/customresourcedefinitions/things.example.com"
	thingKey = "/registry/example.com/things/default/a"
)

func newFences(t *testing.T) (*Fences, *kubernetes.Client) {
	t.Helper()
	db := memory.Open(memory.Config{})
	t.Cleanup(db.Close)
	client := &kubernetes.Client{Client: db.Client()}
	client.Kubernetes = client
	client.KV = linearizable{client.KV}
	t.Cleanup(func() { _ = client.Close() })
	f := New(Config{Client: client.Client, Root: "/registry/"})
	t.Cleanup(f.Close)
	return f, client
}

// linearizable fails transactions that a member of etcd would answer from its own data, which may be
// behind that of the others: those without any operation.
type linearizable struct{ clientv3.KV }

func (l linearizable) Txn(ctx context.Context) clientv3.Txn {
	return &linearizableTxn{Txn: l.KV.Txn(ctx)}
}

type linearizableTxn struct {
	clientv3.Txn
	ops int
}

func (t *linearizableTxn) If(c ...clientv3.Cmp) clientv3.Txn {
	t.Txn = t.Txn.If(c...)
	return t
}

func (t *linearizableTxn) Then(ops ...clientv3.Op) clientv3.Txn {
	t.Txn, t.ops = t.Txn.Then(ops...), t.ops+len(ops)
	return t
}

func (t *linearizableTxn) Else(ops ...clientv3.Op) clientv3.Txn {
	t.Txn, t.ops = t.Txn.Else(ops...), t.ops+len(ops)
	return t
}

func (t *linearizableTxn) Commit() (*clientv3.TxnResponse, error) {
	if t.ops == 0 {
		return nil, errors.New("a transaction without operations is not linearizable")
	}
	return t.Txn.Commit()
}

// crd is a stored CRD.
func crd(uid string, deleting bool) []byte {
	timestamp := ""
	if deleting {
		timestamp = `, "deletionTimestamp": "2020-01-01T00:00:00Z"`
	}
	return fmt.Appendf(nil, `{"metadata": {"uid": %q%s}}`, uid, timestamp)
}

// TestFence creates and deletes a CRD twice, while clients write its objects.
func TestFence(t *testing.T) {
	f, client := newFences(t)
	definitions := &definitions{Interface: client, kv: client.KV, fences: f}
	first := &objects{Interface: client, kv: client.KV, fence: f.key("1"), resource: things}
	second := &objects{Interface: client, kv: client.KV, fence: f.key("2"), resource: things}
	write := func(c kubernetes.Interface, key string, value []byte, revision int64) int64 {
		t.Helper()
		resp, err := c.OptimisticPut(t.Context(), key, value, revision, kubernetes.PutOptions{GetOnFailure: true})
		if err != nil || !resp.Succeeded {
			t.Fatal(resp, err)
		}
		return resp.Revision
	}
	fails := func(o *objects, key string, revision int64, is func(error) bool) {
		t.Helper()
		resp, err := o.OptimisticPut(t.Context(), key, []byte(`{}`), revision, kubernetes.PutOptions{})
		if !is(err) || resp.Succeeded {
			t.Error(resp, err)
		}
	}
	conflicts := func(o *objects, key string, revision int64) {
		t.Helper()
		resp, err := o.OptimisticPut(t.Context(), key, []byte(`{}`), revision, kubernetes.PutOptions{GetOnFailure: true})
		if err != nil || resp.Succeeded || resp.KV == nil {
			t.Error(resp, err)
		}
	}

	notFound := func(verb string) func(error) bool {
		return func(err error) bool {
			status := apierrors.APIStatus(nil)
			return apierrors.IsNotFound(err) && errors.As(err, &status) && status.Status().Details.RetryAfterSeconds == 0 && strings.Contains(err.Error(), "("+verb+" things.example.com ")
		}
	}
	fails(first, thingKey, 0, notFound("create")) // there is no CRD
	at := write(definitions, crdKey, crd("1", false), 0)
	thing := write(first, thingKey, []byte(`{}`), 0)
	conflicts(first, thingKey, 0)
	conflicts(first, thingKey, thing-1)
	if resp, err := first.OptimisticPut(t.Context(), thingKey+"b", []byte(`{}`), thing, kubernetes.PutOptions{GetOnFailure: true}); err != nil || resp.Succeeded || resp.KV != nil {
		t.Error("an object that is gone is updated:", resp, err)
	}
	thing = write(first, thingKey, []byte(`{"metadata": {}}`), thing)
	if left, _, err := f.Sweep(t.Context(), things, "1"); left != 1 || err != nil {
		t.Error("swept although the CRD is not being deleted:", left, err)
	}

	at = write(definitions, crdKey, crd("1", true), at)
	fails(first, thingKey+"b", 0, apierrors.IsForbidden)
	thing = write(first, thingKey, []byte(`{"metadata": {"finalizers": ["a/b"], "generation": 7}}`), thing)
	left, name, err := f.Sweep(t.Context(), things, "1")
	if left != 1 || name != "default/a" || err != nil {
		t.Error(left, name, err)
	}
	kv, err := client.Get(t.Context(), thingKey, kubernetes.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if m, err := readMetadata(kv.KV.Value); err != nil || m.DeletionTimestamp == nil || m.Generation != 8 || !strings.Contains(string(kv.KV.Value), `"deletionGracePeriodSeconds":0,`) {
		t.Errorf("%s %v", kv.KV.Value, err)
	}
	conflicts(first, thingKey, thing)

	resp, err := definitions.OptimisticDelete(t.Context(), crdKey, at-1, kubernetes.DeleteOptions{GetOnFailure: true})
	if err != nil || resp.Succeeded || resp.KV == nil {
		t.Error(resp, err)
	}
	if resp, err = definitions.OptimisticDelete(t.Context(), crdKey, at, kubernetes.DeleteOptions{}); err != nil || !resp.Succeeded {
		t.Error(resp, err)
	}
	if uids, err := f.UIDs(t.Context()); err != nil || len(uids) > 0 {
		t.Error(uids, err)
	}

	// The next CRD of that name finds the object that was left behind, and writers of the
	// first CRD cannot change it.
	write(definitions, crdKey, crd("2", false), 0)
	fails(first, thingKey+"b", 0, notFound("create"))
	fails(first, thingKey, kv.KV.ModRevision, notFound("update"))
	write(second, thingKey, []byte(`{}`), kv.KV.ModRevision)
	if left, _, err := f.Sweep(t.Context(), things, "1"); left != 1 || err != nil {
		t.Error("swept the objects of another CRD:", left, err)
	}
}

// TestAdopt creates the fences of CRDs that were written without.
func TestAdopt(t *testing.T) {
	f, client := newFences(t)
	o := &objects{Interface: client, kv: client.KV, fence: f.key("1"), resource: things}
	put, err := client.OptimisticPut(t.Context(), crdKey, crd("1", false), 0, kubernetes.PutOptions{})
	if err != nil {
		t.Fatal(err)
	}
	adopt := func(revision int64, deleting, want bool) {
		t.Helper()
		if got, err := f.Adopt(t.Context(), "things.example.com", "1", uint64(revision), deleting); got != want || err != nil {
			t.Error(got, err)
		}
	}
	adopt(put.Revision+1, false, false)
	if _, err := o.OptimisticPut(t.Context(), thingKey, nil, 0, kubernetes.PutOptions{}); !apierrors.IsNotFound(err) {
		t.Error(err)
	}
	adopt(put.Revision, false, true)
	if resp, err := o.OptimisticPut(t.Context(), thingKey, []byte("no JSON"), 0, kubernetes.PutOptions{}); err != nil || !resp.Succeeded {
		t.Error(resp, err)
	}
	adopted, err := client.KV.Get(t.Context(), f.key("1"))
	if err != nil {
		t.Fatal(err)
	}
	adopt(put.Revision, false, true)
	if again, err := client.KV.Get(t.Context(), f.key("1")); err != nil || again.Kvs[0].ModRevision != adopted.Kvs[0].ModRevision {
		t.Error("a fence that agrees is written again:", again, err)
	}
	adopt(put.Revision, true, true)
	if _, err := o.OptimisticPut(t.Context(), thingKey+"b", nil, 0, kubernetes.PutOptions{}); !apierrors.IsForbidden(err) {
		t.Error(err)
	}
	if left, _, err := f.Sweep(t.Context(), things, "1"); left != 0 || err != nil {
		t.Error(left, err)
	}
}

// TestSweepMany deletes more objects than one read returns.
func TestSweepMany(t *testing.T) {
	f, client := newFences(t)
	if _, err := client.KV.Put(t.Context(), f.key("1"), terminating); err != nil {
		t.Fatal(err)
	}
	const n = 3*pageSize + 1
	for i := range n {
		value := `{}`
		if i%pageSize == 0 {
			value = `{"metadata": {"finalizers": ["a/b"]}}`
		}
		if _, err := client.KV.Put(t.Context(), fmt.Sprintf("/registry/example.com/things/%05d", i), value); err != nil {
			t.Fatal(err)
		}
	}
	other := "/registry/example.com/thingsbeside/a"
	if _, err := client.KV.Put(t.Context(), other, `{}`); err != nil {
		t.Fatal(err)
	}
	if left, name, err := f.Sweep(t.Context(), things, "1"); left != 4 || name != "00000" || err != nil {
		t.Error(left, name, err)
	}
	if resp, err := client.Get(t.Context(), other, kubernetes.GetOptions{}); err != nil || resp.KV == nil {
		t.Error("swept another resource:", err)
	}
}

// TestSweepLarge deletes objects with finalizers that are almost too large for etcd.
func TestSweepLarge(t *testing.T) {
	f, client := newFences(t)
	if _, err := client.KV.Put(t.Context(), f.key("1"), terminating); err != nil {
		t.Fatal(err)
	}
	const prefix = "/registry/example.com/things/"
	put := func(name, format string, size int) {
		t.Helper()
		value := fmt.Sprintf(format, "")
		value = fmt.Sprintf(format, strings.Repeat("a", size-len(value)))
		if _, err := client.KV.Put(t.Context(), prefix+name, value); err != nil {
			t.Fatal(err)
		}
	}
	// The time of deletion does not fit.
	const almost = maxRequest - 64
	put("a", `{"metadata":{"finalizers":["a/b"]},"spec":"%s"}`, almost)
	put("b", `{"metadata":{"finalizers":["a/b"],"managedFields":[{"manager":"`+strings.Repeat("somebody", 64)+`"}]},"spec":"%s"}`, almost)
	for i := range 2 * pageSize {
		put(fmt.Sprintf("c%d", i), `{"metadata":{},"spec":"%s"}`, 100)
	}
	left, _, err := f.Sweep(t.Context(), things, "1")
	if !errors.Is(err, rpctypes.ErrRequestTooLarge) || !strings.Contains(err.Error(), "a: ") || left != 0 {
		t.Error(left, err)
	}
	resp, err := client.KV.Get(t.Context(), prefix, clientv3.WithPrefix())
	if err != nil || resp.Count != 2 {
		t.Fatal("the others are not deleted:", resp.Count, err)
	}
	if m, err := readMetadata(resp.Kvs[1].Value); err != nil || m.DeletionTimestamp == nil || strings.Contains(string(resp.Kvs[1].Value), "somebody") {
		t.Error("not marked as deleted:", m, err)
	}
	// When there is space again, the deletion goes on.
	put("a", `{"metadata":{"finalizers":["a/b"]},"spec":"%s"}`, 100)
	if left, name, err := f.Sweep(t.Context(), things, "1"); left != 2 || name != "a" || err != nil {
		t.Error(left, name, err)
	}
}

// TestRegistration writes the objects of a CRD with a server that is registered in etcd or not.
func TestRegistration(t *testing.T) {
	f, client := newFences(t)
	const server = "espalier.dev/servers/registry/1"
	crds := &definitions{Interface: client, kv: client.KV, fences: f}
	things := &objects{Interface: client, kv: client.KV, fences: f, fence: f.key("1"), resource: things, namespaced: true, registration: func() string { return server }}
	if resp, err := crds.OptimisticPut(t.Context(), crdKey, crd("1", false), 0, kubernetes.PutOptions{}); err != nil || !resp.Succeeded {
		t.Fatal(resp, err)
	}
	put := func(revision int64) (kubernetes.PutResponse, error) {
		return things.OptimisticPut(t.Context(), thingKey, []byte(`{}`), revision, kubernetes.PutOptions{GetOnFailure: true})
	}
	rejected := func(revision int64) {
		t.Helper()
		resp, err := put(revision)
		status := apierrors.APIStatus(nil)
		if resp.Succeeded || !apierrors.IsServiceUnavailable(err) || !errors.As(err, &status) || status.Status().Details.RetryAfterSeconds != 1 {
			t.Error(resp, err)
		}
	}
	rejected(0)
	if _, err := client.Put(t.Context(), server, "1"); err != nil {
		t.Fatal(err)
	}
	created, err := put(0)
	if err != nil || !created.Succeeded {
		t.Fatal(created, err)
	}
	if resp, err := put(0); err != nil || resp.Succeeded || resp.KV == nil {
		t.Error("an object is created twice:", resp, err)
	}
	if _, err := client.Delete(t.Context(), server); err != nil {
		t.Fatal(err)
	}
	rejected(created.Revision)
	rejected(0)
	if kv, err := client.Get(t.Context(), thingKey, kubernetes.GetOptions{}); err != nil || kv.KV == nil || kv.KV.ModRevision != created.Revision {
		t.Error("the object has changed:", kv, err)
	}
}
