package builtin

import (
	"context"
	"fmt"
	"strconv"
	"sync"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"

	"espalier.dev/kinds"
	"espalier.dev/kinds/kind"
	"espalier.dev/server/keys"
	"espalier.dev/server/tokens"
	"espalier.dev/store"
)

// Reader reads the stored objects of Kubernetes' own kinds from memory. It needs no handler, so
// what a handler uses can read them: authentication, authorization, admission.
type Reader struct {
	// objects has all stored objects.
	objects *store.Store
	rules   func(*kinds.Resource) kind.Rules
	served  []*kinds.Resource
	// stored and byName are without those that are stored as another kind.
	stored map[runtimeschema.GroupVersionKind]*kinds.Resource
	byName map[runtimeschema.GroupResource]*kinds.Resource
	types  func() (*kinds.Scheme, error)

	mu        sync.Mutex
	encodings map[*kinds.Resource]*encoding
}

// encoding is how the objects of a resource are stored.
type encoding struct {
	newObject func() runtime.Object
	convertor *kinds.Converter
	codec     runtime.Codec
	// prefix is that of the keys.
	prefix keys.Prefix
}

// NewReader returns a reader. rules returns the rules of a resource, and served are the resources
// that the server serves.
func NewReader(objects *store.Store, rules func(*kinds.Resource) kind.Rules, served []*kinds.Resource) *Reader {
	r := &Reader{
		objects: objects, rules: rules, served: served,
		stored:    map[runtimeschema.GroupVersionKind]*kinds.Resource{},
		byName:    map[runtimeschema.GroupResource]*kinds.Resource{},
		encodings: map[*kinds.Resource]*encoding{},
	}
	for _, one := range kinds.All() {
		if one.IsStored() {
			r.stored[one.GroupVersionKind()] = one
			r.byName[one.GroupResource()] = one
		}
	}
	r.types = lazily(func() (*kinds.Scheme, error) { return kinds.NewScheme(r.setDefaults, kinds.Optional(served)) })
	return r
}

// setDefaults fills in the defaults of an object, if its kind is stored.
func (r *Reader) setDefaults(gvk runtimeschema.GroupVersionKind, obj kind.Object) {
	if req, ok := obj.(*authenticationv1.TokenRequest); ok {
		tokens.Default(req)
		return
	}
	resource := r.stored[gvk]
	if resource == nil {
		return
	}
	if f := r.rules(resource).Default; f != nil {
		f(obj)
	}
}

// Served returns the resources that the server serves.
func (r *Reader) Served() []*kinds.Resource { return r.served }

// encoding returns how the objects of a resource are stored, and makes it on first use.
func (r *Reader) encoding(of *kinds.Resource) (*encoding, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.encodings[of]; e != nil {
		return e, nil
	}
	types, err := r.types()
	if err != nil {
		return nil, err
	}
	newObject, err := creator(types, of.StoredKind())
	if err != nil {
		return nil, err
	}
	conv := &kinds.Converter{Scheme: types}
	if fields := r.rules(of).Fields; fields != nil {
		conv.Fields = map[string]bool{}
		for name := range fields(newObject().(kind.Object)) {
			conv.Fields[name] = true
		}
	}
	e := &encoding{newObject, conv, storageCodec(conv, of), keys.Root(r.objects.Prefix()).Builtin(of.GroupResource())}
	r.encodings[of] = e
	return e, nil
}

// creator returns a function that creates objects of a kind.
func creator(types *kinds.Scheme, gvk runtimeschema.GroupVersionKind) (func() runtime.Object, error) {
	if _, err := types.New(gvk); err != nil {
		return nil, err
	}
	return func() runtime.Object {
		obj, _ := types.New(gvk)
		return obj
	}, nil
}

// Get returns a stored object. If it is not in memory, it has been looked for in the newest state
// of etcd, so a client finds what it has just created.
func (r *Reader) Get(ctx context.Context, gr runtimeschema.GroupResource, namespace, name string) (runtime.Object, error) {
	e, err := r.byGroupResource(gr)
	if err != nil {
		return nil, err
	}
	key := e.prefix.Key(namespace, name)
	entry := r.objects.Get(key)
	if entry == nil {
		if _, err := r.objects.Sync(ctx); err != nil {
			return nil, err
		}
		if entry = r.objects.Get(key); entry == nil {
			return nil, apierrors.NewNotFound(gr, name)
		}
	}
	return e.decode(entry)
}

// List returns the stored objects of a resource, in one namespace or in all.
func (r *Reader) List(_ context.Context, gr runtimeschema.GroupResource, namespace string) (all []runtime.Object, err error) {
	e, err := r.byGroupResource(gr)
	if err != nil {
		return nil, err
	}
	for entry := range r.objects.Snapshot().Range(e.prefix.Scope(namespace), "") {
		obj, err := e.decode(entry)
		if err != nil {
			return nil, err
		}
		all = append(all, obj)
	}
	return all, nil
}

// Has reports whether there is such a resource.
func (r *Reader) Has(gr runtimeschema.GroupResource) bool { return r.byName[gr] != nil }

// StoredAs returns the resource as which the objects of a resource are stored: those of events.k8s.io as core events.
func (r *Reader) StoredAs(gr runtimeschema.GroupResource) runtimeschema.GroupResource {
	for _, one := range r.served {
		if one.GroupResource() != gr {
			continue
		}
		if stored := r.stored[one.StoredKind()]; stored != nil {
			return stored.GroupResource()
		}
	}
	return gr
}

// Decode decodes a stored object of a resource.
func (r *Reader) Decode(gr runtimeschema.GroupResource, entry *store.Entry) (runtime.Object, error) {
	e, err := r.byGroupResource(gr)
	if err != nil {
		return nil, err
	}
	return e.decode(entry)
}

// Convert converts an object to another version of its kind.
func (r *Reader) Convert(obj runtime.Object, to runtimeschema.GroupVersion) (runtime.Object, error) {
	types, err := r.types()
	if err != nil {
		return nil, err
	}
	return (&kinds.Converter{Scheme: types}).ConvertToVersion(obj, to)
}

// byGroupResource returns the encoding of the version of a resource that is stored.
func (r *Reader) byGroupResource(gr runtimeschema.GroupResource) (*encoding, error) {
	if one := r.byName[gr]; one != nil {
		return r.encoding(one)
	}
	return nil, fmt.Errorf("there is no resource %s", gr)
}

// decode decodes a stored object. Its resource version is not stored with it.
func (e *encoding) decode(entry *store.Entry) (runtime.Object, error) {
	if entry.Err != nil {
		return nil, entry.Err
	}
	obj := e.newObject()
	if _, _, err := e.codec.Decode(entry.Value, nil, obj); err != nil {
		return nil, err
	}
	m, err := meta.Accessor(obj)
	if err != nil {
		return nil, err
	}
	m.SetResourceVersion(strconv.FormatInt(entry.Revision, 10))
	return obj, nil
}
