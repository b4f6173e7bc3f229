package plugins

import (
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"
)

// runtimeClass gives new pods the overhead, the node selector and the tolerations of their runtime
// class.
type runtimeClass struct {
	*admission.Handler
	objects Lister
}

var (
	_ admission.MutationInterface   = &runtimeClass{}
	_ admission.ValidationInterface = &runtimeClass{}
)

func newRuntimeClass(objects Lister) *runtimeClass {
	return &runtimeClass{admission.NewHandler(admission.Create), objects}
}

// class returns the pod of a request, or nil if it is for another resource, and its class. The
// class of a pod that names none has no overhead and no scheduling.
func (p *runtimeClass) class(ctx context.Context, a admission.Attributes) (*corev1.Pod, *nodev1.RuntimeClass, error) {
	if !handles(a, pods) {
		return nil, nil, nil
	}
	pod, err := as[*corev1.Pod](a.GetObject())
	if err != nil {
		return nil, nil, err
	}
	if pod.Spec.RuntimeClassName == nil {
		return pod, &nodev1.RuntimeClass{}, nil
	}
	class, err := get[*nodev1.RuntimeClass](ctx, p.objects, runtimeClasses, "", *pod.Spec.RuntimeClassName)
	if errors.IsNotFound(err) {
		return nil, nil, forbidden(a, "pod rejected: RuntimeClass %q not found", *pod.Spec.RuntimeClassName)
	}
	if err != nil {
		return nil, nil, err
	}
	return pod, class.DeepCopy(), nil
}

// Admit implements admission.MutationInterface.
func (p *runtimeClass) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	pod, class, err := p.class(ctx, a)
	if pod == nil || err != nil {
		return err
	}
	if class.Overhead != nil {
		if len(pod.Spec.Overhead) > 0 && !equality.Semantic.DeepEqual(class.Overhead.PodFixed, pod.Spec.Overhead) {
			return forbidden(a, "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")
		}
		pod.Spec.Overhead = class.Overhead.PodFixed
	}
	if class.Scheduling == nil {
		return nil
	}
	if pod.Spec.NodeSelector == nil {
		pod.Spec.NodeSelector = class.Scheduling.NodeSelector
	}
	for _, key := range slices.Sorted(maps.Keys(class.Scheduling.NodeSelector)) {
		want := class.Scheduling.NodeSelector[key]
		if have, ok := pod.Spec.NodeSelector[key]; ok && have != want {
			return forbidden(a, "conflict: runtimeClass.scheduling.nodeSelector[%s] = %s; pod.spec.nodeSelector[%s] = %s", key, want,
				key, have)
		}
		pod.Spec.NodeSelector[key] = want
	}
	pod.Spec.Tolerations = mergeTolerations(append(pod.Spec.Tolerations, class.Scheduling.Tolerations...))
	return nil
}

// Validate implements admission.ValidationInterface.
func (p *runtimeClass) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	pod, class, err := p.class(ctx, a)
	switch {
	case pod == nil || err != nil:
		return err
	case class.Overhead == nil && pod.Spec.Overhead != nil:
		return forbidden(a, "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead")
	case class.Overhead != nil && !equality.Semantic.DeepEqual(class.Overhead.PodFixed, pod.Spec.Overhead):
		return forbidden(a, "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")
	}
	return nil
}

// mergeTolerations drops tolerations that others include, and all but the first of equal ones.
func mergeTolerations(all []corev1.Toleration) (merged []corev1.Toleration) {
	for i, t := range all {
		redundant := slices.ContainsFunc(merged, func(other corev1.Toleration) bool { return includes(other, t) }) ||
			slices.ContainsFunc(all[i+1:], func(other corev1.Toleration) bool {
				return !equality.Semantic.DeepEqual(other, t) && includes(other, t)
			})
		if !redundant {
			merged = append(merged, t)
		}
	}
	return merged
}

// includes reports whether a toleration tolerates all that another one does.
func includes(t, other corev1.Toleration) bool {
	if equality.Semantic.DeepEqual(t, other) {
		return true
	}
	allKeys := t.Key == "" && t.Operator == corev1.TolerationOpExists
	if t.Key != other.Key && !allKeys || t.Effect != other.Effect && t.Effect != "" {
		return false
	}
	if t.Effect == corev1.TaintEffectNoExecute && t.TolerationSeconds != nil &&
		(other.TolerationSeconds == nil || *other.TolerationSeconds > *t.TolerationSeconds) {
		return false
	}
	switch t.Operator {
	case corev1.TolerationOpExists:
		return true
	case corev1.TolerationOpEqual, "":
		return other.Operator == corev1.TolerationOpEqual && other.Value == t.Value
	}
	return false
}
