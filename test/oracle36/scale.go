package main

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubernetes/pkg/apis/apps"
	"k8s.io/kubernetes/pkg/apis/autoscaling"
	autoscalingvalidation "k8s.io/kubernetes/pkg/apis/autoscaling/validation"
	core "k8s.io/kubernetes/pkg/apis/core"
)

// scalable reports whether a kind has the subresource scale.
func scalable(kind string) bool {
	return slices.Contains([]string{"Deployment", "ReplicaSet", "StatefulSet", "ReplicationController"}, kind)
}

// scaled returns an object with the replicas of a Scale. The function of the registries that
// does it belongs to their storages, whose dependencies are large.
func scaled(data []byte, namespace string, old runtime.Object) (runtime.Object, error) {
	decoded, err := decode(data, schema.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"})
	if err != nil {
		return nil, err
	}
	scale := decoded.(*autoscaling.Scale)
	if scale.Namespace == "" {
		scale.Namespace = namespace
	}
	obj := old.DeepCopyObject()
	var name string
	switch o := obj.(type) {
	case *apps.Deployment:
		name, o.Spec.Replicas, o.ResourceVersion = o.Name, scale.Spec.Replicas, scale.ResourceVersion
	case *apps.ReplicaSet:
		name, o.Spec.Replicas, o.ResourceVersion = o.Name, scale.Spec.Replicas, scale.ResourceVersion
	case *apps.StatefulSet:
		name, o.Spec.Replicas, o.ResourceVersion = o.Name, scale.Spec.Replicas, scale.ResourceVersion
	case *core.ReplicationController:
		name, o.Spec.Replicas, o.ResourceVersion = o.Name, &scale.Spec.Replicas, scale.ResourceVersion
	default:
		return nil, fmt.Errorf("%T has no scale", old)
	}
	if errs := autoscalingvalidation.ValidateScale(scale); len(errs) > 0 {
		return nil, errors.NewInvalid(autoscaling.Kind("Scale"), name, errs)
	}
	return obj, nil
}
