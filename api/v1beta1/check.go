package v1beta1

import "k8s.io/apimachinery/pkg/util/validation/field"

// CheckForm returns the errors that are specific to the form of v1beta1: values for all
// versions beside values for a version, values for each version that are all the same,
// and two different names of the first version. ToV1 uses the value at the top and the
// first of the versions, so call CheckForm before it. Everything else is validated as
// v1.
func CheckForm(crd *CustomResourceDefinition) field.ErrorList {
	var errs field.ErrorList
	spec, path := &crd.Spec, field.NewPath("spec")
	parts := []struct {
		top, word string
		atTop     bool
		isSet     func(*CustomResourceDefinitionVersion) bool
		get       func(*CustomResourceDefinitionVersion) any
	}{
		{"validation", "schemas", hasOpenAPI(spec.Validation),
			func(v *CustomResourceDefinitionVersion) bool { return v.Schema != nil }, getSchema},
		{"subresources", "subresources", spec.Subresources != nil,
			func(v *CustomResourceDefinitionVersion) bool { return v.Subresources != nil }, getSubresources},
		{"additionalPrinterColumns", "additionalPrinterColumns", len(spec.AdditionalPrinterColumns) > 0,
			func(v *CustomResourceDefinitionVersion) bool { return len(v.AdditionalPrinterColumns) > 0 }, getColumns},
		{"selectableFields", "selectableFields", len(spec.SelectableFields) > 0,
			func(v *CustomResourceDefinitionVersion) bool { return len(v.SelectableFields) > 0 }, getSelectable},
	}
	count := make([]int, len(parts))
	for p, part := range parts {
		for i := range spec.Versions {
			if part.isSet(&spec.Versions[i]) {
				count[p]++
			}
		}
		if part.atTop && count[p] > 0 {
			errs = append(errs, field.Forbidden(path.Child(part.top), "top-level and per-version "+part.word+" are mutually exclusive"))
		}
	}
	for p, part := range parts {
		if count[p] > 0 && count[p] == len(spec.Versions) && same(spec.Versions, part.get) {
			errs = append(errs, field.Invalid(path.Child("versions"), spec.Versions,
				"per-version "+part.word+" may not all be set to identical values (top-level "+part.top+" should be used instead)"))
		}
	}
	if spec.Version != "" && len(spec.Versions) > 0 && spec.Versions[0].Name != spec.Version {
		errs = append(errs, field.Invalid(path.Child("version"), spec.Version, "must match the first version in spec.versions"))
	}
	return errs
}
