package rules

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// DeprecatedNodeLabel returns a message about a label of nodes that has been replaced, or nothing.
func DeprecatedNodeLabel(key string) string {
	switch key {
	case "beta.kubernetes.io/arch":
		return `deprecated since v1.14; use "kubernetes.io/arch" instead`
	case "beta.kubernetes.io/os":
		return `deprecated since v1.14; use "kubernetes.io/os" instead`
	case "failure-domain.beta.kubernetes.io/region":
		return `deprecated since v1.17; use "topology.kubernetes.io/region" instead`
	case "failure-domain.beta.kubernetes.io/zone":
		return `deprecated since v1.17; use "topology.kubernetes.io/zone" instead`
	case "beta.kubernetes.io/instance-type":
		return `deprecated since v1.17; use "node.kubernetes.io/instance-type" instead`
	case "app.kubernetes.io/created-by":
		return `deprecated since v1.9`
	case "scheduler.alpha.kubernetes.io/preferAvoidPods":
		return `deprecated since v1.22; use Taints and Tolerations instead`
	case "node-role.kubernetes.io/master":
		return `use "node-role.kubernetes.io/control-plane" instead`
	}
	return ""
}

// NodeSelectorTermWarnings returns warnings about deprecated labels in a term.
func NodeSelectorTermWarnings(term *corev1.NodeSelectorTerm, path *field.Path) (out []string) {
	for i, expression := range term.MatchExpressions {
		if message := DeprecatedNodeLabel(expression.Key); message != "" {
			out = append(out, fmt.Sprintf("%s: %s is %s", path.Child("matchExpressions").Index(i).Child("key"), expression.Key, message))
		}
	}
	return out
}

// HasInvalidNodeSelectorValues reports whether terms have values that no label can have.
func HasInvalidNodeSelectorValues(terms []corev1.NodeSelectorTerm) bool {
	for _, term := range terms {
		for _, expression := range term.MatchExpressions {
			for _, value := range expression.Values {
				if len(validation.IsValidLabelValue(value)) > 0 {
					return true
				}
			}
		}
	}
	return false
}
