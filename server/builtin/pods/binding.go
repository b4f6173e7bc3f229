package pods

import (
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/server/builtin/rules"
)

// ValidateBinding validates the assignment of a pod to a node.
func ValidateBinding(binding *corev1.Binding) (errs field.ErrorList) {
	target := field.NewPath("target")
	if kind := binding.Target.Kind; kind != "" && kind != "Node" {
		errs = append(errs, field.NotSupported(target.Child("kind"), kind, []string{"Node", "<empty>"}))
	}
	return append(errs, rules.Required(binding.Target.Name, target.Child("name"))...)
}

// Bind assigns a pod to a node. The error is a conflict: the state of the pod does not allow it.
func Bind(pod *corev1.Pod, binding *corev1.Binding) error {
	switch {
	case pod.DeletionTimestamp != nil:
		return fmt.Errorf("pod %s is being deleted, cannot be assigned to a host", pod.Name)
	case pod.Spec.NodeName != "":
		return fmt.Errorf("pod %v is already assigned to node %q", pod.Name, pod.Spec.NodeName)
	case len(pod.Spec.SchedulingGates) > 0:
		return fmt.Errorf("pod %v has non-empty .spec.schedulingGates", pod.Name)
	}
	pod.Spec.NodeName = binding.Target.Name
	pod.Status.NominatedNodeName = ""
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	maps.Copy(pod.Annotations, binding.Annotations)
	if pod.Labels == nil && len(binding.Labels) > 0 {
		pod.Labels = map[string]string{}
	}
	maps.Copy(pod.Labels, binding.Labels)
	setScheduled(&pod.Status)
	return nil
}

// setScheduled sets the condition that the pod has a node.
func setScheduled(status *corev1.PodStatus) {
	condition := corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}
	for i, old := range status.Conditions {
		if old.Type == corev1.PodScheduled {
			if old.Status == corev1.ConditionTrue {
				condition.LastTransitionTime = old.LastTransitionTime
			}
			status.Conditions[i] = condition
			return
		}
	}
	status.Conditions = append(status.Conditions, condition)
}

// NeedsDisruptionBudget reports whether the eviction of a pod has to respect disruption budgets.
// Others do not run.
func NeedsDisruptionBudget(pod *corev1.Pod) bool {
	switch pod.Status.Phase {
	case corev1.PodSucceeded, corev1.PodFailed, corev1.PodPending:
		return false
	}
	return pod.DeletionTimestamp.IsZero()
}
