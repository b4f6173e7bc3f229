package definitions

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage/storagebackend"

	"espalier.dev/api"
	"espalier.dev/api/codec"
	"espalier.dev/api/v1beta1"
	"espalier.dev/crd"
	"espalier.dev/schema"
	"espalier.dev/server/custom"
	"espalier.dev/server/etcd/memory"
	"espalier.dev/server/fence"
	"espalier.dev/server/keys"
	"espalier.dev/store"
)

// plainOptions are the storage options of all resources.
type plainOptions struct{}

func (plainOptions) GetRESTOptions(gr runtimeschema.GroupResource, _ runtime.Object) (generic.RESTOptions, error) {
	c := storagebackend.NewDefaultConfig("/registry", nil)
	return generic.RESTOptions{StorageConfig: c.ForResource(gr), ResourcePrefix: gr.Group + "/" + gr.Resource, DeleteCollectionWorkers: 1}, nil
}

// unit is Definitions on an etcd in memory, with a handler of resources but without a server.
type unit struct {
	*Definitions
	t       *testing.T
	client  *clientv3.Client
	kv      *faulty
	store   *store.Store
	handler *custom.Handler
}

// undecryptable is a transformer that fails for one name.
type undecryptable string

func (u undecryptable) FromStorage(_ context.Context, key string, data []byte) ([]byte, bool, error) {
	if strings.HasSuffix(key, "/"+string(u)) {
		return nil, false, errors.New("no key")
	}
	return data, false, nil
}

func (u undecryptable) ToStorage(_ context.Context, _ string, value []byte) ([]byte, error) {
	return value, nil
}

// newDB returns an etcd in memory that ends with the test.
func newDB(t *testing.T) *memory.DB {
	t.Helper()
	db := memory.Open(memory.Config{})
	t.Cleanup(db.Close)
	return db
}

// faulty is an etcd whose writes fail with err, or come after another one.
type faulty struct {
	clientv3.KV
	err    error
	before func() // called before each transaction
}

func (f *faulty) Txn(ctx context.Context) clientv3.Txn {
	if f.before != nil {
		f.before()
	}
	if f.err == nil {
		return f.KV.Txn(ctx)
	}
	return &faultyTxn{Txn: f.KV.Txn(ctx), err: f.err}
}

// faultyTxn is a transaction that fails if it could write.
type faultyTxn struct {
	clientv3.Txn
	err    error
	writes bool
}

func (t *faultyTxn) If(c ...clientv3.Cmp) clientv3.Txn { t.Txn = t.Txn.If(c...); return t }

func (t *faultyTxn) Then(ops ...clientv3.Op) clientv3.Txn {
	t.Txn, t.writes = t.Txn.Then(ops...), true
	return t
}

func (t *faultyTxn) Else(ops ...clientv3.Op) clientv3.Txn { t.Txn = t.Txn.Else(ops...); return t }

func (t *faultyTxn) Commit() (*clientv3.TxnResponse, error) {
	if t.writes {
		return nil, t.err
	}
	return t.Txn.Commit()
}

