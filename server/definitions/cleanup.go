package definitions

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/klog/v2"

	"espalier.dev/api"
	"espalier.dev/crd"
)

// cleanUp deletes the objects of a definition that is being deleted, beside the
// reconciler, and then lets the definition go.
func (d *Definitions) cleanUp(ctx context.Context, def *crd.Definition) {
	c := def.CRD()
	if c.DeletionTimestamp == nil || !slices.Contains(c.Finalizers, api.CustomResourceCleanupFinalizer) {
		return
	}
	if _, busy := d.cleaning.LoadOrStore(c.UID, true); busy {
		return
	}
	d.cleanups.Go(func() {
		defer d.cleaning.Delete(c.UID)
		logger := klog.FromContext(ctx).WithValues("name", c.Name)
		for pause := 50 * time.Millisecond; ctx.Err() == nil; pause = min(2*pause, 5*time.Second) {
			err := d.deleteObjects(ctx, def)
			if err == nil {
				err = d.release(ctx, def)
			}
			if err == nil || apierrors.IsNotFound(err) {
				return
			}
			logger.V(2).Info("Objects of a definition that is being deleted remain", "reason", err.Error())
			d.report(ctx, c, err)
			select {
			case <-time.After(pause):
			case <-ctx.Done():
			}
			if now := d.Catalog().Get(c.Name); now == nil || now.CRD().UID != c.UID {
				return
			}
		}
	})
}

// errRemaining says that objects are left, which wait for their finalizers.
var errRemaining = errors.New("could not confirm zero CustomResources remaining")

// deleteObjects deletes the objects of a definition, and returns nil when there are
// none left.
func (d *Definitions) deleteObjects(ctx context.Context, def *crd.Definition) error {
	if !def.Established() || def.Name() == Name || def.Storage() == nil {
		return nil
	}
	d.handler.Settle(def)
	objects, release, err := d.handler.Storage(def, def.Storage().Name())
	if err != nil {
		return fmt.Errorf("could not list instances: %w", err)
	}
	defer release()
	everywhere := apirequest.WithNamespace(ctx, metav1.NamespaceAll)
	left, err := list(everywhere, objects)
	if err != nil {
		return fmt.Errorf("could not list instances: %w", err)
	}
	seen := map[string]bool{}
	for _, item := range left {
		if ns := item.GetNamespace(); !seen[ns] {
			seen[ns] = true
			if _, err := objects.DeleteCollection(apirequest.WithNamespace(ctx, ns), rest.ValidateAllObjectFunc, &metav1.DeleteOptions{}, &metainternalversion.ListOptions{}); err != nil {
				return fmt.Errorf("could not issue all deletes: %w", err)
			}
		}
	}
	if left, err = list(everywhere, objects); err != nil {
		return fmt.Errorf("could not list instances: %w", err)
	}
	if len(left) > 0 {
		return fmt.Errorf("%w: %d left, the first is %s", errRemaining, len(left), left[0].GetName())
	}
	return nil
}

func list(ctx context.Context, objects rest.StandardStorage) ([]unstructured.Unstructured, error) {
	l, err := objects.List(ctx, &metainternalversion.ListOptions{})
	if err != nil {
		return nil, err
	}
	return l.(*unstructured.UnstructuredList).Items, nil
}

// report says in the status why a deletion takes its time.
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
	_, err = s.rewrite(ctx, c.Name, storage.Preconditions{UID: &c.UID}, false, func(stored *api.CustomResourceDefinition, _ runtime.Object) error {
		setTerminating(stored, api.ConditionTrue, reason, why.Error())
		return nil
	})
	if err != nil && !apierrors.IsNotFound(err) && ctx.Err() == nil {
		klog.FromContext(ctx).Error(err, "The status of a definition could not be written", "name", c.Name)
	}
}

// release lets a definition go whose objects are gone.
func (d *Definitions) release(ctx context.Context, def *crd.Definition) error {
	status, reason, message := api.ConditionFalse, api.ReasonInstanceDeletionCompleted, "removed all instances"
	switch {
	case def.Name() == Name:
		reason, message = api.ReasonOverlappingBuiltIn, "instances overlap with built-in resources in storage"
	case !def.Established():
		reason, message = "NeverEstablished", "resource was never established"
	}
	s, done, err := d.storage()
	if err != nil {
		return err
	}
	defer done()
	c := def.CRD()
	out, err := s.rewrite(ctx, c.Name, storage.Preconditions{UID: &c.UID}, false, func(stored *api.CustomResourceDefinition, _ runtime.Object) error {
		setTerminating(stored, status, reason, message)
		stored.Finalizers = slices.DeleteFunc(stored.Finalizers, func(f string) bool { return f == api.CustomResourceCleanupFinalizer })
		return nil
	})
	if err != nil {
		return err
	}
	if len(out.(*unstructured.Unstructured).GetFinalizers()) > 0 {
		return nil
	}
	_, _, err = s.Store.Delete(ctx, c.Name, rest.ValidateAllObjectFunc, &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &c.UID}})
	return err
}
