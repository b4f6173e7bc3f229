package rules

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Generation sets the generation of an object: 1 if it is new, and one more than before if it has
// changed. The generation in the request is not used; k8s.io/apiserver has replaced it in an
// update.
func Generation[T interface {
	metav1.Object
	comparable
}](obj, old T, unchanged bool) {
	var none T
	switch {
	case old == none:
		obj.SetGeneration(1)
	case !unchanged:
		obj.SetGeneration(old.GetGeneration() + 1)
	}
}
