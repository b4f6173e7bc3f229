package definitions

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/storage"
	storeerr "k8s.io/apiserver/pkg/storage/errors"
	"k8s.io/klog/v2"

	"espalier.dev/api"
	"espalier.dev/server/backend"
)

// A deletion has these steps. Each is one transaction, or can be repeated: a restarted or
// another server continues an interrupted deletion.
//
//  1. store.Delete marks the CRD and adds the finalizer. In the same transaction its
//     fence becomes Terminating: from now on, no server creates objects.
//  2. cleanUp deletes the objects by their keys, until none is left.
//  3. release deletes the CRD, and its fence in the same transaction. If the CRD has other
//     finalizers, only the one of step 1 is removed, and the removal of the last one
//     deletes the CRD.
//
// Cleanups are goroutines of Run: they end with its context, and Run waits for them.

// isDeleting reports whether cleanUp must finish the deletion of a CRD. A CRD without
// finalizers should be gone: its deletion was interrupted after they were removed.
func isDeleting(c *api.CustomResourceDefinition) bool {
	return c.DeletionTimestamp != nil && (len(c.Finalizers) == 0 || slices.Contains(c.Finalizers, api.CustomResourceCleanupFinalizer))
}

// cleanUp deletes the objects of a CRD that is being deleted, and then the CRD, concurrently
// with the reconciler. It needs only their resource: the schema may not compile, and the
// versions may change.
func (d *Definitions) cleanUp(ctx context.Context, c *api.CustomResourceDefinition) {
	if !isDeleting(c) || d.config.ReadOnly {
		return
	}
	if _, busy := d.cleaning.LoadOrStore(c.UID, true); busy {
		return
	}
	d.cleanups.Go(func() {
		defer d.cleaning.Delete(c.UID)
		logger := klog.FromContext(ctx).WithValues("name", c.Name)
		for pause := 50 * time.Millisecond; ctx.Err() == nil; pause = longer(pause) {
			err := d.finish(ctx, c)
			if err == nil || apierrors.IsNotFound(err) {
				return
			}
			logger.V(2).Info("The deletion of a CRD is not complete", "reason", err.Error())
			d.report(ctx, c, err)
			select {
			case <-time.After(pause):
			case <-ctx.Done():
			}
		}
	})
}

// longer returns the pause after another one between the attempts of a deletion.
func longer(pause time.Duration) time.Duration { return min(2*pause, 5*time.Second) }

// finish deletes the objects of a CRD and then the CRD. It returns an error if it must be
// called again, and a not-found error if the CRD is gone.
func (d *Definitions) finish(ctx context.Context, c *api.CustomResourceDefinition) error {
	s, done, err := d.storage()
	if err != nil {
		return err
	}
	defer done()
	if err := s.close(ctx, c.Name, c.UID); err != nil {
		return err
	}
	if err := d.deleteObjects(ctx, c); err != nil {
		return err
	}
	return s.release(ctx, c.Name, c.UID)
}

// errRemaining is returned while objects wait for their finalizers.
var errRemaining = errors.New("could not confirm zero CustomResources remaining")

// deleteObjects deletes the objects of a CRD, and returns nil if none is left.
func (d *Definitions) deleteObjects(ctx context.Context, c *api.CustomResourceDefinition) error {
	if c.Name == Name {
		return nil // its objects would be the CRDs
	}
	left, first, err := d.config.Fences.Sweep(ctx, runtimeschema.GroupResource{Group: c.Spec.Group, Resource: c.Spec.Names.Plural}, c.UID)
	if left > 0 {
		return fmt.Errorf("%w: %d left, the first is %s", errRemaining, left, first)
	}
	return err
}

// report writes to the status why a deletion is not complete.
func (d *Definitions) report(ctx context.Context, c *api.CustomResourceDefinition, why error) {
	reason := api.ReasonInstanceDeletionFailed
	if errors.Is(why, errRemaining) {
		reason = api.ReasonInstanceDeletionCheck
	}
	s, release, err := d.storage()
	if err != nil {
		return
	}
	defer release()
	_, err = s.rewrite(ctx, c.Name, storage.Preconditions{UID: &c.UID}, false,
		func(stored *api.CustomResourceDefinition, _ runtime.Object) error {
			setTerminating(stored, api.ConditionTrue, reason, why.Error())
			return nil
		})
	if err != nil && !apierrors.IsNotFound(err) && !backend.IsFull(err) && ctx.Err() == nil {
		klog.FromContext(ctx).Error(err, "Cannot write the status of a CRD", "name", c.Name)
	}
}

// close closes the fence of a CRD that is being deleted: a server without fences may have
// marked it.
func (s *crdStorage) close(ctx context.Context, name string, uid types.UID) error {
	obj, err := s.Get(ctx, name, &metav1.GetOptions{})
	if err != nil {
		return err
	}
	m := obj.(metav1.Object) // a CRD
	if m.GetUID() != uid {
		return apierrors.NewNotFound(s.DefaultQualifiedResource, name)
	}
	ok, err := s.definitions.config.Fences.Adopt(ctx, name, uid, revision(m.GetResourceVersion()), true)
	if err == nil && !ok {
		err = errChanged
	}
	return err
}

// errChanged is returned if a CRD is no longer in the expected state.
var errChanged = errors.New("the CRD has changed")

// errFinalizers is returned if a CRD has other finalizers than ours.
var errFinalizers = errors.New("there are other finalizers")

// release deletes a CRD whose objects are gone. If it has other finalizers, it only removes
// ours.
func (s *crdStorage) release(ctx context.Context, name string, uid types.UID) error {
	err := s.Storage.Delete(ctx, s.key(ctx, name), s.NewFunc(), &storage.Preconditions{UID: &uid}, func(_ context.Context, obj runtime.Object) error {
		if len(others(obj.(metav1.Object).GetFinalizers())) > 0 {
			return errFinalizers
		}
		return nil
	}, false, nil, storage.DeleteOptions{})
	if !errors.Is(err, errFinalizers) {
		return storeerr.InterpretDeleteError(err, s.DefaultQualifiedResource, name)
	}
	_, err = s.rewrite(ctx, name, storage.Preconditions{UID: &uid}, false, func(c *api.CustomResourceDefinition, _ runtime.Object) error {
		c.Finalizers = others(c.Finalizers)
		if len(c.Finalizers) == 0 {
			return errors.New("the other finalizers are gone") // it can be deleted now
		}
		reason, message := api.ReasonInstanceDeletionCompleted, "removed all instances"
		switch {
		case name == Name:
			reason, message = api.ReasonOverlappingBuiltIn, "instances overlap with built-in resources in storage"
		case !established(c):
			reason, message = "NeverEstablished", "resource was never established"
		}
		setTerminating(c, api.ConditionFalse, reason, message)
		return nil
	})
	return err
}

// others returns the finalizers that are not ours.
func others(finalizers []string) []string {
	return slices.DeleteFunc(slices.Clone(finalizers), func(f string) bool { return f == api.CustomResourceCleanupFinalizer })
}

func established(c *api.CustomResourceDefinition) bool {
	return slices.ContainsFunc(c.Status.Conditions, func(c api.CustomResourceDefinitionCondition) bool {
		return c.Type == api.Established && c.Status == api.ConditionTrue
	})
}
