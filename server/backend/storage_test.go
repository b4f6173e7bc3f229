package backend

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"
)

// treeCodec is the codec of trees. It counts what it decodes.
type treeCodec struct {
	runtime.Codec
	decoded atomic.Int64
	panics  atomic.Bool
}

func (c *treeCodec) RoundTrips(runtime.Object, []byte) bool { return true }

func (c *treeCodec) Decode(data []byte, gvk *runtimeschema.GroupVersionKind, into runtime.Object) (runtime.Object, *runtimeschema.GroupVersionKind, error) {
	c.decoded.Add(1)
	if c.panics.Swap(false) {
		panic("a codec that panics once")
	}
	return c.Codec.Decode(data, gvk, into)
}

func newTrees(t *testing.T) (*setup, *treeCodec) {
	s := newSetup(t)
	codec := &treeCodec{Codec: unstructured.UnstructuredJSONScheme}
	s.Storage = s.New(Config{Resource: runtimeschema.GroupResource{Group: "g", Resource: "trees"}, Codec: codec, Prefix: "trees",
		New: func() runtime.Object { return &unstructured.Unstructured{} }})
	return s, codec
}

func newTree(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "g/v1", "kind": "Tree", "metadata": map[string]any{"name": name}, "spec": map[string]any{"n": int64(1)},
	}}
}

func TestWritesDecodeOnce(t *testing.T) {
	s, codec := newTrees(t)
	in, out := newTree("a"), &unstructured.Unstructured{}
	if err := s.Create(s.ctx, "/trees/a", in, out, 0); err != nil {
		t.Fatal(err)
	}
	if codec.decoded.Load() != 0 {
		t.Error("a created object was decoded")
	}
	if in.GetResourceVersion() != "" || out.GetResourceVersion() == "" {
		t.Errorf("resource versions %q and %q", in.GetResourceVersion(), out.GetResourceVersion())
	}
	if err := s.RequestWatchProgress(s.ctx); err != nil {
		t.Fatal(err)
	}
	stored := &unstructured.Unstructured{}
	if err := s.Get(s.ctx, "/trees/a", storage.GetOptions{}, stored); err != nil || !reflect.DeepEqual(stored, out) {
		t.Errorf("%v, want %v: %v", stored, out, err)
	}
	codec.decoded.Store(0)
	set := func(n int64) storage.UpdateFunc {
		return storage.SimpleUpdate(func(obj runtime.Object) (runtime.Object, error) {
			return obj, unstructured.SetNestedField(obj.(*unstructured.Unstructured).Object, n, "spec", "n")
		})
	}
	updated := &unstructured.Unstructured{}
	if err := s.GuaranteedUpdate(s.ctx, "/trees/a", updated, false, nil, set(2), nil); err != nil {
		t.Fatal(err)
	}
	if n := codec.decoded.Load(); n != 1 {
		t.Errorf("an update has decoded %d times", n)
	}
	if n, _, _ := unstructured.NestedInt64(updated.Object, "spec", "n"); n != 2 || updated.GetResourceVersion() <= out.GetResourceVersion() {
		t.Errorf("updated to %v", updated)
	}
	if err := s.RequestWatchProgress(s.ctx); err != nil {
		t.Fatal(err)
	}
	again := &unstructured.Unstructured{}
	if err := s.GuaranteedUpdate(s.ctx, "/trees/a", again, false, nil, set(2), nil); err != nil || !reflect.DeepEqual(again, updated) {
		t.Errorf("an update without change: %v, want %v: %v", again, updated, err)
	}
}

