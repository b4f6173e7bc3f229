package builtin

import (
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
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"espalier.dev/kinds/kind"
	serverrest "espalier.dev/server/rest"
	"espalier.dev/server/served"
)

// newScale returns the endpoint of the subresource scale.
func newScale(store *registry.Store, gv runtimeschema.GroupVersion) *serverrest.Scale {
	return &serverrest.Scale{
		Scaler: scaler{}, Store: store, Version: gv, WrongKind: "expected input object type to be Scale, but ",
		Owned: managedfields.ResourcePathMappings{gv.String(): fieldpath.MakePathOrDie("spec", "replicas")},
	}
}

// scaler reads and sets the replicas of built-in kinds.
type scaler struct{}

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

// Scale returns an object as a Scale.
func (scaler) Scale(obj runtime.Object) (*autoscalingv1.Scale, bool, error) {
	m, replicas, have, by, err := scalable(obj)
	if err != nil {
		return nil, false, err
	}
	var selector labels.Selector = labels.Nothing()
	if by != nil {
		if selector, err = metav1.LabelSelectorAsSelector(by); err != nil {
			return nil, false, err
		}
	}
	var want int32
	if *replicas != nil {
		want = **replicas
	}
	return serverrest.NewScale(m, want, have, selector.String()), true, nil
}

// NoReplicas returns nil: the default of replicas is a number.
func (scaler) NoReplicas() error { return nil }

// SetScale validates a Scale and sets the replicas of an object.
func (scaler) SetScale(obj runtime.Object, sent *autoscalingv1.Scale) error {
	m, replicas, _, _, err := scalable(obj)
	if err != nil {
		return err
	}
	if errs := validateScale(sent); len(errs) > 0 {
		return apierrors.NewInvalid(served.ScaleKind().GroupKind(), m.GetName(), errs)
	}
	if sent.UID != "" && sent.UID != m.GetUID() {
		return apierrors.NewConflict(runtimeschema.GroupResource{Group: served.ScaleKind().Group, Resource: "scales"}, m.GetName(),
			fmt.Errorf("Precondition failed: UID in precondition: %v, UID in object meta: %v", sent.UID, m.GetUID()))
	}
	*replicas = &sent.Spec.Replicas
	return nil
}

// validateScale validates a Scale that a client has written.
func validateScale(s *autoscalingv1.Scale) field.ErrorList {
	errs := validation.ValidateObjectMeta(&s.ObjectMeta, true, validation.NameIsDNSSubdomain, field.NewPath("metadata"))
	if s.Spec.Replicas < 0 {
		errs = append(errs, field.Invalid(field.NewPath("spec", "replicas"), s.Spec.Replicas, "must be greater than or equal to 0"))
	}
	return errs
}
