package backend

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/api/apitesting"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apiserver/pkg/apis/example"
	examplev1 "k8s.io/apiserver/pkg/apis/example/v1"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/etcd3"
	storagetesting "k8s.io/apiserver/pkg/storage/testing"
	"k8s.io/apiserver/pkg/storage/value"
	"k8s.io/utils/clock"

	"espalier.dev/server/etcd"
	"espalier.dev/server/etcd/etcdtest"
	"espalier.dev/server/etcd/memory"
	"espalier.dev/store"
)

// podCodec is the codec of the suite's objects. It can be made to fail.
type podCodec struct {
	runtime.Codec
	fails atomic.Bool
}

func (c *podCodec) RoundTrips(runtime.Object, []byte) bool { return true }

func (c *podCodec) Decode(data []byte, gvk *runtimeschema.GroupVersionKind, into runtime.Object) (runtime.Object, *runtimeschema.GroupVersionKind, error) {
	if c.fails.Load() {
		return nil, nil, errInjected
	}
	return c.Codec.Decode(data, gvk, into)
}

var newPodCodec = sync.OnceValue(func() runtime.Codec {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, metav1.SchemeGroupVersion)
	utilruntime.Must(example.AddToScheme(scheme))
	utilruntime.Must(examplev1.AddToScheme(scheme))
	return apitesting.TestCodec(serializer.NewCodecFactory(scheme), examplev1.SchemeGroupVersion)
})

// errInjected is a failure that makes a value corrupt.
var errInjected = fmt.Errorf("an injected failure")

// transformer is a transformer of k8s.io/apiserver in the store.
type transformer struct{ value.Transformer }

func (t transformer) FromStorage(ctx context.Context, key string, data []byte) ([]byte, bool, error) {
	return t.TransformFromStorage(ctx, data, value.DefaultContext(key))
}

func (t transformer) ToStorage(ctx context.Context, key string, data []byte) ([]byte, error) {
	return t.TransformToStorage(ctx, data, value.DefaultContext(key))
}

// setup is a storage for the suite, on its own etcd.
type setup struct {
	*Storage
	t           testing.TB
	ctx         context.Context
	client      *clientv3.Client
	codec       *podCodec
	transformer value.Transformer
}

const storedPrefix = "test!"

// database starts an etcd for a test.
type database func(t testing.TB, ctx context.Context) store.Config

// databases returns those that the suite runs on.
func databases(short bool) map[string]database {
	if short {
		return map[string]database{"memory": onMemory}
	}
	return map[string]database{"etcd": onEtcd, "memory": onMemory}
}

