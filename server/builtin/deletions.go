package builtin

import (
	"context"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/warning"

	"espalier.dev/kinds"
	"espalier.dev/server/storage"
	"espalier.dev/store"
)

// bindsTokens reports whether the tokens of service accounts are bound to objects of a resource.
func bindsTokens(r *kinds.Resource) bool {
	return r.Group == "" && slices.Contains([]string{"serviceaccounts", "pods", "secrets", "nodes"}, r.Plural)
}

// deletions returns the storage for deletions. A deletion of an object that tokens can be bound to
// is answered when it is visible in memory: from then on, the server rejects these tokens. A
// deletion of a job has a warning if it preserves the pods by default.
func (h *Handler) deletions(r *kinds.Resource, s rest.StandardStorage) rest.StandardStorage {
	switch {
	case bindsTokens(r):
		return visible{s, h.config.Objects}
	case r.Group == batchv1.GroupName && r.Orphans:
		return preserving{s}
	}
	return s
}

// gracefulREST is the storage of a kind whose objects are deleted after a grace period. An object
// without one is marked as deleted before it is deleted, so that watches see the mark. A full etcd
// rejects the mark: then the object is deleted without, if it has no finalizers.
type gracefulREST struct{ *registry.Store }

// unmarked is the key in contexts of deletions that do not mark objects without a grace period.
type unmarked struct{}

func (r *gracefulREST) Delete(ctx context.Context, name string, validate rest.ValidateObjectFunc, o *metav1.DeleteOptions) (runtime.Object, bool, error) {
	obj, now, err := r.Store.Delete(ctx, name, validate, o)
	if storage.IsFull(err) {
		obj, now, err = r.Store.Delete(context.WithValue(ctx, unmarked{}, true), name, validate, o)
	}
	return obj, now, err
}

func (r *gracefulREST) DeleteCollection(ctx context.Context, validate rest.ValidateObjectFunc, o *metav1.DeleteOptions, which *metainternalversion.ListOptions) (runtime.Object, error) {
	obj, err := r.Store.DeleteCollection(ctx, validate, o, which)
	if storage.IsFull(err) {
		obj, err = r.Store.DeleteCollection(context.WithValue(ctx, unmarked{}, true), validate, o, which)
	}
	return obj, err
}

// preserving is a storage whose deletions preserve dependents unless the client says otherwise.
type preserving struct{ rest.StandardStorage }

func (p preserving) Delete(ctx context.Context, name string, validate rest.ValidateObjectFunc, o *metav1.DeleteOptions) (runtime.Object, bool, error) {
	warnPreserved(ctx, o)
	return p.StandardStorage.Delete(ctx, name, validate, o)
}

func (p preserving) DeleteCollection(ctx context.Context, validate rest.ValidateObjectFunc, o *metav1.DeleteOptions, which *metainternalversion.ListOptions) (runtime.Object, error) {
	warnPreserved(ctx, o)
	return p.StandardStorage.DeleteCollection(ctx, validate, o, which)
}

// GetCorruptObjDeleter returns what deletes objects that cannot be decoded, or nil.
func (p preserving) GetCorruptObjDeleter() rest.GracefulDeleter {
	return corruptDeleter(p.StandardStorage)
}

// warnPreserved adds the warning of a deletion without a policy.
func warnPreserved(ctx context.Context, o *metav1.DeleteOptions) {
	if o != nil && o.PropagationPolicy == nil && o.OrphanDependents == nil {
		warning.AddWarning(ctx, "", "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning")
	}
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
	return corruptDeleter(v.StandardStorage)
}

func corruptDeleter(s rest.StandardStorage) rest.GracefulDeleter {
	if p, ok := s.(rest.CorruptObjectDeleterProvider); ok {
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
