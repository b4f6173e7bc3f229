package admissionregistration

import v1 "k8s.io/api/admissionregistration/v1"

// FromV1alpha1 changes an object of version v1alpha1, as JSON, to one of v1: a reference to
// parameters has a default only in v1alpha1.
func FromV1alpha1(obj map[string]any) {
	items, _ := obj["items"].([]any) // of a list
	for _, item := range items {
		if o, ok := item.(map[string]any); ok {
			FromV1alpha1(o)
		}
	}
	spec, _ := obj["spec"].(map[string]any)
	if ref, ok := spec["paramRef"].(map[string]any); ok && ref["parameterNotFoundAction"] == nil {
		ref["parameterNotFoundAction"] = string(v1.DenyAction)
	}
}
