package resources

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"

	"espalier.dev/schema"
	"espalier.dev/server/fields"
)

// workKey is the key of the work of a request in its context.
type workKey struct{}

// WithWork returns a context in which the work of a request is counted, and a function to
// call when the request is answered. finished is called when it is, and its work has ended:
// k8s.io/apiserver answers a write that times out while a goroutine is still working on it.
func WithWork(ctx context.Context, finished func()) (_ context.Context, answered func()) {
	u := &usage{free: finished}
	return context.WithValue(ctx, workKey{}, u), u.close
}

// ended returns an error if a request has timed out, or its client is gone. The steps of a write
// that can take long begin with it: nobody waits for their result.
func ended(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return apierrors.NewTimeoutError(fmt.Sprintf("the request ended before it was done: %v", err), 0)
	}
	return nil
}

// beginWork counts work that ends with the call of end. A request that has been answered
// begins none.
func beginWork(ctx context.Context) (end func(), err error) {
	if err := ended(ctx); err != nil {
		return nil, err
	}
	u, ok := ctx.Value(workKey{}).(*usage)
	if !ok {
		return func() {}, nil
	}
	if !u.acquire() {
		return nil, apierrors.NewTimeoutError("the request was answered before it was worked on", 0)
	}
	return u.release, nil
}

// Working returns a storage of a kind whose writes are counted as work of a request.
func Working(s rest.StandardStorage, kind runtimeschema.GroupKind) rest.StandardStorage {
	return working{s, kind}
}

// WorkingPatcher does so for the storage of a subresource.
func WorkingPatcher(p rest.Patcher, kind runtimeschema.GroupKind) rest.Patcher {
	return workingPatcher{p, kind}
}

// working is a storage whose writes are work of a request.
type working struct {
	rest.StandardStorage
	kind runtimeschema.GroupKind
}

func (w working) Create(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, o *metav1.CreateOptions) (runtime.Object, error) {
	end, err := beginWork(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	return w.StandardStorage.Create(ctx, obj, validate, o)
}

func (w working) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc, update rest.ValidateObjectUpdateFunc, force bool, o *metav1.UpdateOptions) (runtime.Object, bool, error) {
	return workingPatcher{w.StandardStorage, w.kind}.Update(ctx, name, info, create, update, force, o)
}

func (w working) Delete(ctx context.Context, name string, validate rest.ValidateObjectFunc, o *metav1.DeleteOptions) (runtime.Object, bool, error) {
	end, err := beginWork(ctx)
	if err != nil {
		return nil, false, err
	}
	defer end()
	return w.StandardStorage.Delete(ctx, name, validate, o)
}

func (w working) DeleteCollection(ctx context.Context, validate rest.ValidateObjectFunc, o *metav1.DeleteOptions, which *metainternalversion.ListOptions) (runtime.Object, error) {
	end, err := beginWork(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	return w.StandardStorage.DeleteCollection(ctx, validate, o, which)
}

// GetCorruptObjDeleter returns what deletes objects that cannot be decoded, or nil.
func (w working) GetCorruptObjDeleter() rest.GracefulDeleter {
	if p, ok := w.StandardStorage.(rest.CorruptObjectDeleterProvider); ok {
		return p.GetCorruptObjDeleter()
	}
	return nil
}

// workingPatcher is the same for the storage of a subresource.
type workingPatcher struct {
	rest.Patcher
	kind runtimeschema.GroupKind
}

func (w workingPatcher) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc, update rest.ValidateObjectUpdateFunc, force bool, o *metav1.UpdateOptions) (runtime.Object, bool, error) {
	end, err := beginWork(ctx)
	if err != nil {
		return nil, false, err
	}
	defer end()
	obj, created, err := w.Patcher.Update(ctx, name, checkedInfo{info, w.kind}, create, update, force, o)
	if fields.IsTooManyItems(err) && apierrors.ReasonForError(err) == metav1.StatusReasonUnknown {
		err = fields.TooManyItems(err)
	}
	return obj, created, err
}

// checkedInfo checks a patch before it is applied, and the metadata of an updated object.
type checkedInfo struct {
	rest.UpdatedObjectInfo
	kind runtimeschema.GroupKind
}

func (i checkedInfo) UpdatedObject(ctx context.Context, old runtime.Object) (runtime.Object, error) {
	if err := ended(ctx); err != nil {
		return nil, err
	}
	if err := checkPatch(ctx, old); err != nil {
		return nil, err
	}
	obj, err := i.UpdatedObjectInfo.UpdatedObject(ctx, old)
	if err != nil {
		return nil, patchError(ctx, err)
	}
	if err := ended(ctx); err != nil {
		return nil, err
	}
	if err := checkOwners(i.kind, obj); err != nil {
		return nil, err
	}
	return obj, checkMetadata(i.kind, obj)
}

// checkOwners returns an error if an updated object has more owner references than are validated.
func checkOwners(kind runtimeschema.GroupKind, obj runtime.Object) error {
	m, err := meta.Accessor(obj)
	if err != nil {
		return nil //nolint:nilerr // it has no metadata
	}
	n := len(m.GetOwnerReferences())
	if n <= schema.MaxOwnerReferences {
		return nil
	}
	return apierrors.NewInvalid(kind, m.GetName(), field.ErrorList{field.TooMany(field.NewPath("metadata", "ownerReferences"), n, schema.MaxOwnerReferences)})
}
