package builtin

import (
	"context"
	"fmt"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"espalier.dev/kinds/kind"
	"espalier.dev/server/backend"
	"espalier.dev/server/roles/defaults"
)

// reconcileAll creates the roles and bindings that are missing, and brings the others up to date:
// either those in namespaces, or the others.
func (h *Handler) reconcileAll(ctx context.Context, roles []defaults.Object, namespaced bool) error {
	var missing, changed []kind.Object
	owner := newOwner()
	for _, obj := range roles {
		if (obj.GetNamespace() != "") != namespaced {
			continue
		}
		e, err := h.endpointOf(obj)
		if err != nil {
			return err
		}
		entry := h.objects.Get(e.prefix.Key(obj.GetNamespace(), obj.GetName()))
		if entry == nil {
			if err := owner.own(obj, e.store.New().(kind.Object), e.scope.Kind.GroupVersion().String()); err != nil {
				return err
			}
			missing = append(missing, obj)
			continue
		}
		stored, err := e.decode(entry)
		if err != nil {
			continue // the key that it is encrypted with may be missing: it stays as it is
		}
		if defaults.Reconcile(stored.(defaults.Object), obj) != defaults.Keep {
			changed = append(changed, obj)
		}
	}
	missing, err := h.createTogether(ctx, missing)
	if err != nil {
		return err
	}
	// Concurrently, so that etcd waits for the disk once.
	group, ctx := errgroup.WithContext(ctx)
	for _, obj := range append(changed, missing...) {
		group.Go(func() error {
			if err := h.reconcile(ctx, obj); err != nil {
				return fmt.Errorf("%T %s: %w", obj, obj.GetName(), err)
			}
			return nil
		})
	}
	return group.Wait()
}

// maxTogether is the maximum number of objects in one transaction. etcd allows 128 by default.
const maxTogether = 64

// createTogether creates objects, many in one transaction: a server has more than a hundred roles
// and bindings from the start, and should start fast. It returns the objects that have to be
// created one by one.
func (h *Handler) createTogether(ctx context.Context, objects []kind.Object) (left []kind.Object, err error) {
	for batch := range slices.Chunk(objects, maxTogether) {
		values, conditions := map[string][]byte{}, []clientv3.Cmp{}
		namespaces := map[string]bool{}
		for _, obj := range batch {
			namespace := obj.GetNamespace()
			if namespace != "" && !namespaces[namespace] {
				namespaces[namespace] = true
				conditions = append(conditions, h.config.InNamespace(namespace))
			}
			e, err := h.endpointOf(obj)
			if err != nil {
				return nil, err
			}
			if values[e.prefix.Key(namespace, obj.GetName())], err = e.encodeNew(apirequest.WithNamespace(ctx, namespace), obj); err != nil {
				return nil, fmt.Errorf("%T %s: %w", obj, obj.GetName(), err)
			}
		}
		// Another server may have created some of them, a namespace may be missing, and kine has no
		// such transactions.
		created, err := h.objects.Create(ctx, values, conditions...)
		if backend.IsFull(err) {
			return nil, err
		}
		if err != nil || !created {
			left = append(left, batch...)
		}
	}
	return left, nil
}

// encodeNew returns an object of the server itself as it is stored when it is created.
func (e *endpoint) encodeNew(ctx context.Context, obj kind.Object) ([]byte, error) {
	created := obj.DeepCopyObject().(kind.Object)
	rest.FillObjectMetaSystemFields(created)
	e.store.CreateStrategy.PrepareForCreate(ctx, created)
	if e.hasStatus(obj) {
		kind.Part(created, "Status").Set(kind.Part(obj.DeepCopyObject().(kind.Object), "Status"))
	}
	return runtime.Encode(e.codec, created)
}

// reconcile creates a role or binding, or brings it up to date.
func (h *Handler) reconcile(ctx context.Context, wanted kind.Object) error {
	e, err := h.endpointOf(wanted)
	if err != nil {
		return err
	}
	ctx = apirequest.WithNamespace(ctx, wanted.GetNamespace())
	// A write of another server may come first. It does so at most once for each step.
	const attempts = 5
	for range attempts {
		_, err = e.storage.Create(ctx, wanted.DeepCopyObject(), rest.ValidateAllObjectFunc, &metav1.CreateOptions{})
		if !apierrors.IsAlreadyExists(err) {
			return err
		}
		recreate := false
		var uid *metav1.Preconditions
		_, _, err = e.storage.Update(ctx, wanted.GetName(), rest.DefaultUpdatedObjectInfo(nil,
			func(_ context.Context, _, old runtime.Object) (runtime.Object, error) {
				stored := old.DeepCopyObject().(kind.Object)
				recreate = defaults.Reconcile(stored, wanted) == defaults.Recreate
				uid = metav1.NewUIDPreconditions(string(stored.GetUID()))
				return stored, nil
			}), rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false, &metav1.UpdateOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil || !recreate {
			return err
		}
		_, _, err = e.storage.Delete(ctx, wanted.GetName(), rest.ValidateAllObjectFunc, &metav1.DeleteOptions{Preconditions: uid})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return err
		}
	}
	return err
}

// Keep creates the objects that are missing, with their status, and brings the others up to date: update
// changes a stored object, and reports whether it has. Other servers may do so at the same time. Those
// that cannot be decoded stay as they are.
func (h *Handler) Keep(ctx context.Context, objects []kind.Object, update func(stored, wanted kind.Object) bool) error {
	var missing, changed []kind.Object
	for _, obj := range objects {
		e, err := h.endpointOf(obj)
		if err != nil {
			return err
		}
		entry := h.objects.Get(e.prefix.Key(obj.GetNamespace(), obj.GetName()))
		if entry == nil {
			missing = append(missing, obj)
			continue
		}
		stored, err := e.decode(entry)
		if err == nil && update(stored.(kind.Object), obj) {
			changed = append(changed, obj)
		}
	}
	missing, err := h.createTogether(ctx, missing)
	if err != nil {
		return err
	}
	for _, obj := range append(changed, missing...) {
		if err := h.keep(ctx, obj, update); err != nil {
			return fmt.Errorf("%T %s: %w", obj, obj.GetName(), err)
		}
	}
	return nil
}

// keep creates an object, or brings it up to date.
func (h *Handler) keep(ctx context.Context, wanted kind.Object, update func(stored, wanted kind.Object) bool) error {
	e, err := h.endpointOf(wanted)
	if err != nil {
		return err
	}
	ctx = apirequest.WithNamespace(ctx, wanted.GetNamespace())
	_, err = e.keepingStatus(wanted).Create(ctx, wanted.DeepCopyObject(), rest.ValidateAllObjectFunc, &metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	_, _, err = e.storage.Update(ctx, wanted.GetName(), rest.DefaultUpdatedObjectInfo(nil,
		func(_ context.Context, _, old runtime.Object) (runtime.Object, error) {
			stored := old.DeepCopyObject().(kind.Object)
			update(stored, wanted)
			return stored, nil
		}), rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false, &metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		return nil // deleted meanwhile: the next call creates it
	}
	return err
}
