package crd

import "k8s.io/apimachinery/pkg/util/validation/field"

// preserveWithDefaults rejects defaults in a CRD that does not prune.
func (d *demands) preserveWithDefaults(spec *formSpec, path *field.Path) field.ErrorList {
	if d.defaults && spec.preserves() && spec.anySchema(hasDefault) {
		return field.ErrorList{field.Invalid(path, true, "must be false in order to use defaults in the schema")}
	}
	return nil
}

// validatePreserve rejects turning pruning off, unless it was already off.
func validatePreserve(f, old *form) field.ErrorList {
	if old != nil && old.spec.preserve != nil && *old.spec.preserve || f.spec.preserve == nil || !*f.spec.preserve {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("spec", "preserveUnknownFields"), true,
		"cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead")}
}
