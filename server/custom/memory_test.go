package custom

import (
	"context"
	"net/http"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/registry/generic"

	"espalier.dev/crd"
	"espalier.dev/schema"
	"espalier.dev/server/backend"
	"espalier.dev/server/etcd/memory"
	"espalier.dev/store"
)

// memoryServer is a handler on an etcd in memory.
type memoryServer struct {
	http.Handler
	handler *Handler
	client  *clientv3.Client
	watcher func() clientv3.Watcher
	store   *store.Store
}

// newMemoryServer returns the handler of the CRDs of a source.
func newMemoryServer(t *testing.T, source Source, change func(*Config), plugins ...admission.Interface) *memoryServer {
	t.Helper()
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
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, runtimeschema.GroupVersion{Version: "v1"})
	storage := collected{sharedStorage{plainStorage{}, backend.New(st, nil)}}
	c := Config{
		Source: source, Store: st, Storage: func(*crd.Definition) generic.RESTOptionsGetter { return storage },
		Admission: func() admission.Interface { return admission.NewChainHandler(plugins...) }, Authorizer: authorizerfactory.NewAlwaysAllowAuthorizer(), Scheme: scheme,
		NotFound: http.NotFoundHandler(), MaxRequestBodyBytes: 3 << 20, RequestTimeout: writeTimeout, MinWatch: writeTimeout,
	}
	if change != nil {
		change(&c)
	}
	h, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return &memoryServer{Handler: asTester(h), handler: h, client: client, watcher: db.NewWatcher, store: st}
}

// collected is a storage whose objects a garbage collector deletes.
type collected struct{ generic.RESTOptionsGetter }

func (c collected) GetRESTOptions(gr runtimeschema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	o, err := c.RESTOptionsGetter.GetRESTOptions(gr, example)
	o.EnableGarbageCollection = true
	return o, err
}

// newWidgetServer returns the handler of widgets.
func newWidgetServer(t *testing.T, text string, semantics schema.Semantics, plugins ...admission.Interface) *memoryServer {
	t.Helper()
	return newMemoryServer(t, fixedSource{crd.NewCatalog(newWidgets(t, text, semantics))}, nil, plugins...)
}

// refreshedSource has other CRDs after a refresh.
type refreshedSource struct {
	catalog, after *crd.Catalog
	err            error
}

func (s *refreshedSource) Catalog() *crd.Catalog { return s.catalog }

func (s *refreshedSource) Refresh(context.Context, string) error {
	s.catalog = s.after
	return s.err
}
