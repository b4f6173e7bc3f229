package rest

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
)

// Object is the endpoint of a subresource that reads and writes the object itself, such as status.
// Its store is that of the main endpoint, with strategies of its own.
type Object struct{ Store *registry.Store }

var _ rest.Patcher = &Object{}

// New returns an empty object.
func (r *Object) New() runtime.Object { return r.Store.New() }

// Destroy does nothing: the store belongs to the main endpoint.
func (r *Object) Destroy() {}

// Get returns the object.
func (r *Object) Get(ctx context.Context, name string, o *metav1.GetOptions) (runtime.Object, error) {
	return r.Store.Get(ctx, name, o)
}

// Update updates the object; it never creates one.
func (r *Object) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc,
	update rest.ValidateObjectUpdateFunc, _ bool, o *metav1.UpdateOptions) (runtime.Object, bool, error) {
	return r.Store.Update(ctx, name, info, create, update, false, o)
}
