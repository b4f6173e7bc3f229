package fence

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"espalier.dev/server/keys"
)

const namespaceKey = "/registry/namespaces/default"

// namespace is a stored namespace.
func namespace(name string, deleting bool) []byte {
	timestamp := ""
	if deleting {
		timestamp = `, "deletionTimestamp": "2020-01-01T00:00:00Z"`
	}
	return fmt.Appendf(nil, `{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": %q%s}}`, name, timestamp)
}

// value returns what is stored at a key, or "".
func value(t *testing.T, client *kubernetes.Client, key string) string {
	t.Helper()
	resp, err := client.Get(t.Context(), key, kubernetes.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if resp.KV == nil {
		return ""
	}
	return string(resp.KV.Value)
}

func isTerminating(err error) bool {
	return apierrors.IsForbidden(err) && apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) && strings.Contains(err.Error(), "default")
}

// TestNamespaceFence creates and deletes a namespace while clients create built-in objects and custom
// resources in it.
func TestNamespaceFence(t *testing.T) {
	t.Parallel()
	for _, lifecycle := range []bool{true, false} {
		t.Run(fmt.Sprintf("lifecycle %v", lifecycle), func(t *testing.T) {
			t.Parallel()
			f, client := newFences(t)
			f.lifecycle = lifecycle
			ns := &namespaces{Interface: client, fences: f}
			pods := &contents{Interface: client, fences: f, resource: corev1.Resource("pods"), prefix: "/registry/pods/"}
			custom := &objects{Interface: client, kv: client.KV, fences: f, fence: f.key("1"), resource: things, namespaced: true}
			if _, err := client.KV.Put(t.Context(), f.key("1"), active); err != nil {
				t.Fatal(err)
			}
			n := 0
			creates := func(is func(error) bool) {
				t.Helper()
				n++
				for prefix, c := range map[string]kubernetes.Interface{"/registry/pods/default/": pods, "/registry/example.com/things/default/": custom} {
					resp, err := c.OptimisticPut(t.Context(), fmt.Sprint(prefix, n), []byte("{}"), 0, kubernetes.PutOptions{})
					if ok := err == nil && resp.Succeeded && resp.Revision > 0; is == nil && !ok || is != nil && !is(err) {
						t.Errorf("%s%d: %v %v", prefix, n, resp, err)
					}
					if stored := value(t, client, fmt.Sprint(prefix, n)) != ""; stored != (is == nil) {
						t.Errorf("%s%d: stored: %v", prefix, n, stored)
					}
				}
			}
			if lifecycle {
				creates(apierrors.IsNotFound)
			} else {
				creates(nil) // no namespace is needed
			}
			put, err := ns.OptimisticPut(t.Context(), namespaceKey, namespace("default", false), 0, kubernetes.PutOptions{})
			if err != nil || !put.Succeeded || value(t, client, f.namespaceFence("default")) != active {
				t.Fatal(put, err)
			}
			creates(nil)
			// What exists is a conflict, not an error.
			for key, c := range map[string]kubernetes.Interface{fmt.Sprint("/registry/pods/default/", n): pods, fmt.Sprint("/registry/example.com/things/default/", n): custom} {
				resp, err := c.OptimisticPut(t.Context(), key, []byte("new"), 0, kubernetes.PutOptions{})
				if err != nil || resp.Succeeded || resp.KV == nil || string(resp.KV.Value) != "{}" {
					t.Error(key, resp, err)
				}
			}
			if resp, err := ns.OptimisticPut(t.Context(), namespaceKey, namespace("default", true), put.Revision-1, kubernetes.PutOptions{}); err != nil || resp.Succeeded || resp.KV == nil {
				t.Error("a conflict is written:", resp, err)
			}
			put, err = ns.OptimisticPut(t.Context(), namespaceKey, namespace("default", true), put.Revision, kubernetes.PutOptions{})
			if err != nil || !put.Succeeded || value(t, client, f.namespaceFence("default")) != terminating {
				t.Fatal(put, err)
			}
			creates(isTerminating)
			// Updates go on, so that finalizers can be removed.
			for key, c := range map[string]kubernetes.Interface{fmt.Sprint("/registry/pods/default/", n-1): pods, fmt.Sprint("/registry/example.com/things/default/", n-1): custom} {
				at, err := client.Get(t.Context(), key, kubernetes.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				if resp, err := c.OptimisticPut(t.Context(), key, []byte("changed"), at.KV.ModRevision, kubernetes.PutOptions{}); err != nil || !resp.Succeeded {
					t.Error(key, resp, err)
				}
			}
			if resp, err := ns.OptimisticDelete(t.Context(), namespaceKey, put.Revision-1, kubernetes.DeleteOptions{}); err != nil || resp.Succeeded || resp.KV == nil {
				t.Error("a conflict is deleted:", resp, err)
			}
			if resp, err := ns.OptimisticDelete(t.Context(), namespaceKey, put.Revision, kubernetes.DeleteOptions{}); err != nil || !resp.Succeeded || resp.Revision <= put.Revision {
				t.Error(resp, err)
			}
			if value(t, client, namespaceKey)+value(t, client, f.namespaceFence("default")) != "" {
				t.Error("the namespace or its fence is left")
			}
			if _, err := ns.OptimisticPut(t.Context(), namespaceKey, []byte("no namespace"), 0, kubernetes.PutOptions{}); err == nil || !strings.Contains(err.Error(), "write the namespace default") {
				t.Errorf("an unreadable namespace is written: %v", err)
			}
		})
	}
}

// TestAdoptNamespaces checks that the fences of namespaces that other programs have written agree
// with them.
func TestAdoptNamespaces(t *testing.T) {
	t.Parallel()
	f, client := newFences(t)
	for key, text := range map[string]string{
		"/registry/namespaces/new":          string(namespace("new", false)),
		"/registry/namespaces/deleting":     string(namespace("deleting", true)),
		"/registry/namespaces/recreated":    string(namespace("recreated", false)),
		"/registry/namespaces/same":         string(namespace("same", false)),
		"/registry/namespaces/unreadable":   "x",
		f.namespaceFence("recreated"):       terminating,
		f.namespaceFence("deleting"):        active,
		f.namespaceFence("same"):            active,
		f.namespaceFence("gone"):            active,
		"/registry/namespaces-beside/other": "x",
	} {
		if _, err := client.KV.Put(t.Context(), key, text); err != nil {
			t.Fatal(err)
		}
	}
	same, err := client.Get(t.Context(), f.namespaceFence("same"), kubernetes.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.AdoptNamespaces(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"new": active, "deleting": terminating, "recreated": active, "same": active, "unreadable": "", "gone": "", "other": ""} {
		if got := value(t, client, f.namespaceFence(name)); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if again, err := client.Get(t.Context(), f.namespaceFence("same"), kubernetes.GetOptions{}); err != nil || again.KV.ModRevision != same.KV.ModRevision {
		t.Error("a fence that agrees is written again:", again, err)
	}
	if txn, err := client.Txn(t.Context()).If(f.InNamespace("new")).Then(clientv3.OpGet("a")).Commit(); err != nil || !txn.Succeeded {
		t.Error(txn, err)
	}
	if txn, err := client.Txn(t.Context()).If(f.InNamespace("deleting")).Then(clientv3.OpGet("a")).Commit(); err != nil || txn.Succeeded {
		t.Error(txn, err)
	}
}

// TestLock checks that a write that holds a lock fails if another one has held it since, unless what
// was read is renewed.
func TestLock(t *testing.T) {
	t.Parallel()
	f, client := newFences(t)
	services := &contents{Interface: client, fences: f, resource: corev1.Resource("services"), prefix: "/registry/services/specs/"}
	if _, err := client.KV.Put(t.Context(), f.namespaceFence("default"), active); err != nil {
		t.Fatal(err)
	}
	entered, left, renewed := 0, 0, 0
	var renewal error
	lock := &Lock{Name: "services", Held: true,
		Enter: func(context.Context) (func(), error) { entered++; return func() { left++ }, nil }}
	lock.Renew = func(ctx context.Context) (int64, error) {
		renewed++
		resp, err := client.KV.Get(ctx, "x")
		if err != nil {
			return 0, err
		}
		return resp.Header.Revision, renewal
	}
	ctx := WithLock(t.Context(), lock)
	write := func(name string, revision int64) (kubernetes.PutResponse, error) {
		return services.OptimisticPut(ctx, "/registry/services/specs/default/"+name, []byte("{}"), revision, kubernetes.PutOptions{})
	}
	lock.Revision = 1 << 40
	a, err := write("a", 0)
	if err != nil || !a.Succeeded || entered != 1 || left != 1 || renewed != 0 {
		t.Fatal(a, err, entered, left, renewed)
	}
	// Exactly the last revision of the lock is new enough.
	lock.Revision = a.Revision
	if resp, err := write("b", 0); err != nil || !resp.Succeeded || renewed != 0 {
		t.Fatal(resp, err, renewed)
	}
	// An older one is renewed, for creates and updates.
	lock.Revision = a.Revision
	if resp, err := write("c", 0); err != nil || !resp.Succeeded || renewed != 1 || lock.Revision <= a.Revision {
		t.Fatal(resp, err, renewed)
	}
	lock.Revision = a.Revision
	if resp, err := write("a", a.Revision); err != nil || !resp.Succeeded || renewed != 2 {
		t.Fatal(resp, err, renewed)
	}
	// If it cannot be renewed, nothing is written.
	lock.Revision, renewal = a.Revision, ErrLocked
	if resp, err := write("d", 0); !errors.Is(err, ErrLocked) || resp.Succeeded || value(t, client, "/registry/services/specs/default/d") != "" {
		t.Error(resp, err)
	}
	// A conflict needs no renewal, and neither does an object that is gone.
	lock.Revision, renewal, renewed = a.Revision, nil, 0
	if resp, err := write("c", 1); err != nil || resp.Succeeded || resp.KV == nil || renewed != 0 {
		t.Error(resp, err, renewed)
	}
	if resp, err := write("gone", a.Revision); err != nil || resp.Succeeded || resp.KV != nil || renewed != 0 {
		t.Error(resp, err, renewed)
	}
	// Neither does a create that expects another fence of the namespace.
	f.lifecycle = false
	last, err := client.KV.Get(t.Context(), f.root.Lock("services"))
	if err != nil {
		t.Fatal(err)
	}
	lock.Revision = last.Kvs[0].ModRevision
	if resp, err := services.OptimisticPut(ctx, "/registry/services/specs/absent/a", []byte("{}"), 0, kubernetes.PutOptions{}); err != nil || !resp.Succeeded || renewed != 0 {
		t.Error(resp, err, renewed)
	}
	if entered != left {
		t.Error(entered, left)
	}
	// A write that holds no lock does not enter.
	lock.Held, entered = false, 0
	if resp, err := write("e", 0); err != nil || !resp.Succeeded || entered != 0 {
		t.Error(resp, err, entered)
	}
	lock.Held = true
	lock.Enter = func(context.Context) (func(), error) { return nil, context.Canceled }
	if resp, err := write("f", 0); !errors.Is(err, context.Canceled) || resp.Succeeded {
		t.Error(resp, err)
	}
}

// TestCRDSize checks which CRDs leave no space for what the server adds.
func TestCRDSize(t *testing.T) {
	t.Parallel()
	now, most := "2020-01-01T00:00:00Z", int(maxRequest-reserve)
	for _, test := range []struct {
		ctx  context.Context
		size int
		m    metadata
		ok   bool
	}{
		{t.Context(), most, metadata{}, true},
		{t.Context(), most + 1, metadata{}, false},
		{t.Context(), most + 1, metadata{DeletionTimestamp: &now}, true},
		{WithReserve(t.Context()), most + 1, metadata{}, true},
	} {
		err := checkSize(test.ctx, bytes.Repeat([]byte("a"), test.size), test.m)
		if (err == nil) != test.ok || err != nil && !apierrors.IsRequestEntityTooLargeError(err) {
			t.Errorf("%d bytes, %v: %v", test.size, test.m, err)
		}
	}
	f, client := newFences(t)
	d := &definitions{Interface: client, kv: client.KV, fences: f}
	large := append(crd("1", false), bytes.Repeat([]byte(" "), most)...)
	if resp, err := d.OptimisticPut(t.Context(), crdKey, large, 0, kubernetes.PutOptions{}); !apierrors.IsRequestEntityTooLargeError(err) || resp.Succeeded || value(t, client, crdKey) != "" {
		t.Error(resp, err)
	}
}

// TestUnreadable checks writes of CRDs without readable metadata: they have no fence.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	f, client := newFences(t)
	d := &definitions{Interface: client, kv: client.KV, fences: f}
	if resp, err := d.OptimisticPut(t.Context(), crdKey, []byte("x"), 0, kubernetes.PutOptions{}); err == nil || resp.Succeeded || !strings.Contains(err.Error(), "write the CRD things.example.com") {
		t.Error(resp, err)
	}
	// Such a CRD can be deleted, at its revision alone.
	put, err := client.KV.Put(t.Context(), crdKey, "x")
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := d.OptimisticDelete(t.Context(), crdKey, put.Header.Revision-1, kubernetes.DeleteOptions{}); err != nil || resp.Succeeded {
		t.Error(resp, err)
	}
	if resp, err := d.OptimisticDelete(t.Context(), crdKey, put.Header.Revision, kubernetes.DeleteOptions{}); err != nil || !resp.Succeeded || resp.Revision <= put.Header.Revision {
		t.Error(resp, err)
	}
	if value(t, client, crdKey) != "" {
		t.Error("the CRD is left")
	}
	// A write at another revision returns what is stored.
	if resp, err := d.OptimisticPut(t.Context(), crdKey, crd("1", false), 0, kubernetes.PutOptions{}); err != nil || !resp.Succeeded {
		t.Fatal(resp, err)
	}
	for _, get := range []bool{true, false} {
		resp, err := d.OptimisticPut(t.Context(), crdKey, crd("1", true), 1, kubernetes.PutOptions{GetOnFailure: get})
		if err != nil || resp.Succeeded || (resp.KV != nil) != get {
			t.Error(get, resp, err)
		}
	}
	if uids, err := f.UIDs(t.Context()); err != nil || len(uids) != 1 || !uids["1"] {
		t.Error(uids, err)
	}
	if !f.OfDefinition(crdKey) || !f.OfDefinition(f.key("1")) || f.OfDefinition(thingKey) || f.OfDefinition(namespaceKey) {
		t.Error("keys of CRDs and their fences are not told from others")
	}
	if got := f.Prefixes(); len(got) != 3 || got[0] != "/registry/" || !strings.HasPrefix(f.key("1"), got[1]) || !strings.HasPrefix(f.namespaceFence("a"), got[2]) {
		t.Error(got)
	}
}

// xor is a transformer that fails for the keys in broken.
type xor struct{ broken string }

func (x xor) FromStorage(_ context.Context, key string, data []byte) ([]byte, bool, error) {
	out, err := x.ToStorage(context.Background(), key, data)
	return out, false, err
}

func (x xor) ToStorage(_ context.Context, key string, data []byte) ([]byte, error) {
	if keys.Name(key) == x.broken {
		return nil, errors.New("no key")
	}
	out := bytes.Clone(data)
	for i := range out {
		out[i] ^= 0x55
	}
	return out, nil
}

// TestEncrypted checks that fences work with encrypted values, and that an object that cannot be
// decrypted is not deleted.
func TestEncrypted(t *testing.T) {
	t.Parallel()
	f, client := newFences(t)
	f.transformer = xor{broken: "broken"}
	put := func(key, text string) {
		t.Helper()
		stored, err := xor{}.ToStorage(t.Context(), key, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.KV.Put(t.Context(), key, string(stored)); err != nil {
			t.Fatal(err)
		}
	}
	const prefix = "/registry/example.com/things/default/"
	put(prefix+"plain", `{}`)
	put(prefix+"finalizer", `{"metadata": {"finalizers": ["a/b"]}}`)
	put(prefix+"deleted", `{"metadata": {"finalizers": ["a/b"], "deletionTimestamp": "2020-01-01T00:00:00Z"}}`)
	put(prefix+"broken", `{}`)
	if _, err := client.KV.Put(t.Context(), f.key("1"), terminating); err != nil {
		t.Fatal(err)
	}
	if left, _, err := f.Sweep(t.Context(), things, "1"); left != 0 || err == nil || !strings.Contains(err.Error(), "default/broken: no key") {
		t.Error(left, err)
	}
	if value(t, client, prefix+"plain") != "" || value(t, client, prefix+"broken") == "" {
		t.Error("the wrong objects are deleted")
	}
	for name, want := range map[string]string{"finalizer": "", "deleted": "2020-01-01T00:00:00Z"} {
		m, err := f.metadata(t.Context(), prefix+name, []byte(value(t, client, prefix+name)))
		if err != nil || m.DeletionTimestamp == nil || want != "" && *m.DeletionTimestamp != want || m.Generation != 0 {
			t.Error(name, m, err)
		}
	}
	if _, err := f.metadata(t.Context(), prefix+"broken", []byte("{}")); err == nil {
		t.Error("metadata that cannot be decrypted is read")
	}
	d := &definitions{Interface: client, kv: client.KV, fences: f}
	stored, err := xor{}.ToStorage(t.Context(), crdKey, crd("2", false))
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := d.OptimisticPut(t.Context(), crdKey, stored, 0, kubernetes.PutOptions{}); err != nil || !resp.Succeeded || value(t, client, f.key("2")) != active {
		t.Error(resp, err)
	}
}

// racing is an etcd in which another writer changes a key before each transaction.
type racing struct {
	clientv3.KV
	t   *testing.T
	key string
}

func (r racing) Txn(ctx context.Context) clientv3.Txn {
	if _, err := r.Put(ctx, r.key, string(crd("1", true))); err != nil {
		r.t.Error(err)
	}
	return r.KV.Txn(ctx)
}

// TestDeletionRace checks that a CRD that has just changed is not deleted, and neither is its fence.
func TestDeletionRace(t *testing.T) {
	t.Parallel()
	f, client := newFences(t)
	d := &definitions{Interface: client, kv: client.KV, fences: f}
	put, err := d.OptimisticPut(t.Context(), crdKey, crd("1", false), 0, kubernetes.PutOptions{})
	if err != nil {
		t.Fatal(err)
	}
	d.kv = racing{client.KV, t, crdKey}
	revision := put.Revision
	for _, get := range []bool{true, false} {
		resp, err := d.OptimisticDelete(t.Context(), crdKey, revision, kubernetes.DeleteOptions{GetOnFailure: get})
		if err != nil || resp.Succeeded || (resp.KV != nil) != get || value(t, client, crdKey) == "" || value(t, client, f.key("1")) != active {
			t.Error(get, resp, err)
		}
		revision = resp.Revision
	}
}

// failing is an etcd in which transactions fail.
type failing struct{ clientv3.KV }

func (f failing) Txn(context.Context) clientv3.Txn {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	return f.KV.Txn(ended)
}

// TestTransactionFails checks that a CRD whose transaction fails is not reported as deleted.
func TestTransactionFails(t *testing.T) {
	t.Parallel()
	f, client := newFences(t)
	d := &definitions{Interface: client, kv: client.KV, fences: f}
	put, err := d.OptimisticPut(t.Context(), crdKey, crd("1", false), 0, kubernetes.PutOptions{})
	if err != nil {
		t.Fatal(err)
	}
	d.kv = failing{client.KV}
	if resp, err := d.OptimisticDelete(t.Context(), crdKey, put.Revision, kubernetes.DeleteOptions{}); !errors.Is(err, context.Canceled) || resp.Succeeded || value(t, client, crdKey) == "" {
		t.Error(resp, err)
	}
}
