package rules

import (
	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// NodeSelector validates a selector of nodes. invalidValues accepts values that no label can
// have.
func NodeSelector(selector *corev1.NodeSelector, invalidValues bool, path *field.Path) (errs field.ErrorList) {
	terms := path.Child("nodeSelectorTerms")
	if len(selector.NodeSelectorTerms) == 0 {
		return field.ErrorList{field.Required(terms, "must have at least one node selector term")}
	}
	for i := range selector.NodeSelectorTerms {
		errs = append(errs, NodeSelectorTerm(&selector.NodeSelectorTerms[i], invalidValues, terms.Index(i))...)
	}
	return errs
}

// NodeSelectorTerm validates a term of a selector of nodes.
func NodeSelectorTerm(term *corev1.NodeSelectorTerm, invalidValues bool, path *field.Path) (errs field.ErrorList) {
	for i := range term.MatchExpressions {
		errs = append(errs, nodeLabelRequirement(&term.MatchExpressions[i], invalidValues, path.Child("matchExpressions").Index(i))...)
	}
	for i := range term.MatchFields {
		errs = append(errs, nodeFieldRequirement(&term.MatchFields[i], path.Child("matchFields").Index(i))...)
	}
	return errs
}

func nodeLabelRequirement(r *corev1.NodeSelectorRequirement, invalidValues bool, path *field.Path) (errs field.ErrorList) {
	values := path.Child("values")
	switch r.Operator {
	case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
		if len(r.Values) == 0 {
			errs = append(errs, field.Required(values, "must be specified when `operator` is 'In' or 'NotIn'"))
		}
	case corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist:
		if len(r.Values) > 0 {
			errs = append(errs, field.Forbidden(values, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"))
		}
	case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
		if len(r.Values) != 1 {
			errs = append(errs, field.Required(values, "must be specified single value when `operator` is 'Lt' or 'Gt'"))
		}
	default:
		errs = append(errs, field.Invalid(path.Child("operator"), r.Operator, "not a valid selector operator"))
	}
	errs = append(errs, metav1validation.ValidateLabelName(r.Key, path.Child("key"))...)
	if invalidValues {
		return errs
	}
	for i, value := range r.Values {
		errs = append(errs, Invalid(value, values.Index(i), validation.IsValidLabelValue(value))...)
	}
	return errs
}

func nodeFieldRequirement(r *corev1.NodeSelectorRequirement, path *field.Path) (errs field.ErrorList) {
	switch r.Operator {
	case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
		if len(r.Values) != 1 {
			errs = append(errs, field.Required(path.Child("values"),
				"must be only one value when `operator` is 'In' or 'NotIn' for node field selector"))
		}
	default:
		errs = append(errs, field.Invalid(path.Child("operator"), r.Operator, "not a valid selector operator"))
	}
	if r.Key != metav1.ObjectNameField {
		return append(errs, field.Invalid(path.Child("key"), r.Key, "not a valid field selector key"))
	}
	for i, value := range r.Values {
		errs = append(errs, Invalid(value, path.Child("values").Index(i), apivalidation.NameIsDNSSubdomain(value, false))...)
	}
	return errs
}
