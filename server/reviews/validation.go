package reviews

import (
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func validateSelfSubjectAccessReview(r *authorizationv1.SelfSubjectAccessReview) field.ErrorList {
	errs := validateTarget(r.Spec.ResourceAttributes, r.Spec.NonResourceAttributes)
	errs = append(errs, validateSelectors(r.Spec.ResourceAttributes)...)
	return append(errs, validateMetadata(r.ObjectMeta, false)...)
}

func validateSubjectAccessReview(r *authorizationv1.SubjectAccessReview) field.ErrorList {
	return append(validateSpec(&r.Spec), validateMetadata(r.ObjectMeta, false)...)
}

func validateLocalSubjectAccessReview(r *authorizationv1.LocalSubjectAccessReview) field.ErrorList {
	errs := append(validateSpec(&r.Spec), validateMetadata(r.ObjectMeta, true)...)
	if a := r.Spec.ResourceAttributes; a != nil && a.Namespace != r.Namespace {
		errs = append(errs, field.Invalid(field.NewPath("spec.resourceAttributes.namespace"), a.Namespace, "must match metadata.namespace"))
	}
	if a := r.Spec.NonResourceAttributes; a != nil {
		errs = append(errs, field.Invalid(field.NewPath("spec.nonResourceAttributes"), shown(a), "disallowed on this kind of request"))
	}
	return errs
}

func validateSpec(s *authorizationv1.SubjectAccessReviewSpec) field.ErrorList {
	errs := validateTarget(s.ResourceAttributes, s.NonResourceAttributes)
	if s.User == "" && len(s.Groups) == 0 {
		errs = append(errs, field.Invalid(field.NewPath("spec", "user"), s.User, "at least one of user or group must be specified"))
	}
	return append(errs, validateSelectors(s.ResourceAttributes)...)
}

// shown returns attributes as kube-apiserver shows them in errors, where field names are those
// of Go.
func shown(a *authorizationv1.NonResourceAttributes) any {
	if a == nil {
		return nil
	}
	return struct{ Path, Verb string }{a.Path, a.Verb}
}

// validateTarget checks that a review is about a resource or a path.
func validateTarget(resource *authorizationv1.ResourceAttributes, other *authorizationv1.NonResourceAttributes) (errs field.ErrorList) {
	spec := field.NewPath("spec")
	if resource != nil && other != nil {
		errs = append(errs, field.Invalid(spec.Child("nonResourceAttributes"), shown(other),
			"cannot be specified in combination with resourceAttributes"))
	}
	if resource == nil && other == nil {
		errs = append(errs, field.Invalid(spec.Child("resourceAttributes"), shown(other),
			"exactly one of nonResourceAttributes or resourceAttributes must be specified"))
	}
	return errs
}

// validateMetadata checks that there is none, apart from the namespace of a local review.
func validateMetadata(m metav1.ObjectMeta, local bool) field.ErrorList {
	rest, detail := m, "must be empty"
	rest.ManagedFields = nil
	if local {
		rest.Namespace, detail = "", "must be empty except for namespace"
	}
	if equality.Semantic.DeepEqual(rest, metav1.ObjectMeta{}) {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("metadata"), m, detail)}
}

// validateSelectors checks the selectors of a resource. Operators may be unknown: newer clients
// may know more of them.
func validateSelectors(a *authorizationv1.ResourceAttributes) (errs field.ErrorList) {
	if a == nil {
		return nil
	}
	path := field.NewPath("spec.resourceAttributes")
	if s := a.FieldSelector; s != nil {
		p := path.Child("fieldSelector")
		errs = append(errs, validateForm(p, s.RawSelector, len(s.Requirements))...)
		for i, r := range s.Requirements {
			errs = append(errs, validation.ValidateFieldSelectorRequirement(r,
				validation.FieldSelectorValidationOptions{AllowUnknownOperatorInRequirement: true}, p.Child("requirements").Index(i))...)
		}
	}
	if s := a.LabelSelector; s != nil {
		p := path.Child("labelSelector")
		errs = append(errs, validateForm(p, s.RawSelector, len(s.Requirements))...)
		for i, r := range s.Requirements {
			errs = append(errs, validation.ValidateLabelSelectorRequirement(r,
				validation.LabelSelectorValidationOptions{AllowUnknownOperatorInRequirement: true}, p.Child("requirements").Index(i))...)
		}
	}
	return errs
}

// validateForm checks that a selector is either a text or a list.
func validateForm(path *field.Path, raw string, requirements int) (errs field.ErrorList) {
	if raw != "" && requirements > 0 {
		errs = append(errs, field.Invalid(path.Child("rawSelector"), raw, "may not specified at the same time as requirements"))
	}
	if raw == "" && requirements == 0 {
		errs = append(errs, field.Required(path.Child("requirements"),
			fmt.Sprintf("when %s is specified, requirements or rawSelector is required", path)))
	}
	return errs
}
