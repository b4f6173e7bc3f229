package fairness

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	utilflowcontrol "k8s.io/apiserver/pkg/util/flowcontrol"
	"k8s.io/klog/v2"

	"espalier.dev/kinds/kind"
	objects "espalier.dev/server/builtin/bootstrap"
)

const (
	// keepInterval is the time between two checks of the objects that every server has, as in
	// kube-apiserver, and retryInterval that after one has failed.
	keepInterval  = time.Minute
	retryInterval = 5 * time.Second
	// producer is the field manager of these objects, as in kube-apiserver.
	producer = "api-priority-and-fairness-config-producer-v1"
)

// Follow follows the stored flow schemas and priority levels, and keeps those that every server has,
// until ctx or the store ends.
func (c *Control) Follow(ctx context.Context) error {
	select {
	case <-c.config.Store.Loaded():
	case <-ctx.Done():
		return ctx.Err()
	}
	// The storage wants to know that the objects are in no namespace.
	group, ctx := errgroup.WithContext(apirequest.WithNamespace(ctx, metav1.NamespaceNone))
	c.mu.Lock()
	c.writes = ctx
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		c.writes = nil
		c.mu.Unlock()
		c.writing.Wait()
	}()
	synced := make(chan struct{})
	closed := false
	group.Go(func() error {
		return c.follow(ctx, func() {
			if !closed {
				closed = true
				close(synced)
			}
		})
	})
	group.Go(func() error { return c.keepAlways(ctx, synced) })
	return group.Wait()
}

// keepAlways keeps the objects that every server has. An error does not end it: the server works
// without them, and etcd may be full.
func (c *Control) keepAlways(ctx context.Context, synced <-chan struct{}) error {
	for failed := false; ; {
		err := c.keep(ctx)
		if err != nil && ctx.Err() == nil && !failed {
			klog.FromContext(ctx).Error(err, "Failed to write the flow schemas and priority levels that every server has")
		}
		failed = err != nil
		if synced != nil {
			select {
			case <-synced:
			case <-ctx.Done():
				return ctx.Err()
			}
			synced = nil
			select {
			case <-c.ready:
			default:
				close(c.ready)
			}
		}
		pause := keepInterval
		if failed {
			pause = retryInterval
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// keep creates the objects that every server has, unless they exist, brings them up to date unless a
// user has taken them over, and deletes those of earlier versions.
func (c *Control) keep(ctx context.Context) error {
	all, err := wanted()
	if err != nil {
		return err
	}
	if err := c.kinds.Keep(ctx, all, update); err != nil {
		return err
	}
	names := map[schema.GroupVersionResource]map[string]bool{schemas: {}, levels: {}}
	for _, obj := range all {
		names[resourceOf(obj)][obj.GetName()] = true
	}
	// A flow schema refers to a priority level.
	for _, from := range []struct {
		resource schema.GroupVersionResource
		informer *informer
	}{{schemas, c.schemas}, {levels, c.levels}} {
		for _, one := range from.informer.objects.List() {
			obj := one.(kind.Object)
			if obj.GetAnnotations()[v1.AutoUpdateAnnotationKey] != "true" || names[from.resource][obj.GetName()] {
				continue
			}
			if err := c.remove(ctx, from.resource, obj); err != nil {
				return err
			}
		}
	}
	return nil
}

// remove deletes an object, unless it was changed since.
func (c *Control) remove(ctx context.Context, from schema.GroupVersionResource, obj kind.Object) error {
	storage, err := c.kinds.Storage(from)
	if err != nil {
		return err
	}
	uid, version := obj.GetUID(), obj.GetResourceVersion()
	_, _, err = storage.Delete(ctx, obj.GetName(), rest.ValidateAllObjectFunc,
		&metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version}})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

func resourceOf(obj kind.Object) schema.GroupVersionResource {
	if _, ok := obj.(*v1.FlowSchema); ok {
		return schemas
	}
	return levels
}

// wanted returns the objects that every server has, as they are created.
func wanted() (all []kind.Object, err error) {
	for _, list := range [][]*v1.PriorityLevelConfiguration{
		bootstrap.MandatoryPriorityLevelConfigurations, bootstrap.SuggestedPriorityLevelConfigurations,
	} {
		for _, l := range list {
			all = append(all, l.DeepCopy())
		}
	}
	for _, list := range [][]*v1.FlowSchema{bootstrap.MandatoryFlowSchemas, bootstrap.SuggestedFlowSchemas} {
		for _, s := range list {
			all = append(all, s.DeepCopy())
		}
	}
	now := metav1.Now().Rfc3339Copy()
	for _, obj := range all {
		// As long as its value is true, the server brings the object up to date.
		obj.SetAnnotations(map[string]string{v1.AutoUpdateAnnotationKey: "true"})
		empty := kind.Object(&v1.PriorityLevelConfiguration{})
		s, isSchema := obj.(*v1.FlowSchema)
		if isSchema {
			empty = &v1.FlowSchema{}
		}
		if err := objects.SetManager(producer, obj, empty, v1.SchemeGroupVersion.String(), []string{"status"}); err != nil {
			return nil, err
		}
		if isSchema {
			// What k8s.io/apiserver would write next.
			setCondition(s, v1.FlowSchemaCondition{
				Type: v1.FlowSchemaConditionDangling, Status: v1.ConditionFalse, LastTransitionTime: now, Reason: "Found",
				Message: fmt.Sprintf("This FlowSchema references the PriorityLevelConfiguration object named %q and it exists",
					s.Spec.PriorityLevelConfiguration.Name),
			}, utilflowcontrol.ConfigConsumerAsFieldManager)
		}
	}
	return all, nil
}

// update brings a stored object up to date, and reports whether it has changed. The annotation of an
// object decides who manages its spec. One without the annotation belongs to the server if its spec was
// never changed. Mandatory objects always belong to the server, apart from the shares of the priority
// level exempt.
func update(stored, wanted kind.Object) (changed bool) {
	value := stored.GetAnnotations()[v1.AutoUpdateAnnotationKey]
	ours := value == "true" || value != "false" && stored.GetGeneration() == 1 || isMandatory(wanted)
	if text := fmt.Sprint(ours); value != text {
		annotations := map[string]string{v1.AutoUpdateAnnotationKey: text}
		for key, value := range stored.GetAnnotations() {
			if key != v1.AutoUpdateAnnotationKey {
				annotations[key] = value
			}
		}
		stored.SetAnnotations(annotations)
		changed = true
	}
	if !ours {
		return changed
	}
	switch have := stored.(type) {
	case *v1.FlowSchema:
		spec := wanted.(*v1.FlowSchema).Spec.DeepCopy()
		if !equality.Semantic.DeepEqual(have.Spec, *spec) {
			have.Spec, changed = *spec, true
		}
	case *v1.PriorityLevelConfiguration:
		spec := wanted.(*v1.PriorityLevelConfiguration).Spec.DeepCopy()
		if have.Name == v1.PriorityLevelConfigurationNameExempt && have.Spec.Exempt != nil {
			spec.Exempt = have.Spec.Exempt
		}
		if !equality.Semantic.DeepEqual(have.Spec, *spec) {
			have.Spec, changed = *spec, true
		}
	}
	return changed
}

// isMandatory reports whether an object is one of those that cannot be changed.
func isMandatory(obj kind.Object) bool {
	name := obj.GetName()
	return name == "exempt" || name == "catch-all" // flow schemas and priority levels have the same names
}
