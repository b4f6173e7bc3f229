package definitions

import (
	"context"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	storeerr "k8s.io/apiserver/pkg/storage/errors"
	"k8s.io/apiserver/pkg/util/dryrun"

	"espalier.dev/api"
	"espalier.dev/api/codec"
	"espalier.dev/server/backend"
	"espalier.dev/server/fence"
	"espalier.dev/store"
)

// settleTime is the maximum time that a write waits for the catalog. A slower write is stored
// nevertheless, and reaches the catalog later.
const settleTime = 5 * time.Second

// crdStorage is the storage of CRDs. Writes return when they are in the catalog, and a deletion
// first deletes the objects.
type crdStorage struct {
	*registry.Store
	// writes is the same storage. Its writes may wait until the rules of a CRD may be compiled.
	writes      rest.StandardStorage
	definitions *Definitions
}

func (s *crdStorage) Create(ctx context.Context, obj runtime.Object,
	validate rest.ValidateObjectFunc, o *metav1.CreateOptions) (runtime.Object, error) {
	out, err := s.writes.Create(ctx, obj, validate, o)
	s.definitions.settle(ctx, out)
	return out, err
}

func (s *crdStorage) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc,
	update rest.ValidateObjectUpdateFunc, force bool, o *metav1.UpdateOptions) (runtime.Object, bool, error) {
	out, created, err := s.writes.Update(ctx, name, s.definitions.ifReadable(info), create, update, force, o)
	s.definitions.settle(ctx, out)
	return out, created, err
}

// ifReadable has an update fail if the stored CRD cannot be decoded.
func (d *Definitions) ifReadable(info rest.UpdatedObjectInfo) rest.UpdatedObjectInfo {
	return rest.WrapUpdatedObjectInfo(info, func(_ context.Context, obj, old runtime.Object) (runtime.Object, error) {
		c, err := hub(old)
		if err == nil && c.Name != "" && unreadable(c) {
			err = d.unreadableError(c.Name, nil)
		}
		return obj, err
	})
}

// subresource is the storage of a subresource. Writes return when they are in the catalog.
type subresource struct {
	rest.Patcher
	definitions *Definitions
}

func (s *subresource) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc,
	update rest.ValidateObjectUpdateFunc, force bool, o *metav1.UpdateOptions) (runtime.Object, bool, error) {
	out, _, err := s.Patcher.Update(ctx, name, s.definitions.ifReadable(info), create, update, force, o)
	s.definitions.settle(ctx, out)
	return out, false, err
}

// Delete marks a CRD for deletion. It is removed after its objects.
func (s *crdStorage) Delete(ctx context.Context, name string, validate rest.ValidateObjectFunc,
	o *metav1.DeleteOptions) (runtime.Object, bool, error) {
	obj, err := s.Get(ctx, name, &metav1.GetOptions{})
	var c *api.CustomResourceDefinition
	if err == nil {
		c, err = hub(obj)
	}
	switch {
	case err != nil:
		return nil, false, err
	case unreadable(c):
		return s.deleteUnreadable(ctx, c, obj, validate, o)
	case c.DeletionTimestamp != nil: // the deletion is already running
		return s.Store.Delete(ctx, name, validate, o)
	}
	conditions := storage.Preconditions{UID: &c.UID}
	if p := o.Preconditions; p != nil {
		if p.UID != nil {
			conditions.UID = p.UID
		}
		conditions.ResourceVersion = p.ResourceVersion
	}
	out, err := s.rewrite(ctx, name, conditions, dryrun.IsDryRun(o.DryRun),
		func(c *api.CustomResourceDefinition, obj runtime.Object) error {
			if err := validate(ctx, obj); err != nil {
				return err
			}
			now := metav1.Now()
			if c.DeletionTimestamp == nil {
				c.DeletionTimestamp = &now
			}
			if !slices.Contains(c.Finalizers, api.CustomResourceCleanupFinalizer) {
				c.Finalizers = append(c.Finalizers, api.CustomResourceCleanupFinalizer)
			}
			setTerminating(c, api.ConditionTrue, api.ReasonInstanceDeletionPending,
				"CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon")
			return nil
		})
	s.definitions.settle(ctx, out)
	return out, false, err
}

