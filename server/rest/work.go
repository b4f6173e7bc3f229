package rest

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/rest"

	"espalier.dev/server/fields"
)

// workKey is the key of the work of a request in its context.
type workKey struct{}

// WithWork returns a context in which the work of a request is counted, and a function to
// call when the request is answered. finished is called when it is, and its work has ended:
// k8s.io/apiserver answers a write that times out while a goroutine is still working on it.
func WithWork(ctx context.Context, finished func()) (_ context.Context, answered func()) {
	u := &Usage{Free: finished}
	return context.WithValue(ctx, workKey{}, u), u.Close
}

// Ended returns an error if a request has timed out, or its client is gone. The steps of a write
// that can take long begin with it: nobody waits for their result.
func Ended(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return apierrors.NewTimeoutError(fmt.Sprintf("the request ended before it was done: %v", err), 0)
	}
	return nil
}

// BeginWork counts work that ends with the call of end. A request that has been answered
// begins none.
func BeginWork(ctx context.Context) (end func(), err error) {
	if err := Ended(ctx); err != nil {
		return nil, err
	}
	u, ok := ctx.Value(workKey{}).(*Usage)
	if !ok {
		return func() {}, nil
	}
	if !u.Acquire() {
		return nil, apierrors.NewTimeoutError("the request was answered before it was worked on", 0)
	}
	return u.Release, nil
}

// workStorage is a storage whose writes are work of a request.
type workStorage struct {
	rest.StandardStorage
	kind runtimeschema.GroupKind
}

func (w workStorage) Create(ctx context.Context, obj runtime.Object,
	validate rest.ValidateObjectFunc, o *metav1.CreateOptions) (runtime.Object, error) {
	end, err := BeginWork(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	return w.StandardStorage.Create(ctx, obj, validate, o)
}

func (w workStorage) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc,
	update rest.ValidateObjectUpdateFunc, force bool, o *metav1.UpdateOptions) (runtime.Object, bool, error) {
	return workPatcher{w.StandardStorage, w.kind}.Update(ctx, name, info, create, update, force, o)
}

func (w workStorage) Delete(ctx context.Context, name string, validate rest.ValidateObjectFunc,
	o *metav1.DeleteOptions) (runtime.Object, bool, error) {
	end, err := BeginWork(ctx)
	if err != nil {
		return nil, false, err
	}
	defer end()
	return w.StandardStorage.Delete(ctx, name, validate, o)
}

func (w workStorage) DeleteCollection(ctx context.Context, validate rest.ValidateObjectFunc,
	o *metav1.DeleteOptions, which *metainternalversion.ListOptions) (runtime.Object, error) {
	end, err := BeginWork(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	return w.StandardStorage.DeleteCollection(ctx, validate, o, which)
}

// GetCorruptObjDeleter returns what deletes objects that cannot be decoded, or nil.
func (w workStorage) GetCorruptObjDeleter() rest.GracefulDeleter {
	return CorruptDeleter(w.StandardStorage)
}

// CorruptDeleter returns what deletes objects of a storage that cannot be decoded, or nil. A storage
// that wraps another one has to pass it on.
func CorruptDeleter(s rest.StandardStorage) rest.GracefulDeleter {
	if p, ok := s.(rest.CorruptObjectDeleterProvider); ok {
		return p.GetCorruptObjDeleter()
	}
	return nil
}

// workPatcher is the same for the storage of a subresource.
type workPatcher struct {
	rest.Patcher
	kind runtimeschema.GroupKind
}

func (w workPatcher) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc,
	update rest.ValidateObjectUpdateFunc, force bool, o *metav1.UpdateOptions) (runtime.Object, bool, error) {
	end, err := BeginWork(ctx)
	if err != nil {
		return nil, false, err
	}
	defer end()
	obj, created, err := w.Patcher.Update(ctx, name, updateCheck{info, w.kind}, create, update, force, o)
	if fields.IsTooManyItems(err) && apierrors.ReasonForError(err) == metav1.StatusReasonUnknown {
		err = fields.TooManyItems(err)
	}
	return obj, created, err
}

// updateCheck checks a patch before it is applied, and the metadata of an updated object.
type updateCheck struct {
	rest.UpdatedObjectInfo
	kind runtimeschema.GroupKind
}

func (c updateCheck) UpdatedObject(ctx context.Context, old runtime.Object) (runtime.Object, error) {
	if err := Ended(ctx); err != nil {
		return nil, err
	}
	if err := checkPatch(ctx, old); err != nil {
		return nil, err
	}
	obj, err := c.UpdatedObjectInfo.UpdatedObject(ctx, old)
	if err != nil {
		return nil, patchError(ctx, err)
	}
	if err := Ended(ctx); err != nil {
		return nil, err
	}
	return obj, CheckMetadata(c.kind, obj)
}
