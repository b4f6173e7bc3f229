// Package policy has the rules of pod disruption budgets.
package policy

import (
	"slices"

	v1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/kinds/kind"
	"espalier.dev/kinds/rules"
)

// Rules returns the rules of the kinds of policy, by resource.
func Rules() map[string]kind.Rules {
	return map[string]kind.Rules{
		"poddisruptionbudgets": {
			Conditional: true,
			Default:     kind.On(stripLabel),
			Main: kind.Write{
				Prepare:  kind.Change(prepare),
				Validate: kind.Check(validate),
				Reset:    []string{"status"},
			},
			Status: &kind.Write{
				Prepare:  kind.Change(func(obj, old *v1.PodDisruptionBudget) { obj.Spec = old.Spec }),
				Validate: kind.Check(validateStatus),
				Reset:    []string{"spec"},
			},
		},
	}
}

// stripLabel removes the requirements of a label from selectors. In v1beta1, which is no longer
// served, an empty selector matched no pods: the stored form was a requirement with this label. A
// selector with nothing but that requirement is preserved.
func stripLabel(b *v1.PodDisruptionBudget) {
	const label = "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match"
	s := b.Spec.Selector
	if s == nil || equality.Semantic.DeepEqual(*s, metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: label,
		Operator: metav1.LabelSelectorOpExists}}}) {
		return
	}
	s.MatchExpressions = slices.DeleteFunc(s.MatchExpressions, func(r metav1.LabelSelectorRequirement) bool { return r.Key == label })
}

func prepare(obj, old *v1.PodDisruptionBudget) {
	obj.Status = v1.PodDisruptionBudgetStatus{}
	if old != nil {
		obj.Status = old.Status
	}
	rules.Generation(obj, old, old != nil && equality.Semantic.DeepEqual(obj.Spec, old.Spec))
}

// validate does not check the metadata: k8s.io/apiserver checks that of all objects.
func validate(obj, old *v1.PodDisruptionBudget) (errs field.ErrorList) {
	spec, path := &obj.Spec, field.NewPath("spec")
	if spec.MinAvailable != nil && spec.MaxUnavailable != nil {
		errs = append(errs, field.Invalid(path, rules.Internal(*spec), "minAvailable and maxUnavailable cannot be both set"))
	}
	if v := spec.MinAvailable; v != nil {
		errs = append(errs, rules.IntOrPercent(*v, path.Child("minAvailable"))...)
		errs = append(errs, rules.AtMostHundredPercent(*v, path.Child("minAvailable"))...)
	}
	if v := spec.MaxUnavailable; v != nil {
		errs = append(errs, rules.IntOrPercent(*v, path.Child("maxUnavailable"))...)
		errs = append(errs, rules.AtMostHundredPercent(*v, path.Child("maxUnavailable"))...)
	}
	var options metavalidation.LabelSelectorValidationOptions
	if old != nil {
		options.AllowInvalidLabelValueInSelector = len(metavalidation.ValidateLabelSelector(old.Spec.Selector, options, nil)) > 0
	}
	errs = append(errs, metavalidation.ValidateLabelSelector(spec.Selector, options, path.Child("selector"))...)
	if p := spec.UnhealthyPodEvictionPolicy; p != nil {
		errs = append(errs, rules.Enum(*p, path.Child("unhealthyPodEvictionPolicy"), v1.AlwaysAllow, v1.IfHealthyBudget)...)
	}
	return errs
}

func validateStatus(obj, _ *v1.PodDisruptionBudget) field.ErrorList {
	status, path := &obj.Status, field.NewPath("status")
	errs := metavalidation.ValidateConditions(status.Conditions, path.Child("conditions"))
	errs = append(errs, rules.Nonnegative(status.DisruptionsAllowed, path.Child("disruptionsAllowed"))...)
	errs = append(errs, rules.Nonnegative(status.CurrentHealthy, path.Child("currentHealthy"))...)
	errs = append(errs, rules.Nonnegative(status.DesiredHealthy, path.Child("desiredHealthy"))...)
	return append(errs, rules.Nonnegative(status.ExpectedPods, path.Child("expectedPods"))...)
}
