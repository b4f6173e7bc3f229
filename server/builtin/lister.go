package builtin

import (
	"context"
	"fmt"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"

	"espalier.dev/store"
)

// Get returns a stored object from memory. If it is not there, it has been looked for in the
// newest state of etcd, so a client finds what it has just created.
func (h *Handler) Get(ctx context.Context, gr runtimeschema.GroupResource, namespace, name string) (runtime.Object, error) {
	e, err := h.byGroupResource(gr)
	if err != nil {
		return nil, err
	}
	key := e.prefix.Key(namespace, name)
	entry := h.config.Objects.Get(key)
	if entry == nil {
		if _, err := h.config.Objects.Sync(ctx); err != nil {
			return nil, err
		}
		if entry = h.config.Objects.Get(key); entry == nil {
			return nil, apierrors.NewNotFound(gr, name)
		}
	}
	return e.decode(entry)
}

// List returns the stored objects of a resource from memory, in one namespace or in all.
func (h *Handler) List(_ context.Context, gr runtimeschema.GroupResource, namespace string) (all []runtime.Object, err error) {
	e, err := h.byGroupResource(gr)
	if err != nil {
		return nil, err
	}
	for entry := range h.config.Objects.Snapshot().Range(e.prefix.Scope(namespace), "") {
		obj, err := e.decode(entry)
		if err != nil {
			return nil, err
		}
		all = append(all, obj)
	}
	return all, nil
}

// Has reports whether there is such a resource.
func (h *Handler) Has(gr runtimeschema.GroupResource) bool { return h.byName[gr] != nil }

// Decode decodes a stored object of a resource.
func (h *Handler) Decode(gr runtimeschema.GroupResource, entry *store.Entry) (runtime.Object, error) {
	e, err := h.byGroupResource(gr)
	if err != nil {
		return nil, err
	}
	return e.decode(entry)
}

// byGroupResource returns the endpoint of the version of a resource that is stored.
func (h *Handler) byGroupResource(gr runtimeschema.GroupResource) (*endpoint, error) {
	if r := h.byName[gr]; r != nil {
		return h.endpoint(r)
	}
	return nil, fmt.Errorf("there is no resource %s", gr)
}

// decode decodes a stored object. Its resource version is not stored with it.
func (e *endpoint) decode(entry *store.Entry) (runtime.Object, error) {
	if entry.Err != nil {
		return nil, entry.Err
	}
	obj := e.store.New()
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