func onEtcd(t testing.TB, ctx context.Context) store.Config {
	t.Helper()
	member, err := etcd.Start(ctx, etcd.Config{Dir: filepath.Join(t.TempDir(), "etcd"), UnsafeNoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(member.Close)
	client, err := etcd.Connect(ctx, etcd.Endpoints{URLs: []string{member.Endpoint()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return store.Config{Client: client}
}

func onMemory(t testing.TB, _ context.Context) store.Config {
	t.Helper()
	db := memory.Open(memory.Config{})
	t.Cleanup(db.Close)
	client := db.Client()
	t.Cleanup(func() { _ = client.Close() })
	return store.Config{Client: client, Watcher: db.NewWatcher()}
}

func newSetup(t testing.TB) *setup {
	if etcdtest.Everywhere() {
		return newSetupOn(t, onEtcd)
	}
	return newSetupOn(t, onMemory)
}

func newSetupOn(t testing.TB, db database) *setup {
	return newSetupWith(t, db, storagetesting.NewPrefixTransformer([]byte(storedPrefix), false))
}

func newSetupWith(t testing.TB, db database, tr value.Transformer) *setup {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	t.Cleanup(cancel)
	c := db(t, ctx)
	client := c.Client
	compactor := etcd3.NewCompactor(client, 0, clock.RealClock{}, nil)
	t.Cleanup(compactor.Stop)
	c.Prefix = "/"
	if tr != nil {
		c.Transformer = transformer{tr}
	}
	st, err := store.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(st.Close)
	codec := &podCodec{Codec: newPodCodec()}
	s := New(st, compactor.CompactRevision).New(Config{
		Resource: runtimeschema.GroupResource{Resource: "pods"},
		Codec:    codec,
		Prefix:   "/pods/",
		New:      func() runtime.Object { return &example.Pod{} },
	})
	<-st.Loaded()
	return &setup{Storage: s, t: t, ctx: ctx, client: client, codec: codec, transformer: tr}
}

// reload makes the store read everything anew, and waits for it.
func (s *setup) reload() {
	s.t.Helper()
	w, err := s.store.Watch("/", s.store.Revision())
	if err != nil {
		s.t.Fatal(err)
	}
	defer w.Stop()
	s.store.Reload()
	for err == nil {
		select {
		case <-w.Ready():
			_, _, err = w.Poll()
		case <-s.ctx.Done():
			err = s.ctx.Err()
		}
	}
}

// transform replaces the transformer and applies the new one to the index.
func (s *setup) transform(t value.Transformer) {
	s.t.Helper()
	s.store.SetTransformer(transformer{t})
	s.reload()
}

func (s *setup) UpdatePrefixTransformer(modify storagetesting.PrefixTransformerModifier) func() {
	// A copy would read the counter that the store is changing.
	s.transform(modify(storagetesting.NewPrefixTransformer([]byte(storedPrefix), false)))
	return func() { s.transform(s.transformer) }
}

func (s *setup) UpdateTransformer(modify storagetesting.TransformerModifier) func() {
	s.transform(modify(s.transformer))
	return func() { s.transform(s.transformer) }
}

// checkStored checks what is stored of an object.
func (s *setup) checkStored(ctx context.Context, t *testing.T, key string) {
	resp, err := s.client.Get(ctx, key)
	if err != nil || len(resp.Kvs) != 1 {
		t.Fatalf("%s: %v %v", key, resp, err)
	}
	obj, err := runtime.Decode(s.codec, resp.Kvs[0].Value[len(storedPrefix):])
	if err != nil {
		t.Fatal(err)
	}
	if pod := obj.(*example.Pod); pod.ResourceVersion != "" {
		t.Errorf("stored with %q", pod.ResourceVersion)
	}
}

// compact compacts etcd up to a revision, and waits until that is known.
func (s *setup) compact(ctx context.Context, t *testing.T, resourceVersion string) {
	revision, err := s.versioner.ParseResourceVersion(resourceVersion)
	if err != nil {
		t.Fatal(err)
	}
	version, _, _, err := etcd3.Compact(ctx, s.client, 0, int64(revision))
	if err != nil {
		_, _, _, err = etcd3.Compact(ctx, s.client, version, int64(revision))
	}
	for err == nil && s.CompactRevision() != int64(revision) {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// compactWindow compacts etcd and empties the window of events, which otherwise outlives a
// compaction.
func (s *setup) compactWindow(ctx context.Context, t *testing.T, resourceVersion string) {
	s.compact(ctx, t, resourceVersion)
	s.reload()
}

// increaseRevision writes a key outside of the resources.
func (s *setup) increaseRevision(ctx context.Context, t *testing.T) int64 {
	resp, err := s.client.Put(ctx, "increase", "")
	if err != nil {
		t.Fatal(err)
	}
	return resp.Header.Revision
}

// readOwnWrites is a setup whose writes wait until the index has them. Some tests of the suite
// expect that reads with resourceVersion 0 see what was written before, as without a cache.
type readOwnWrites struct{ *setup }

func (s readOwnWrites) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	if err := s.setup.Create(ctx, key, obj, out, ttl); err != nil {
		return err
	}
	return s.RequestWatchProgress(ctx)
}

func (s readOwnWrites) GuaranteedUpdate(ctx context.Context, key string, out runtime.Object, ignoreNotFound bool,
	preconditions *storage.Preconditions, update storage.UpdateFunc, suggestion runtime.Object) error {
	if err := s.setup.GuaranteedUpdate(ctx, key, out, ignoreNotFound, preconditions, update, suggestion); err != nil {
		return err
	}
	return s.RequestWatchProgress(ctx)
}

func (s *setup) keys(context.Context) (keys []string, err error) {
	for e := range s.store.Snapshot().Range("/pods/", "") {
		keys = append(keys, e.Key)
	}
	return keys, nil
}
