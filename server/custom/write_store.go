package custom

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	storeerrors "k8s.io/apiserver/pkg/storage/errors"

	"espalier.dev/schema"
	"espalier.dev/server/backend"
	serverrest "espalier.dev/server/rest"
)

// The steps of this file are those of registry.Store, on the same storage. Its checks of
// metadata run without the managed fields: reading them through the accessors of
// Unstructured is slow, and the field manager has just written them.

// maxGeneratedNames is the number of names that are tried for an object with generateName.
const maxGeneratedNames = 8

// insert stores a new object.
func (w *write) insert(ctx context.Context, obj *unstructured.Unstructured) (runtime.Object, error) {
	if obj.GetGenerateName() == "" || obj.GetName() != "" {
		return w.insertNamed(ctx, obj)
	}
	var out runtime.Object
	var err error
	for range maxGeneratedNames {
		named := obj.DeepCopy()
		named.SetName(w.strategy.GenerateName(named.GetGenerateName()))
		if out, err = w.insertNamed(ctx, named); !apierrors.IsAlreadyExists(err) {
			break
		}
	}
	return out, err
}

func (w *write) insertNamed(ctx context.Context, obj *unstructured.Unstructured) (runtime.Object, error) {
	rest.FillObjectMetaSystemFields(obj)
	if err := w.beforeCreate(ctx, obj); err != nil {
		return nil, err
	}
	if err := w.validate(ctx, obj, nil); err != nil {
		return nil, err
	}
	name := obj.GetName()
	key, err := w.store.KeyFunc(ctx, name)
	if err != nil {
		return nil, err
	}
	out := w.kind.New()
	stored := &storedTree{Unstructured: obj}
	err = w.store.Storage.Create(ctx, key, stored, out, 0, w.options.isDryRun())
	if err == nil {
		w.stored = stored
		return out, nil
	}
	err = w.createError(ctx, err, name, obj)
	if !apierrors.IsAlreadyExists(err) || w.store.Storage.Get(ctx, key, storage.GetOptions{}, out) != nil {
		return nil, err
	}
	if existing := out.(*unstructured.Unstructured); existing.GetDeletionTimestamp() != nil {
		if status := (*apierrors.StatusError)(nil); errors.As(err, &status) {
			status.ErrStatus.Message = "object is being deleted: " + status.ErrStatus.Message
		}
	}
	return nil, err
}

func (w *write) createError(ctx context.Context, err error, name string, obj *unstructured.Unstructured) error {
	err = storeerrors.InterpretCreateError(err, w.scope.Resource.GroupResource(), name)
	return rest.CheckGeneratedNameError(ctx, w.strategy, err, obj)
}

// beforeCreate completes and validates a new object.
func (w *write) beforeCreate(ctx context.Context, obj *unstructured.Unstructured) error {
	if err := serverrest.Ended(ctx); err != nil {
		return err
	}
	managed := takeManagedFields(obj)
	err := rest.BeforeCreate(w.strategy, ctx, obj)
	putManagedFields(obj, managed)
	return err
}

// errFinalized ends an update that removes the last finalizer of a deleted object.
var errFinalized = errors.New("the last finalizer was removed")

// replace stores the object that change makes of the stored one. change is called again if another writer was faster. If there is no object, it
// gets an empty one if create is set. uid is the UID that the stored object must have, if not
// empty.
func (w *write) replace(ctx context.Context, change func(context.Context,
	*unstructured.Unstructured) (*unstructured.Unstructured, error), uid types.UID, create bool) (runtime.Object, error) {
	key, err := w.store.KeyFunc(ctx, w.name)
	if err != nil {
		return nil, err
	}
	preconditions := &storage.Preconditions{}
	if uid != "" {
		preconditions.UID = &uid
	}
	var last *storedTree
	created := false
	out := w.kind.New()
	err = w.store.Storage.GuaranteedUpdate(ctx, key, out, create, preconditions,
		func(existing runtime.Object, _ storage.ResponseMeta) (runtime.Object, *uint64, error) {
			live := existing.(*unstructured.Unstructured)
			created = live.GetResourceVersion() == ""
			if created && !create {
				return nil, nil, apierrors.NewNotFound(w.scope.Resource.GroupResource(), w.name)
			}
			obj, err := change(ctx, live)
			if err == nil {
				err = serverrest.CheckMetadata(w.scope.Kind.GroupKind(), obj)
			}
			if err != nil {
				return nil, nil, err
			}
			last = &storedTree{Unstructured: obj}
			version, err := w.store.Storage.Versioner().ObjectResourceVersion(obj)
			if err != nil {
				return nil, nil, err
			}
			if created {
				return last, new(uint64), w.prepareApplied(ctx, obj)
			}
			if err := w.checkVersion(version, live); err != nil {
				return nil, nil, err
			}
			return last, nil, w.prepareUpdate(ctx, key, obj, live)
		}, w.options.isDryRun(), nil)
	switch {
	case err == nil:
		w.stored, w.created = last, created
		return out, nil
	case errors.Is(err, errFinalized):
		return last.Unstructured, w.deleteFinalized(ctx, key, preconditions)
	case created && last != nil:
		return nil, w.createError(ctx, err, w.name, last.Unstructured)
	}
	return nil, storeerrors.InterpretUpdateError(err, w.scope.Resource.GroupResource(), w.name)
}

