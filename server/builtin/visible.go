package builtin

import (
	"context"
	"slices"

	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"

	"espalier.dev/store"
)

// bindsTokens reports whether the tokens of service accounts are bound to objects of a resource.
func (r *Resource) bindsTokens() bool {
	return r.Group == "" && slices.Contains([]string{"serviceaccounts", "pods", "secrets", "nodes"}, r.Plural)
}

// visibly returns the storage for deletions. A deletion of an object that tokens can be bound to
// is answered when it is visible in memory: from then on, the server rejects these tokens.
func (h *Handler) visibly(r *Resource, s rest.StandardStorage) rest.StandardStorage {
	if !r.bindsTokens() {
		return s
	}
	return visible{s, h.config.Objects}
}

// visible is a storage whose deletions are visible in memory when they return.
type visible struct {
	rest.StandardStorage
	objects *store.Store
}

func (v visible) Delete(ctx context.Context, name string, validate rest.ValidateObjectFunc, o *metav1.DeleteOptions) (runtime.Object, bool, error) {
	obj, now, err := v.StandardStorage.Delete(ctx, name, validate, o)
	v.await(ctx, err)
	return obj, now, err
}

func (v visible) DeleteCollection(ctx context.Context, validate rest.ValidateObjectFunc, o *metav1.DeleteOptions, which *metainternalversion.ListOptions) (runtime.Object, error) {
	obj, err := v.StandardStorage.DeleteCollection(ctx, validate, o, which)
	v.await(ctx, err)
	return obj, err
}

// GetCorruptObjDeleter returns what deletes objects that cannot be decoded, or nil.
func (v visible) GetCorruptObjDeleter() rest.GracefulDeleter {
	if p, ok := v.StandardStorage.(rest.CorruptObjectDeleterProvider); ok {
		return p.GetCorruptObjDeleter()
	}
	return nil
}

// await waits for the memory. If that fails, the object is deleted nevertheless.
func (v visible) await(ctx context.Context, err error) {
	if err == nil {
		_, _ = v.objects.Sync(ctx)
	}
}