// DeleteCollection deletes CRDs one by one with Delete.
func (s *crdStorage) DeleteCollection(ctx context.Context, validate rest.ValidateObjectFunc,
	o *metav1.DeleteOptions, which *metainternalversion.ListOptions) (runtime.Object, error) {
	list, err := s.List(ctx, which)
	if err != nil {
		return nil, err
	}
	err = meta.EachListItem(list, func(item runtime.Object) error {
		_, _, err := s.Delete(ctx, item.(metav1.Object).GetName(), validate, o.DeepCopy())
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
	return list, err
}

// rewrite changes the current state of a stored CRD internally, without a strategy.
func (s *crdStorage) rewrite(ctx context.Context, name string, conditions storage.Preconditions, dryRun bool,
	change func(*api.CustomResourceDefinition, runtime.Object) error) (runtime.Object, error) {
	out := s.NewFunc()
	err := s.Storage.GuaranteedUpdate(fence.WithReserve(ctx), s.key(ctx, name), out, false, &conditions,
		storage.SimpleUpdate(func(existing runtime.Object) (runtime.Object, error) {
			c, err := hub(existing)
			if err == nil && unreadable(c) {
				err = s.definitions.unreadableError(name, nil)
			}
			if err == nil {
				err = change(c, existing)
			}
			if err != nil {
				return nil, err
			}
			return represent(c, existing.GetObjectKind().GroupVersionKind().Version), nil
		}), dryRun, nil)
	if err != nil {
		return nil, s.failure(name, err)
	}
	return out, nil
}

// replaceStatus writes the status of a CRD, if e is still its current state. It keeps the rest
// of the stored value.
func (s *crdStorage) replaceStatus(ctx context.Context, c *api.CustomResourceDefinition,
	e *store.Entry, status *api.CustomResourceDefinitionStatus) error {
	data, ok := codec.ReplaceStatus(e.Value, status)
	if !ok {
		_, err := s.rewrite(ctx, c.Name, only(c.UID, c.ResourceVersion), false,
			func(stored *api.CustomResourceDefinition, _ runtime.Object) error {
				stored.Status = *status
				return nil
			})
		return err
	}
	return s.replace(ctx, c.Name, data, e.Revision)
}

// replace replaces the stored value of a CRD, if it is that of a revision.
func (s *crdStorage) replace(ctx context.Context, name string, data []byte, revision int64) error {
	stored := s.Storage.Storage.(*backend.Storage) // that of package fence
	if err := stored.Replace(fence.WithReserve(ctx), s.key(ctx, name), data, revision); err != nil {
		return s.failure(name, err)
	}
	return nil
}

// key returns the key of a stored CRD in its storage.
func (s *crdStorage) key(ctx context.Context, name string) string {
	return s.KeyRootFunc(ctx) + "/" + name
}

// failure returns the error of an internal write for clients.
func (s *crdStorage) failure(name string, err error) error {
	err = storeerr.InterpretUpdateError(storeerr.InterpretGetError(err, s.DefaultQualifiedResource, name), s.DefaultQualifiedResource, name)
	if _, ok := err.(apierrors.APIStatus); !ok {
		err = apierrors.NewInternalError(err)
	}
	return err
}

func setTerminating(c *api.CustomResourceDefinition, status api.ConditionStatus, reason, message string) {
	condition := api.CustomResourceDefinitionCondition{
		Type: api.Terminating, Status: status, Reason: reason, Message: message,
		LastTransitionTime: metav1.Now(), ObservedGeneration: c.Generation,
	}
	for i, old := range c.Status.Conditions {
		if old.Type == api.Terminating {
			if old.Status == status {
				condition.LastTransitionTime = old.LastTransitionTime
			}
			c.Status.Conditions[i] = condition
			return
		}
	}
	c.Status.Conditions = append(c.Status.Conditions, condition)
}

// settle waits until a write is in the catalog. written is nil if the write has failed, and has the
// revision of an earlier one if it is a dry run: there is nothing to wait for.
func (d *Definitions) settle(ctx context.Context, written runtime.Object) {
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	if m, err := meta.Accessor(written); err == nil {
		// A slower write is stored nevertheless.
		_ = d.progress.Wait(ctx, revision(m.GetResourceVersion()))
	}
}

func revision(resourceVersion string) uint64 {
	n, _ := strconv.ParseUint(resourceVersion, 10, 64)
	return n
}

func formatRevision(revision int64) string { return strconv.FormatInt(revision, 10) }

func only(uid types.UID, resourceVersion string) storage.Preconditions {
	return storage.Preconditions{UID: &uid, ResourceVersion: &resourceVersion}
}
