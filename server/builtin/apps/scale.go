package apps

import (
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"espalier.dev/server/builtin/kind"
)

// Scale returns the scale of a deployment, a replica set, a stateful set or a replication
// controller, or nil for other objects.
func Scale(obj kind.Object) (*autoscalingv1.Scale, error) {
	var (
		wanted   *int32
		replicas int32
		selector *metav1.LabelSelector
	)
	switch obj := obj.(type) {
	case *appsv1.Deployment:
		wanted, replicas, selector = obj.Spec.Replicas, obj.Status.Replicas, obj.Spec.Selector
	case *appsv1.ReplicaSet:
		wanted, replicas, selector = obj.Spec.Replicas, obj.Status.Replicas, obj.Spec.Selector
	case *appsv1.StatefulSet:
		wanted, replicas, selector = obj.Spec.Replicas, obj.Status.Replicas, obj.Spec.Selector
	case *corev1.ReplicationController:
		wanted, replicas = obj.Spec.Replicas, obj.Status.Replicas
		selector = metav1.SetAsLabelSelector(labels.Set(obj.Spec.Selector))
	default:
		return nil, nil
	}
	text := ""
	if selector != nil {
		parsed, err := metav1.LabelSelectorAsSelector(selector)
		if err != nil {
			return nil, err
		}
		text = parsed.String()
	}
	return &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{
			Name:              obj.GetName(),
			Namespace:         obj.GetNamespace(),
			UID:               obj.GetUID(),
			ResourceVersion:   obj.GetResourceVersion(),
			CreationTimestamp: obj.GetCreationTimestamp(),
		},
		Spec:   autoscalingv1.ScaleSpec{Replicas: ptr.Deref(wanted, 0)},
		Status: autoscalingv1.ScaleStatus{Replicas: replicas, Selector: text},
	}, nil
}

// SetReplicas sets the wanted number of replicas of an object that has a scale.
func SetReplicas(obj kind.Object, replicas int32) {
	switch obj := obj.(type) {
	case *appsv1.Deployment:
		obj.Spec.Replicas = &replicas
	case *appsv1.ReplicaSet:
		obj.Spec.Replicas = &replicas
	case *appsv1.StatefulSet:
		obj.Spec.Replicas = &replicas
	case *corev1.ReplicationController:
		obj.Spec.Replicas = &replicas
	}
}
