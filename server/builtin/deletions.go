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
	"espalier.dev/server/backend"
	serverrest "espalier.dev/server/rest"
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
		return deletionSync{s, h.objects}
	case r.Group == batchv1.GroupName && r.Orphans:
		return orphanWarner{s}
	}
	return s
}

// gracefulREST is the storage of a kind whose objects are deleted after a grace period. An object
// without one is marked as deleted before it is deleted, so that watches see the mark. A full etcd
// rejects the mark: then the object is deleted without, if it has no finalizers.
type gracefulREST struct{ *registry.Store }

// unmarkedKey is the key in contexts of deletions that do not mark objects without a grace period.
type unmarkedKey struct{}

func (r *gracefulREST) Delete(ctx context.Context, name string, validate rest.ValidateObjectFunc,
	o *metav1.DeleteOptions) (runtime.Object, bool, error) {
	obj, now, err := r.Store.Delete(ctx, name, validate, o)
	if backend.IsFull(err) {
		obj, now, err = r.Store.Delete(context.WithValue(ctx, unmarkedKey{}, true), name, validate, o)
	}
	return obj, now, err
}

func (r *gracefulREST) DeleteCollection(ctx context.Context, validate rest.ValidateObjectFunc,
	o *metav1.DeleteOptions, which *metainternalversion.ListOptions) (runtime.Object, error) {
	obj, err := r.Store.DeleteCollection(ctx, validate, o, which)
	if backend.IsFull(err) {
		obj, err = r.Store.DeleteCollection(context.WithValue(ctx, unmarkedKey{}, true), validate, o, which)
	}
	return obj, err
}

// orphanWarner is a storage that warns about deletions that preserve dependents by default.
type orphanWarner struct{ rest.StandardStorage }

func (w orphanWarner) Delete(ctx context.Context, name string, validate rest.ValidateObjectFunc,
	o *metav1.DeleteOptions) (runtime.Object, bool, error) {
	warnPreserved(ctx, o)
	return w.StandardStorage.Delete(ctx, name, validate, o)
}

func (w orphanWarner) DeleteCollection(ctx context.Context, validate rest.ValidateObjectFunc,
	o *metav1.DeleteOptions, which *metainternalversion.ListOptions) (runtime.Object, error) {
	warnPreserved(ctx, o)
	return w.StandardStorage.DeleteCollection(ctx, validate, o, which)
}

// GetCorruptObjDeleter returns what deletes objects that cannot be decoded, or nil.
func (w orphanWarner) GetCorruptObjDeleter() rest.GracefulDeleter {
	return serverrest.CorruptDeleter(w.StandardStorage)
}

// warnPreserved adds the warning of a deletion without a policy.
func warnPreserved(ctx context.Context, o *metav1.DeleteOptions) {
	if o != nil && o.PropagationPolicy == nil && o.OrphanDependents == nil {
		warning.AddWarning(ctx, "",
			"child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning")
	}
}

// deletionSync is a storage whose deletions are visible in memory when they return.
type deletionSync struct {
	rest.StandardStorage
	objects *store.Store
}

func (d deletionSync) Delete(ctx context.Context, name string, validate rest.ValidateObjectFunc,
	o *metav1.DeleteOptions) (runtime.Object, bool, error) {
	obj, now, err := d.StandardStorage.Delete(ctx, name, validate, o)
	d.await(ctx, err)
	return obj, now, err
}

func (d deletionSync) DeleteCollection(ctx context.Context, validate rest.ValidateObjectFunc,
	o *metav1.DeleteOptions, which *metainternalversion.ListOptions) (runtime.Object, error) {
	obj, err := d.StandardStorage.DeleteCollection(ctx, validate, o, which)
	d.await(ctx, err)
	return obj, err
}

// GetCorruptObjDeleter returns what deletes objects that cannot be decoded, or nil.
func (d deletionSync) GetCorruptObjDeleter() rest.GracefulDeleter {
	return serverrest.CorruptDeleter(d.StandardStorage)
}

// await waits for the memory. If that fails, the object is deleted nevertheless.
func (d deletionSync) await(ctx context.Context, err error) {
	if err == nil {
		_, _ = d.objects.Sync(ctx)
	}
}