// newUnit returns Definitions that do not run yet.
func newUnit(t *testing.T, db *memory.DB, change func(*Config)) *unit {
	t.Helper()
	client := db.Client()
	t.Cleanup(func() { _ = client.Close() })
	kv := &faulty{KV: client.KV}
	client.KV = kv
	st, err := store.Open(store.Config{Client: client, Watcher: db.NewWatcher(), Prefix: "/registry/", MaxQueue: 64, Transformer: undecryptable("closed.example.com")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(st.Close)
	<-st.Loaded()
	fences := fence.New(fence.Config{Client: client, Root: "/registry/", Store: st})
	t.Cleanup(fences.Close)
	u := &unit{t: t, client: client, kv: kv, store: st}
	c := Config{Options: crd.Options{Semantics: schema.Kubernetes}, Storage: fences.Definitions(plainOptions{}), Fences: fences, Store: st,
		Handler: func() *custom.Handler { return u.handler }}
	if change != nil {
		change(&c)
	}
	if u.Definitions, err = New(c); err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, runtimeschema.GroupVersion{Version: "v1"})
	if u.handler, err = custom.New(custom.Config{
		Source: u, Fixed: []*custom.Fixed{u.Resource()}, Store: st, Scheme: scheme, NotFound: http.NotFoundHandler(), RequestTimeout: time.Minute, MaxRequestBodyBytes: 3 << 20,
		Storage: func(d *crd.Definition) generic.RESTOptionsGetter {
			return fences.Objects(plainOptions{}, d.GroupResource(), d.CRD().UID, d.Namespaced())
		},
		Admission: func() admission.Interface { return admission.NewChainHandler() }, Authorizer: authorizerfactory.NewAlwaysAllowAuthorizer(),
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(u.handler.Close)
	u.Subscribe(u.handler.Changed)
	return u
}

// run runs the Definitions until the test ends, or the returned function is called.
func (u *unit) run() (stop func()) {
	u.t.Helper()
	ctx, cancel := context.WithCancel(u.t.Context())
	done := make(chan error, 1)
	go func() { done <- u.Run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			u.t.Errorf("run: %v", err)
		}
	}
	u.t.Cleanup(stop)
	select {
	case <-u.Ready():
	case <-time.After(30 * time.Second):
		u.t.Fatal("not ready")
	}
	return stop
}

// internal returns the storage of CRDs.
func (u *unit) internal() *crdStorage {
	u.t.Helper()
	s, release, err := u.storage()
	if err != nil {
		u.t.Fatal(err)
	}
	u.t.Cleanup(release)
	return s
}

// encoded returns what is stored for a CRD.
func encoded(t *testing.T, c *api.CustomResourceDefinition) string {
	t.Helper()
	data, err := codec.Encode(c, v1beta1.APIVersion)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// put stores the value of a CRD as a server without fences does, and waits until it is in the store.
func (u *unit) put(name, value string) {
	u.t.Helper()
	if _, err := u.client.Put(u.t.Context(), u.crds.Key("", name), value); err != nil {
		u.t.Fatal(err)
	}
	u.sync()
}

func (u *unit) sync() {
	u.t.Helper()
	if _, err := u.store.Sync(u.t.Context()); err != nil {
		u.t.Fatal(err)
	}
}

// value returns what is stored at a key, or nothing.
func (u *unit) value(key string) string {
	u.t.Helper()
	found, err := u.client.Get(u.t.Context(), key)
	if err != nil {
		u.t.Fatal(err)
	}
	if len(found.Kvs) == 0 {
		return ""
	}
	return string(found.Kvs[0].Value)
}

// stored returns the stored CRD, or nil.
func (u *unit) stored(name string) *api.CustomResourceDefinition {
	u.t.Helper()
	value := u.value(u.crds.Key("", name))
	if value == "" {
		return nil
	}
	c, err := codec.DecodeLenient([]byte(value))
	if err != nil {
		u.t.Fatal(err)
	}
	return c
}

// fence returns the state of the fence of a CRD, or nothing.
func (u *unit) fence(uid string) string { return u.value(keys.Root("/registry/").Fences() + uid) }

// eventually waits until a condition holds.
func (u *unit) eventually(what string, holds func() bool) {
	u.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			u.t.Fatalf("waited in vain: %s", what)
		}
	}
}

// condition returns a condition of a stored CRD.
func (u *unit) condition(name string, of api.CustomResourceDefinitionConditionType) api.CustomResourceDefinitionCondition {
	u.t.Helper()
	if c := u.stored(name); c != nil {
		if found := crd.Condition(&c.Status, of); found != nil {
			return *found
		}
	}
	return api.CustomResourceDefinitionCondition{}
}

const widgets = "widgets.example.com"

// widgetsWith returns a valid CRD of widgets that was changed.
func widgetsWith(change func(*api.CustomResourceDefinition)) *api.CustomResourceDefinition {
	c := definitionOf()
	c.Generation, c.CreationTimestamp = 1, metav1.NewTime(time.Unix(1e9, 0))
	c.Spec.Names.ListKind, c.Spec.Names.Singular = "WidgetList", "widget"
	c.Spec.Versions[0].Schema = &api.CustomResourceValidation{OpenAPIV3Schema: &api.JSONSchemaProps{Type: api.StringOrArray{"object"}}}
	api.SetDefaults(c)
	if change != nil {
		change(c)
	}
	return c
}
