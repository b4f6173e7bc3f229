// Package objects gives controllers access to the stored objects of all resources: those of
// Kubernetes' own kinds, custom resources and CRDs.
package objects

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/endpoints/handlers"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"espalier.dev/crd"
	"espalier.dev/kinds"
	"espalier.dev/server/keys"
	"espalier.dev/store"
)

// Config configures Objects.
type Config struct {
	Store *store.Store
	// Kinds has the storage of Kubernetes' own kinds, Custom that of custom resources and of
	// CRDs.
	Kinds  Kinds
	Custom interface {
		// Scoped returns the storage of a CRD's objects, in a version, and the scope of requests
		// for them. The caller must call release when it is done.
		Scoped(d *crd.Definition, version string) (s rest.StandardStorage, scope *handlers.RequestScope, release func(), err error)
		// Mutate runs mutating admission plugins on one of them, as for the request of a client.
		Mutate(ctx context.Context, d *crd.Definition, version string, plugins admission.MutationInterface, a admission.Attributes) error
	}
	// Definition describes the resource of CRDs.
	Definition *crd.Definition
	// Catalog returns the newest catalog.
	Catalog func() *crd.Catalog
	// Remote reports whether another server serves a group and version, so that its objects are not
	// those that are stored here. nil means that none does.
	Remote func(runtimeschema.GroupVersion) bool
	// Admission admits the requests of controllers; nil means that all are.
	Admission admission.Interface
}

// Kinds has Kubernetes' own kinds.
type Kinds interface {
	// Scoped returns the storage of a resource, and the scope of requests for it.
	Scoped(runtimeschema.GroupVersionResource) (rest.StandardStorage, *handlers.RequestScope, error)
	// Subresource returns a subresource that updates objects.
	Subresource(r runtimeschema.GroupVersionResource, name string) (rest.Patcher, error)
	// Decode decodes a stored object.
	Decode(runtimeschema.GroupResource, *store.Entry) (runtime.Object, error)
}

// Objects are the stored objects of all resources. It is safe for concurrent use.
type Objects struct {
	Config
	root keys.Root
	// directories are the resources that are not custom, by their directories below the root.
	directories map[string]*Resource
	kinds       map[runtimeschema.GroupVersionKind]*Resource
}

// Resource is a resource whose objects are stored.
type Resource struct {
	runtimeschema.GroupVersionResource
	Namespaced bool
	Prefix     keys.Prefix
	// definition is the CRD, or nil.
	definition *crd.Definition
}

// ErrUnknown is returned for a resource that the server does not have, or does not have yet.
var ErrUnknown = errors.New("the resource is not known")

// New returns new Objects.
func New(c Config) *Objects {
	o := &Objects{Config: c, root: keys.Root(c.Store.Prefix()), directories: map[string]*Resource{},
		kinds: map[runtimeschema.GroupVersionKind]*Resource{}}
	for _, r := range kinds.Resources() {
		if r.CreateOnly {
			continue
		}
		directory := keys.BuiltinDirectory(r.GroupResource())
		one := o.directories[directory]
		if one == nil || r.Stored.Kind == "" {
			one = &Resource{GroupVersionResource: r.GroupVersionResource(),
				Namespaced: r.Namespaced, Prefix: o.root.Builtin(r.GroupResource())}
			o.directories[directory] = one
		}
		o.kinds[r.GroupVersionKind()] = one
	}
	crds := o.custom(c.Definition, c.Definition.Storage())
	o.directories[keys.BuiltinDirectory(crds.GroupResource())] = crds
	o.kinds[c.Definition.Storage().GroupVersionKind()] = crds
	return o
}

// custom returns the resource of a CRD, in the version that is stored.
func (o *Objects) custom(d *crd.Definition, stored *crd.Version) *Resource {
	gr := d.GroupResource()
	return &Resource{
		GroupVersionResource: gr.WithVersion(stored.Name()), Namespaced: d.Namespaced(),
		Prefix: o.root.Custom(gr), definition: d,
	}
}

