package builtin

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"espalier.dev/kinds/kind"
	"espalier.dev/server/resource"
)

// scaleREST presents an object as a Scale.
type scaleREST struct {
	store *registry.Store
	gv    runtimeschema.GroupVersion
}

var (
	_ rest.Patcher                  = &scaleREST{}
	_ rest.GroupVersionKindProvider = &scaleREST{}
)

// scalable returns the parts of an object that a Scale shows.
func scalable(obj runtime.Object) (meta kind.Object, replicas **int32, have int32, selector *metav1.LabelSelector, err error) {
	switch o := obj.(type) {
	case *appsv1.Deployment:
		return o, &o.Spec.Replicas, o.Status.Replicas, o.Spec.Selector, nil
	case *appsv1.ReplicaSet:
		return o, &o.Spec.Replicas, o.Status.Replicas, o.Spec.Selector, nil
	case *appsv1.StatefulSet:
		return o, &o.Spec.Replicas, o.Status.Replicas, o.Spec.Selector, nil
	case *corev1.ReplicationController:
		return o, &o.Spec.Replicas, o.Status.Replicas, &metav1.LabelSelector{MatchLabels: o.Spec.Selector}, nil
	}
	return nil, nil, 0, nil, fmt.Errorf("%T cannot be scaled", obj)
}

// scaleOf returns an object as a Scale.
func scaleOf(obj runtime.Object) (*autoscalingv1.Scale, error) {
	m, replicas, have, by, err := scalable(obj)
	if err != nil {
		return nil, err
	}
	var selector labels.Selector = labels.Nothing()
	if by != nil {
		if selector, err = metav1.LabelSelectorAsSelector(by); err != nil {
			return nil, err
		}
	}
	scale := &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{
			Name: m.GetName(), Namespace: m.GetNamespace(), UID: m.GetUID(), ResourceVersion: m.GetResourceVersion(), CreationTimestamp: m.GetCreationTimestamp(),
		},
		Status: autoscalingv1.ScaleStatus{Replicas: have, Selector: selector.String()},
	}
	if *replicas != nil {
		scale.Spec.Replicas = **replicas
	}
	return scale, nil
}

// New returns an empty Scale.
func (r *scaleREST) New() runtime.Object { return &autoscalingv1.Scale{} }

// Destroy does nothing: the store belongs to the main endpoint.
func (r *scaleREST) Destroy() {}

// GroupVersionKind returns the kind of Scale.
func (r *scaleREST) GroupVersionKind(runtimeschema.GroupVersion) runtimeschema.GroupVersionKind {
	return resource.ScaleKind()
}

// ConvertToTable returns the columns of a Scale.
func (r *scaleREST) ConvertToTable(ctx context.Context, obj, options runtime.Object) (*metav1.Table, error) {
	return r.store.ConvertToTable(ctx, obj, options)
}

// Get returns the Scale of an object.
func (r *scaleREST) Get(ctx context.Context, name string, o *metav1.GetOptions) (runtime.Object, error) {
	obj, err := r.store.Get(ctx, name, o)
	if err != nil {
		return nil, err
	}
	return scaleOf(obj)
}

// Update changes the number of replicas.
func (r *scaleREST) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc, update rest.ValidateObjectUpdateFunc, _ bool, o *metav1.UpdateOptions) (runtime.Object, bool, error) {
	obj, _, err := r.store.Update(ctx, name, &scaleUpdate{UpdatedObjectInfo: info, rest: r},
		func(ctx context.Context, obj runtime.Object) error {
			scale, err := scaleOf(obj)
			if err != nil {
				return err
			}
			return create(ctx, scale)
		},
		func(ctx context.Context, obj, old runtime.Object) error {
			scale, err := scaleOf(obj)
			if err != nil {
				return err
			}
			before, err := scaleOf(old)
			if err != nil {
				return err
			}
			return update(ctx, scale, before)
		}, false, o)
	if err != nil {
		return nil, false, err
	}
	scale, err := scaleOf(obj)
	return scale, false, err
}

// scaleUpdate applies a client's change of the Scale to the object.
type scaleUpdate struct {
	rest.UpdatedObjectInfo
	rest *scaleREST
}

// UpdatedObject returns the changed object.
func (s *scaleUpdate) UpdatedObject(ctx context.Context, old runtime.Object) (runtime.Object, error) {
	obj := old.DeepCopyObject()
	m, replicas, _, _, err := scalable(obj)
	if err != nil {
		return nil, err
	}
	scale, err := scaleOf(obj)
	if err != nil {
		return nil, err
	}
	owners := managedfields.NewScaleHandler(m.GetManagedFields(), s.rest.gv, managedfields.ResourcePathMappings{
		s.rest.gv.String(): fieldpath.MakePathOrDie("spec", "replicas"),
	})
	if scale.ManagedFields, err = owners.ToSubresource(); err != nil {
		return nil, err
	}
	changed, err := s.UpdatedObjectInfo.UpdatedObject(ctx, scale)
	if err != nil {
		return nil, err
	}
	scale, ok := changed.(*autoscalingv1.Scale)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("expected input object type to be Scale, but %T", changed))
	}
	if errs := validateScale(scale); len(errs) > 0 {
		return nil, apierrors.NewInvalid(resource.ScaleKind().GroupKind(), m.GetName(), errs)
	}
	if scale.UID != "" && scale.UID != m.GetUID() {
		return nil, apierrors.NewConflict(runtimeschema.GroupResource{Group: resource.ScaleKind().Group, Resource: "scales"}, m.GetName(),
			fmt.Errorf("Precondition failed: UID in precondition: %v, UID in object meta: %v", scale.UID, m.GetUID()))
	}
	*replicas = &scale.Spec.Replicas
	if scale.ResourceVersion != "" {
		m.SetResourceVersion(scale.ResourceVersion)
	}
	entries, err := owners.ToParent(scale.ManagedFields)
	if err != nil {
		return nil, err
	}
	m.SetManagedFields(entries)
	return obj, nil
}

// validateScale validates a Scale that a client has written.
func validateScale(s *autoscalingv1.Scale) field.ErrorList {
	errs := validation.ValidateObjectMeta(&s.ObjectMeta, true, validation.NameIsDNSSubdomain, field.NewPath("metadata"))
	if s.Spec.Replicas < 0 {
		errs = append(errs, field.Invalid(field.NewPath("spec", "replicas"), s.Spec.Replicas, "must be greater than or equal to 0"))
	}
	return errs
}