// TestReplace checks that a value replaces that of the expected revision only.
func TestReplace(t *testing.T) {
	s, codec := newTrees(t)
	out := &unstructured.Unstructured{}
	if err := s.Create(s.ctx, "/trees/a", newTree("a"), out, 0); err != nil {
		t.Fatal(err)
	}
	revision, err := strconv.ParseInt(out.GetResourceVersion(), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	out.SetResourceVersion("")
	out.SetLabels(map[string]string{"a": "b"})
	data, err := runtime.Encode(codec, out)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Replace(s.ctx, "/trees/a", data, revision); err != nil {
		t.Fatal(err)
	}
	if err := s.RequestWatchProgress(s.ctx); err != nil {
		t.Fatal(err)
	}
	got := &unstructured.Unstructured{}
	if err := s.Get(s.ctx, "/trees/a", storage.GetOptions{}, got); err != nil || got.GetLabels()["a"] != "b" {
		t.Errorf("%v: %v", got, err)
	}
	if err := s.Replace(s.ctx, "/trees/a", data, revision); !storage.IsConflict(err) {
		t.Errorf("an outdated revision: %v", err)
	}
	if err := s.Replace(s.ctx, "/trees/b", data, revision); !storage.IsNotFound(err) {
		t.Errorf("a missing object: %v", err)
	}
}

// TestOutdatedIndex writes without a pause, so that the index is often outdated.
func TestOutdatedIndex(t *testing.T) {
	s, _ := newTrees(t)
	if err := s.Create(s.ctx, "/trees/a", newTree("a"), nil, 0); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		err := s.GuaranteedUpdate(s.ctx, "/trees/a", &unstructured.Unstructured{}, false, nil, storage.SimpleUpdate(func(obj runtime.Object) (runtime.Object, error) {
			tree := obj.(*unstructured.Unstructured)
			n, _, _ := unstructured.NestedInt64(tree.Object, "spec", "n")
			if n != int64(i+1) {
				return nil, fmt.Errorf("n is %d in update %d", n, i)
			}
			return tree, unstructured.SetNestedField(tree.Object, n+1, "spec", "n")
		}), nil)
		if err != nil {
			t.Fatal(err)
		}
	}
	out := &unstructured.Unstructured{}
	if err := s.Delete(s.ctx, "/trees/a", out, nil, func(_ context.Context, obj runtime.Object) error {
		if n, _, _ := unstructured.NestedInt64(obj.(*unstructured.Unstructured).Object, "spec", "n"); n != 21 {
			return fmt.Errorf("n is %d in the deletion", n)
		}
		return nil
	}, nil, storage.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := s.Create(s.ctx, "/trees/a", newTree("a"), nil, 0); err != nil {
		t.Errorf("create after the deletion: %v", err)
	}
	if err := s.Create(s.ctx, "/trees/a", newTree("a"), nil, 0); !storage.IsExist(err) {
		t.Errorf("create of an object that exists: %v", err)
	}
}

// TestSharedObjects checks that many watches decode and encode an object once.
func TestSharedObjects(t *testing.T) {
	s, codec := newTrees(t)
	if err := s.Create(s.ctx, "/trees/a", newTree("a"), nil, 0); err != nil {
		t.Fatal(err)
	}
	if err := s.RequestWatchProgress(s.ctx); err != nil {
		t.Fatal(err)
	}
	const watches = 10
	var open []watch.Interface
	no := false
	for range watches {
		w, err := s.Watch(s.ctx, "/trees/", storage.ListOptions{Recursive: true, Predicate: storage.Everything, SendInitialEvents: &no})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
		open = append(open, w)
	}
	codec.decoded.Store(0)
	if err := s.Create(s.ctx, "/trees/b", newTree("b"), nil, 0); err != nil {
		t.Fatal(err)
	}
	var encoded atomic.Int64
	encode := func(obj runtime.Object, w io.Writer) error {
		encoded.Add(1)
		obj.(*unstructured.Unstructured).SetName("changed") // an encoder may
		return codec.Encode(obj, w)
	}
	var group sync.WaitGroup
	for _, w := range open {
		group.Go(func() {
			e := <-w.ResultChan()
			shared, ok := e.Object.(runtime.CacheableObject)
			if e.Type != watch.Added || !ok {
				t.Errorf("%s %T", e.Type, e.Object)
				return
			}
			var b bytes.Buffer
			if err := shared.CacheEncode("id", encode, &b); err != nil || !strings.Contains(b.String(), `"changed"`) {
				t.Errorf("%s: %v", b.String(), err)
			}
			if name := shared.GetObject().(*unstructured.Unstructured).GetName(); name != "b" {
				t.Errorf("the object was changed to %q", name)
			}
		})
	}
	group.Wait()
	if codec.decoded.Load() != 1 || encoded.Load() != 1 {
		t.Errorf("decoded %d times, encoded %d times", codec.decoded.Load(), encoded.Load())
	}
}

func TestKeptIsBounded(t *testing.T) {
	s, codec := newTrees(t)
	big := newTree("a")
	big.Object["spec"] = strings.Repeat("x", 1<<20)
	const n = 2 * keptBytes >> 20
	for i := range n {
		if err := s.Create(s.ctx, fmt.Sprintf("/trees/%02d", i), big, nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.RequestWatchProgress(s.ctx); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		for e := range s.store.Snapshot().Range("/trees/", "") {
			if _, err := s.shared(e, e.Revision); err != nil {
				t.Fatal(err)
			}
		}
	}
	if kept := s.kept.Len(); kept < n/4 || kept >= n/2 {
		t.Errorf("%d of %d objects are kept", kept, n)
	}
	last := s.store.Get(fmt.Sprintf("/trees/%02d", n-1))
	codec.decoded.Store(0)
	if obj, err := s.shared(last, last.Revision); err != nil || obj == nil || codec.decoded.Load() != 0 {
		t.Errorf("%v: the last object is not kept", err)
	}
}

// TestFailingConversion checks that lists and watches keep what a webhook has converted, and
// that a watch waits while it fails.
func TestFailingConversion(t *testing.T) {
	s := newSetup(t)
	s.calls = true
	s.config.Intact = func(err error) bool { return errors.Is(err, errInjected) }
	create := func(name string) {
		t.Helper()
		pod := &example.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if err := s.Create(s.ctx, "/pods/"+name, pod, nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	opts := storage.ListOptions{Recursive: true, Predicate: storage.Everything}
	list := func() (names []string, err error) {
		pods := &example.PodList{}
		err = s.GetList(s.ctx, "/pods/", opts, pods)
		for _, p := range pods.Items {
			names = append(names, p.Name)
		}
		return names, err
	}
	create("a")
	w, err := s.Watch(s.ctx, "/pods/", opts)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	if e := <-w.ResultChan(); e.Type != watch.Added {
		t.Fatal(e)
	}
	s.codec.fails.Store(true)
	if names, err := list(); err != nil || len(names) != 1 {
		t.Errorf("an object that was converted before: %v %v", names, err)
	}
	create("b")
	if names, err := list(); !errors.Is(err, errInjected) {
		t.Errorf("an object that cannot be converted: %v %v", names, err)
	}
	select {
	case e := <-w.ResultChan():
		t.Errorf("%v while the conversion fails", e)
	case <-time.After(2 * firstPause):
	}
	s.codec.fails.Store(false)
	if e := <-w.ResultChan(); e.Type != watch.Added || e.Object.(runtime.CacheableObject).GetObject().(*example.Pod).Name != "b" {
		t.Errorf("%v when the conversion works again", e)
	}
	if names, err := list(); err != nil || len(names) != 2 {
		t.Errorf("%v %v", names, err)
	}
}

func TestUnlimitedAtZero(t *testing.T) {
	s, _ := newTrees(t)
	s.config.UnlimitedAtZero = true
	for i := range 3 {
		if err := s.Create(s.ctx, fmt.Sprintf("/trees/%d", i), newTree("a"), nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	opts := storage.ListOptions{Recursive: true, Predicate: storage.Everything}
	opts.Predicate.Limit = 2
	for _, version := range []string{"", "0"} {
		opts.ResourceVersion = version
		list := &unstructured.UnstructuredList{}
		if err := s.GetList(s.ctx, "/trees/", opts, list); err != nil {
			t.Fatal(err)
		}
		if want := map[string]int{"": 2, "0": 3}[version]; len(list.Items) != want || (list.GetContinue() == "") != (want == 3) {
			t.Errorf("%d objects at %q, continue %q", len(list.Items), version, list.GetContinue())
		}
	}
}

// TestUndecodableIsNamed checks that a list and a watch fail with the key of a value that
// cannot be decoded, with and without the feature that reports all of them.
func TestUndecodableIsNamed(t *testing.T) {
	for _, unsafe := range []bool{false, true} {
		t.Run(fmt.Sprint(unsafe), func(t *testing.T) {
			unsafeDeletion(t, unsafe)
			s, _ := newTrees(t)
			if err := s.Create(s.ctx, "/trees/good", newTree("good"), nil, 0); err != nil {
				t.Fatal(err)
			}
			if _, err := s.client.Put(s.ctx, "/trees/bad", storedPrefix+"{"); err != nil {
				t.Fatal(err)
			}
			err := s.GetList(s.ctx, "/trees/", storage.ListOptions{Recursive: true, Predicate: storage.Everything}, &unstructured.UnstructuredList{})
			if err == nil || !strings.Contains(err.Error(), "/trees/bad") {
				t.Errorf("list: %v", err)
			}
			w, err := s.Watch(s.ctx, "/trees/", storage.ListOptions{Recursive: true, Predicate: storage.Everything})
			if err != nil {
				t.Fatal(err)
			}
			defer w.Stop()
			if e := <-w.ResultChan(); e.Type != watch.Error {
				t.Errorf("watch: %v", e)
			}
			if e, ok := <-w.ResultChan(); ok {
				t.Errorf("watch: %v after an error", e)
			}
			if err := s.Get(s.ctx, "/trees/bad", storage.GetOptions{}, &unstructured.Unstructured{}); storage.IsCorruptObject(err) != unsafe || err == nil {
				t.Errorf("get: %v", err)
			}
			keep := func(obj runtime.Object, _ storage.ResponseMeta) (runtime.Object, *uint64, error) {
				return obj, nil, nil
			}
			if err := s.GuaranteedUpdate(s.ctx, "/trees/bad", &unstructured.Unstructured{}, false, nil, keep, nil); storage.IsCorruptObject(err) != unsafe || err == nil {
				t.Errorf("update: %v", err)
			}
			err = s.Delete(s.ctx, "/trees/bad", &unstructured.Unstructured{}, nil, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{})
			if storage.IsCorruptObject(err) != unsafe || err == nil {
				t.Errorf("delete: %v", err)
			}
			err = s.Delete(s.ctx, "/trees/bad", &unstructured.Unstructured{}, nil, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{ExpectTransformOrDecodeError: true})
			if (err == nil) != unsafe {
				t.Errorf("delete a corrupt object: %v", err)
			}
		})
	}
}

// TestIntact checks that an object that only a failing conversion hides is not deleted as a
// corrupt one.
func TestIntact(t *testing.T) {
	unsafeDeletion(t, true)
	s := newSetup(t)
	s.config.Intact = func(err error) bool { return errors.Is(err, errInjected) }
	if err := s.Create(s.ctx, "/pods/a", &example.Pod{}, nil, 0); err != nil {
		t.Fatal(err)
	}
	s.codec.fails.Store(true)
	if err := s.Get(s.ctx, "/pods/a", storage.GetOptions{}, &example.Pod{}); !errors.Is(err, errInjected) || storage.IsCorruptObject(err) {
		t.Errorf("get: %v", err)
	}
	err := s.Delete(s.ctx, "/pods/a", &example.Pod{}, nil, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{ExpectTransformOrDecodeError: true})
	if !errors.Is(err, errInjected) {
		t.Errorf("delete: %v", err)
	}
}

func TestWatchEnds(t *testing.T) {
	s, _ := newTrees(t)
	ended := func(w watch.Interface) {
		t.Helper()
		for {
			select {
			case _, ok := <-w.ResultChan():
				if !ok {
					return
				}
			case <-time.After(30 * time.Second):
				t.Fatal("the watch has not ended")
			}
		}
	}
	ctx, cancel := context.WithCancel(s.ctx)
	opts := storage.ListOptions{Recursive: true, Predicate: storage.Everything}
	var open []watch.Interface
	for range 3 {
		w, err := s.Watch(ctx, "/trees/", opts)
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, w)
	}
	open[0].Stop()
	ended(open[0])
	cancel()
	ended(open[1])
	ended(open[2])
	w, err := s.Watch(s.ctx, "/trees/", opts)
	if err != nil {
		t.Fatal(err)
	}
	s.reload()
	e := <-w.ResultChan()
	if status, ok := e.Object.(*metav1.Status); !ok || status.Reason != metav1.StatusReasonExpired {
		t.Errorf("%v after lost events", e)
	}
	ended(w)
	w, err = s.Watch(s.ctx, "/trees/", opts)
	if err != nil {
		t.Fatal(err)
	}
	s.store.Close()
	ended(w)
	for until := time.Now().Add(30 * time.Second); s.watches.Load() != 0; {
		if time.Now().After(until) {
			t.Fatalf("%d watches are left", s.watches.Load())
		}
		time.Sleep(time.Millisecond)
	}
}

func TestLeases(t *testing.T) {
	s := newSetup(t)
	get := func(ttl uint64) int64 {
		t.Helper()
		id, err := s.leases.get(s.ctx, ttl)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	first := get(1000)
	if get(1000) != first || get(0) != 0 {
		t.Error("objects that expire at the same time do not share a lease")
	}
	if get(2000) == first {
		t.Error("objects that expire at different times share a lease")
	}
	first = get(1000)
	for range leaseObjects - 1 {
		if get(1000) != first {
			t.Fatal("the lease was not reused")
		}
	}
	if get(1000) == first {
		t.Error("too many objects share a lease")
	}
}