// Named returns the resource of custom resources with a CRD of that name, or nil if it is not
// loaded.
func (o *Objects) Named(name string) *Resource {
	d := o.Catalog().Get(name)
	if d == nil || d.Storage() == nil {
		return nil
	}
	return o.custom(d, d.Storage())
}

// Lookup returns the resource of a name, or nil if there is none.
func (o *Objects) Lookup(gr runtimeschema.GroupResource) *Resource {
	for _, r := range o.directories {
		if r.GroupResource() == gr {
			return r
		}
	}
	return o.Named(gr.String())
}

// Builtin returns all resources that are not custom.
func (o *Objects) Builtin() (all []*Resource) {
	for _, r := range o.directories {
		all = append(all, r)
	}
	return all
}

// Locate returns the resource, the namespace and the name of the object with a key. The
// resource is nil if it is not known.
func (o *Objects) Locate(key string) (r *Resource, namespace, name string) {
	at, _ := o.root.Parse(key)
	if r = o.directories[at.Directory]; r == nil && !at.Resource.Empty() {
		r = o.Named(at.Resource.String())
	}
	if r == nil || r.Namespaced != (at.Namespace != "") {
		return nil, "", ""
	}
	return r, at.Namespace, at.Name
}

// Kind returns the resource of a kind, or nil if no version of that name is served.
func (o *Objects) Kind(gvk runtimeschema.GroupVersionKind) *Resource {
	if r := o.kinds[gvk]; r != nil {
		return r
	}
	v := o.Catalog().Kind(gvk)
	if v == nil || v.Definition().Storage() == nil {
		return nil
	}
	return o.custom(v.Definition(), v.Definition().Storage())
}

// Key returns the key of an object.
func (r *Resource) Key(namespace, name string) string {
	if !r.Namespaced {
		namespace = ""
	}
	return r.Prefix.Key(namespace, name)
}

// storage returns the storage of a resource, and the scope of requests. The caller must call
// release.
func (o *Objects) storage(r *Resource) (s rest.StandardStorage, scope *handlers.RequestScope, release func(), err error) {
	if r.definition != nil {
		return o.Custom.Scoped(r.definition, r.Version)
	}
	s, scope, err = o.Kinds.Scoped(r.GroupVersionResource)
	return s, scope, func() {}, err
}

// Use calls f with the storage of a resource.
func (o *Objects) Use(ctx context.Context, r *Resource, namespace string, f func(context.Context, rest.StandardStorage) error) error {
	s, _, release, err := o.storage(r)
	if err != nil {
		return fmt.Errorf("storage of %s: %w", r.GroupResource(), err)
	}
	defer release()
	return f(apirequest.WithNamespace(ctx, namespace), s)
}

// Update changes an object. change is called with its newest state, again if that changes.
func (o *Objects) Update(ctx context.Context, r *Resource, namespace, name string, change func(metav1.Object) error) error {
	return o.Use(ctx, r, namespace, func(ctx context.Context, s rest.StandardStorage) error {
		return Update(ctx, s, name, change)
	})
}

// Update changes an object of a storage.
func Update(ctx context.Context, s rest.Updater, name string, change func(metav1.Object) error) error {
	_, _, err := s.Update(ctx, name, rest.DefaultUpdatedObjectInfo(nil, changing(change)),
		rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false, &metav1.UpdateOptions{})
	return err
}

// changing returns a function that returns a changed copy of the stored object.
func changing(change func(metav1.Object) error) rest.TransformFunc {
	return func(_ context.Context, _, old runtime.Object) (runtime.Object, error) {
		obj := old.DeepCopyObject()
		m, ok := obj.(metav1.Object)
		if !ok {
			return nil, fmt.Errorf("%T is not an object", obj)
		}
		return obj, change(m)
	}
}