// prepareApplied prepares an object that a server-side apply creates.
func (w *write) prepareApplied(ctx context.Context, obj *unstructured.Unstructured) error {
	rest.WipeObjectMetaSystemFields(obj)
	rest.FillObjectMetaSystemFields(obj)
	if err := w.beforeCreate(ctx, obj); err != nil {
		return err
	}
	if err := w.authorizeCreate(ctx); err != nil {
		return err
	}
	return w.validate(ctx, obj, nil)
}

// checkVersion checks that an object was made from the stored one.
func (w *write) checkVersion(version uint64, live *unstructured.Unstructured) error {
	gr := w.scope.Resource.GroupResource()
	if version == 0 {
		return apierrors.NewInvalid(runtimeschema.GroupKind{Group: gr.Group, Kind: gr.Resource}, w.name, field.ErrorList{
			field.Invalid(field.NewPath("metadata", "resourceVersion"), version, "must be specified for an update")})
	}
	stored, err := w.store.Storage.Versioner().ObjectResourceVersion(live)
	if err != nil {
		return err
	}
	if version != stored {
		return apierrors.NewConflict(gr, w.name, errors.New(registry.OptimisticLockErrorMsg))
	}
	return nil
}

// prepareUpdate completes and validates an object that replaces another one.
func (w *write) prepareUpdate(ctx context.Context, key string, obj, live *unstructured.Unstructured) error {
	if err := serverrest.Ended(ctx); err != nil {
		return err
	}
	old := shallowCopy(live) // the storage owns live
	managed, before := takeManagedFields(obj), takeManagedFields(old)
	if err := rest.BeforeUpdate(w.strategy, ctx, obj, old); err != nil {
		return err
	}
	if differOnlyInTime(managed, before) && schema.Equal(obj.Object, old.Object) {
		// Nothing has changed, so nothing is stored.
		managed = before
	}
	putManagedFields(obj, managed)
	if err := w.validate(ctx, obj, live); err != nil {
		return err
	}
	if registry.ShouldDeleteDuringUpdate(ctx, key, obj, live) {
		return errFinalized
	}
	return nil
}

// deleteFinalized deletes an object whose last finalizer was removed.
func (w *write) deleteFinalized(ctx context.Context, key string, preconditions *storage.Preconditions) error {
	// Admission has allowed the update.
	err := w.store.Storage.Delete(ctx, key, w.kind.New(), preconditions, rest.ValidateAllObjectFunc,
		w.options.isDryRun(), nil, storage.DeleteOptions{})
	if err == nil || storage.IsNotFound(err) { // another request was faster
		return nil
	}
	return storeerrors.InterpretDeleteError(err, w.scope.Resource.GroupResource(), w.name)
}

// shallowCopy returns a copy of an object that shares everything but the metadata.
func shallowCopy(obj *unstructured.Unstructured) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: backend.ShallowCopy(obj.Object)}
}

// takeManagedFields removes the managed fields from an object and returns them.
func takeManagedFields(obj *unstructured.Unstructured) any {
	meta, ok := obj.Object["metadata"].(map[string]any)
	if !ok {
		return nil
	}
	managed := meta["managedFields"]
	delete(meta, "managedFields")
	return managed
}

// putManagedFields sets the managed fields of an object.
func putManagedFields(obj *unstructured.Unstructured, managed any) {
	if meta, ok := obj.Object["metadata"].(map[string]any); ok && managed != nil {
		meta["managedFields"] = managed
	}
}

// differOnlyInTime reports whether managed fields differ in their timestamps alone.
func differOnlyInTime(a, b any) bool {
	x, _ := a.([]any)
	y, _ := b.([]any)
	if len(x) == 0 || len(x) != len(y) {
		return false
	}
	for i := range x {
		m, ok := x[i].(map[string]any)
		n, ok2 := y[i].(map[string]any)
		if !ok || !ok2 || len(m) != len(n) {
			return false
		}
		for k, v := range m {
			if k != "time" && !schema.Equal(v, n[k]) {
				return false
			}
		}
	}
	return true
}
