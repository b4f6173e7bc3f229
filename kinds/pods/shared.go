package pods

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidateTolerations validates tolerations outside of a pod.
func ValidateTolerations(tolerations []corev1.Toleration, path *field.Path) field.ErrorList {
	return validateTolerations(tolerations, path, Options{})
}
