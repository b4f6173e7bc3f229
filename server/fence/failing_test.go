package fence

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"

	"espalier.dev/server/etcd/memory"
	"espalier.dev/store"
)

// TestAdoptNamespacesFails checks that the start fails if a fence cannot be written or removed.
func TestAdoptNamespacesFails(t *testing.T) {
	t.Parallel()
	const namespace = `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"a"}}`
	for name, key := range map[string]func(f *Fences) string{
		"without a fence":     func(f *Fences) string { return f.root.Namespaces().Key("", "a") },
		"without a namespace": func(f *Fences) string { return f.namespaceFence("a") },
	} {
		f, client := newFences(t)
		if _, err := client.KV.Put(t.Context(), key(f), namespace); err != nil {
			t.Fatal(err)
		}
		f.client.KV = failing{f.client.KV}
		if err := f.AdoptNamespaces(t.Context()); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "namespace a") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for reads, want := range []string{"list the namespaces", "list the fences of namespaces"} {
		f, _ := newFences(t)
		f.client.KV = &once{unlisted{f.client.KV, reads}}
		if err := f.AdoptNamespaces(t.Context()); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// TestSweepFails checks that objects that could not be deleted are errors, and that nothing is
// reported as gone if objects cannot be listed.
func TestSweepFails(t *testing.T) {
	t.Parallel()
	f, client := newFences(t)
	for key, value := range map[string]string{f.key("1"): terminating, "/registry/example.com/things/a": `{}`, "/registry/example.com/things/b": `{}`} {
		if _, err := client.KV.Put(t.Context(), key, value); err != nil {
			t.Fatal(err)
		}
	}
	working := f.client.KV
	f.client.KV = failing{working}
	left, name, err := f.Sweep(t.Context(), things, "1")
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "could not issue all deletes: 2 objects, the first is ") || left != 0 || name != "" {
		t.Error(left, name, err)
	}
	f.client.KV = unlisted{working, 0}
	if left, name, err := f.Sweep(t.Context(), things, "1"); !errors.Is(err, context.Canceled) || left != 0 || name != "" {
		t.Error(left, name, err)
	}
	f.client.KV = &once{unlisted{working, 1}}
	if left, name, err := f.Sweep(t.Context(), things, "1"); !errors.Is(err, context.Canceled) || left != 0 || name != "" {
		t.Error(left, name, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	f.client.KV = working
	if _, _, err := f.Sweep(ended, things, "1"); err == nil {
		t.Error("swept after the end")
	}
}

// unlisted is an etcd in which reads fail after some.
type unlisted struct {
	clientv3.KV
	reads int
}

func (u unlisted) Get(context.Context, string, ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	return nil, context.Canceled
}

// once is an etcd in which all reads but the first fail.
type once struct{ unlisted }

func (o *once) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	if o.reads--; o.reads < 0 {
		return nil, context.Canceled
	}
	return o.KV.Get(ctx, key, opts...)
}

// TestUnencrypted checks that values that cannot be encrypted or decrypted are not written.
func TestUnencrypted(t *testing.T) {
	t.Parallel()
	f, client := newFences(t)
	broken := errors.New("broken")
	for key, value := range map[string]string{f.key("1"): terminating, "/registry/example.com/things/a": `{"metadata":{"finalizers":["a/b"]}}`} {
		if _, err := client.KV.Put(t.Context(), key, value); err != nil {
			t.Fatal(err)
		}
	}
	before := value(t, client, "/registry/example.com/things/a")
	for _, transformer := range []transform{{from: broken}, {to: broken}} {
		f.transformer = transformer
		if _, _, err := f.Sweep(t.Context(), things, "1"); !errors.Is(err, broken) || !strings.Contains(err.Error(), "a: ") || value(t, client, "/registry/example.com/things/a") != before {
			t.Errorf("%v: %v", transformer, err)
		}
	}
	f.transformer = transform{from: broken}
	d := &definitions{Interface: client, kv: client.KV, fences: f}
	if resp, err := d.OptimisticPut(t.Context(), crdKey, crd("1", false), 0, kubernetes.PutOptions{}); !errors.Is(err, broken) || resp.Succeeded || value(t, client, crdKey) != "" {
		t.Error(resp, err)
	}
	n := &namespaces{Interface: client, fences: f}
	if resp, err := n.OptimisticPut(t.Context(), f.root.Namespaces().Key("", "a"), []byte(`{}`), 0, kubernetes.PutOptions{}); !errors.Is(err, broken) || resp.Succeeded {
		t.Error(resp, err)
	}
}

// transform is a transformer that may fail.
type transform struct{ from, to error }

func (f transform) FromStorage(_ context.Context, _ string, data []byte) ([]byte, bool, error) {
	return data, false, f.from
}

func (f transform) ToStorage(_ context.Context, _ string, value []byte) ([]byte, error) {
	return value, f.to
}

// unread is an etcd whose objects cannot be read.
type unread struct{ kubernetes.Interface }

func (unread) Get(context.Context, string, kubernetes.GetOptions) (kubernetes.GetResponse, error) {
	return kubernetes.GetResponse{}, context.Canceled
}

// TestDeleteUnread checks that a CRD that cannot be read is not deleted: its fence is not known.
func TestDeleteUnread(t *testing.T) {
	t.Parallel()
	f, client := newFences(t)
	d := &definitions{Interface: client, kv: client.KV, fences: f}
	put, err := d.OptimisticPut(t.Context(), crdKey, crd("1", false), 0, kubernetes.PutOptions{})
	if err != nil {
		t.Fatal(err)
	}
	d.Interface = unread{client}
	if resp, err := d.OptimisticDelete(t.Context(), crdKey, put.Revision, kubernetes.DeleteOptions{}); !errors.Is(err, context.Canceled) || resp.Succeeded || value(t, client, crdKey) == "" {
		t.Error(resp, err)
	}
	f.client.KV = failing{f.client.KV}
	if ok, err := f.Adopt(t.Context(), "things.example.com", "1", uint64(put.Revision), true); ok || !errors.Is(err, context.Canceled) {
		t.Error(ok, err)
	}
}

// TestReadMetadata checks what is read of unusual texts.
func TestReadMetadata(t *testing.T) {
	t.Parallel()
	if m, err := readMetadata([]byte(`{"metadata":{"uid":"a"},"metadata":{"uid":"b"}}`)); err != nil || m.UID != "b" {
		t.Errorf("repeated: %v, %v", m, err)
	}
	if m, err := readMetadata([]byte(`{"metadata":{"uid":"a"},"metadata":{"generation":2}}`)); err != nil || m.UID != "a" || m.Generation != 2 {
		t.Errorf("repeated, with other fields: %v, %v", m, err)
	}
	if m, err := readMetadata([]byte(`{}`)); err != nil || m.UID != "" {
		t.Errorf("none: %v, %v", m, err)
	}
	for _, text := range []string{"", `[]`, `{"metadata":{"uid":"a"},`, `{"metadata":{"uid":5}}`} {
		if m, err := readMetadata([]byte(text)); err == nil {
			t.Errorf("%s: %v", text, m)
		}
	}
	// An object whose metadata cannot be read is deleted, whatever finalizers it seems to have.
	f, client := newFences(t)
	for key, value := range map[string]string{f.key("1"): terminating, "/registry/example.com/things/a": `{"metadata":{"finalizers":["a/b"],"generation":"x"}}`} {
		if _, err := client.KV.Put(t.Context(), key, value); err != nil {
			t.Fatal(err)
		}
	}
	if left, _, err := f.Sweep(t.Context(), things, "1"); left != 0 || err != nil {
		t.Error(left, err)
	}
	// Metadata that can be read, but not changed, is an error: its finalizers count.
	if _, err := client.KV.Put(t.Context(), "/registry/example.com/things/a", `{"metadata":{"finalizers":["a/b"]},"metadata":null}`); err != nil {
		t.Fatal(err)
	}
	if _, _, err := f.Sweep(t.Context(), things, "1"); err == nil || !strings.Contains(err.Error(), "a: mark as deleted: metadata is not an object") {
		t.Error(err)
	}
}

// TestNew checks what fences have with and without a store, and that etcd is compacted if it is
// configured.
func TestNew(t *testing.T) {
	t.Parallel()
	db := memory.Open(memory.Config{})
	t.Cleanup(db.Close)
	client := db.Client()
	t.Cleanup(func() { _ = client.Close() })
	st, err := store.Open(store.Config{Client: client, Watcher: db.NewWatcher(), Prefix: "/registry/"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(st.Close)
	<-st.Loaded()
	f := New(Config{Client: client, Root: "/registry/", Store: st})
	t.Cleanup(f.Close)
	if f.backend == nil || New(Config{Client: client}).backend != nil {
		t.Error("fences have a backend without a store, or none with it")
	}
	put, err := client.Put(t.Context(), "/registry/namespaces/present", string(namespace("present", false)))
	if err != nil {
		t.Fatal(err)
	}
	if err := st.Await(t.Context(), put.Header.Revision); err != nil {
		t.Fatal(err)
	}
	// The namespaces in the store are expected, unless all of them have to exist.
	for name, absent := range map[string]bool{"present": false, "absent": true} {
		for _, f.lifecycle = range []bool{true, false} {
			n := f.in("/registry/pods/", "/registry/pods/"+name+"/a")
			if n.name != name || n.fence != f.namespaceFence(name) || n.lifecycle != f.lifecycle || n.absent != (absent && !f.lifecycle) {
				t.Errorf("%s: %+v", name, n)
			}
		}
	}

	compacting := New(Config{Client: client, Root: "/registry/", Compaction: time.Millisecond})
	t.Cleanup(compacting.Close)
	for !errors.Is(err, rpctypes.ErrCompacted) {
		if _, err := client.Put(t.Context(), "/registry/x", ""); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
		_, err = client.Get(t.Context(), "/registry/x", clientv3.WithRev(put.Header.Revision))
	}
}
