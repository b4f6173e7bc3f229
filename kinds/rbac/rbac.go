// Package rbac has the rules of the kinds of the group rbac.authorization.k8s.io.
package rbac

import (
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/kinds/kind"
	"espalier.dev/kinds/rules"
)

// Rules returns the rules of the kinds by the plural names of their resources.
func Rules() map[string]kind.Rules {
	return map[string]kind.Rules{
		"roles": {CreateOnUpdate: true, Main: kind.Write{Validate: kind.Check(func(r, old *rbacv1.Role) field.ErrorList {
			errs := validateMeta(&r.ObjectMeta, true)
			errs = append(errs, validateRules(r.Rules, true)...)
			if old != nil {
				errs = append(errs, validateChange(&r.ObjectMeta, &old.ObjectMeta)...)
			}
			return errs
		})}},
		"clusterroles": {CreateOnUpdate: true, Main: kind.Write{Validate: kind.Check(validateClusterRole)}},
		"rolebindings": {
			CreateOnUpdate: true,
			Default:        kind.On(func(b *rbacv1.RoleBinding) { setDefaults(&b.RoleRef, b.Subjects) }),
			Main: kind.Write{Validate: kind.Check(func(b, old *rbacv1.RoleBinding) field.ErrorList {
				errs := validateMeta(&b.ObjectMeta, true)
				errs = append(errs, validateBinding(b.RoleRef, b.Subjects, true)...)
				if old != nil {
					errs = append(errs, validateChange(&b.ObjectMeta, &old.ObjectMeta)...)
					errs = append(errs, validateRefChange(b.RoleRef, old.RoleRef)...)
				}
				return errs
			})},
		},
		"clusterrolebindings": {
			CreateOnUpdate: true,
			Default:        kind.On(func(b *rbacv1.ClusterRoleBinding) { setDefaults(&b.RoleRef, b.Subjects) }),
			Main: kind.Write{Validate: kind.Check(func(b, old *rbacv1.ClusterRoleBinding) field.ErrorList {
				errs := validateMeta(&b.ObjectMeta, false)
				errs = append(errs, validateBinding(b.RoleRef, b.Subjects, false)...)
				if old != nil {
					errs = append(errs, validateChange(&b.ObjectMeta, &old.ObjectMeta)...)
					errs = append(errs, validateRefChange(b.RoleRef, old.RoleRef)...)
				}
				return errs
			})},
		},
	}
}

func setDefaults(ref *rbacv1.RoleRef, subjects []rbacv1.Subject) {
	rules.SetDefault(&ref.APIGroup, rbacv1.GroupName)
	for i := range subjects {
		if s := &subjects[i]; s.Kind == rbacv1.UserKind || s.Kind == rbacv1.GroupKind {
			rules.SetDefault(&s.APIGroup, rbacv1.GroupName)
		}
	}
}

// name validates a name: any that can be part of a path.
func name(name string, _ bool) []string { return content.IsPathSegmentName(name) }

func validateMeta(meta *metav1.ObjectMeta, namespaced bool) field.ErrorList {
	return rules.ObjectMeta(meta, namespaced, name, field.NewPath("metadata"))
}

func validateChange(meta, old *metav1.ObjectMeta) field.ErrorList {
	return rules.ObjectMetaUpdate(meta, old, field.NewPath("metadata"))
}

func validateRules(list []rbacv1.PolicyRule, namespaced bool) (errs field.ErrorList) {
	for i, rule := range list {
		errs = append(errs, validateRule(rule, namespaced, field.NewPath("rules").Index(i))...)
	}
	return errs
}

func validateRule(rule rbacv1.PolicyRule, namespaced bool, path *field.Path) (errs field.ErrorList) {
	if len(rule.Verbs) == 0 {
		errs = append(errs, field.Required(path.Child("verbs"), "verbs must contain at least one value"))
	}
	if urls := path.Child("nonResourceURLs"); len(rule.NonResourceURLs) > 0 {
		if namespaced {
			errs = append(errs, field.Invalid(urls, rule.NonResourceURLs, "namespaced rules cannot apply to non-resource URLs"))
		}
		if len(rule.APIGroups) > 0 || len(rule.Resources) > 0 || len(rule.ResourceNames) > 0 {
			errs = append(errs, field.Invalid(urls, rule.NonResourceURLs,
				"rules cannot apply to both regular resources and non-resource URLs"))
		}
		return errs
	}
	if len(rule.APIGroups) == 0 {
		errs = append(errs, field.Required(path.Child("apiGroups"), "resource rules must supply at least one api group"))
	}
	if len(rule.Resources) == 0 {
		errs = append(errs, field.Required(path.Child("resources"), "resource rules must supply at least one resource"))
	}
	return errs
}

func validateClusterRole(r, old *rbacv1.ClusterRole) field.ErrorList {
	errs := validateMeta(&r.ObjectMeta, false)
	errs = append(errs, validateRules(r.Rules, false)...)
	if r.AggregationRule != nil {
		path := field.NewPath("aggregationRule", "clusterRoleSelectors")
		if len(r.AggregationRule.ClusterRoleSelectors) == 0 {
			errs = append(errs, field.Required(path, "at least one clusterRoleSelector required if aggregationRule is non-nil"))
		}
		options := metav1validation.LabelSelectorValidationOptions{AllowInvalidLabelValueInSelector: hasInvalidSelector(old)}
		for i := range r.AggregationRule.ClusterRoleSelectors {
			selector := &r.AggregationRule.ClusterRoleSelectors[i]
			errs = append(errs, metav1validation.ValidateLabelSelector(selector, options, path.Index(i))...)
			if _, err := metav1.LabelSelectorAsSelector(selector); err != nil {
				errs = append(errs, field.Invalid(path.Index(i), nil, "invalid label selector."))
			}
		}
	}
	if old != nil {
		errs = append(errs, validateChange(&r.ObjectMeta, &old.ObjectMeta)...)
	}
	return errs
}

// hasInvalidSelector reports whether a stored role has a selector that is no longer accepted.
func hasInvalidSelector(r *rbacv1.ClusterRole) bool {
	if r == nil || r.AggregationRule == nil {
		return false
	}
	for i := range r.AggregationRule.ClusterRoleSelectors {
		if len(metav1validation.ValidateLabelSelector(&r.AggregationRule.ClusterRoleSelectors[i],
			metav1validation.LabelSelectorValidationOptions{}, nil)) > 0 {
			return true
		}
	}
	return false
}

func validateBinding(ref rbacv1.RoleRef, subjects []rbacv1.Subject, namespaced bool) field.ErrorList {
	path := field.NewPath("roleRef")
	kinds := []string{"ClusterRole"}
	if namespaced {
		kinds = []string{"Role", "ClusterRole"}
	}
	errs := rules.Enum(ref.APIGroup, path.Child("apiGroup"), rbacv1.GroupName)
	errs = append(errs, rules.Enum(ref.Kind, path.Child("kind"), kinds...)...)
	if ref.Name == "" {
		errs = append(errs, field.Required(path.Child("name"), ""))
	} else {
		errs = append(errs, rules.Invalid(ref.Name, path.Child("name"), name(ref.Name, false))...)
	}
	for i, subject := range subjects {
		errs = append(errs, validateSubject(subject, namespaced, field.NewPath("subjects").Index(i))...)
	}
	return errs
}

func validateSubject(s rbacv1.Subject, namespaced bool, path *field.Path) field.ErrorList {
	errs := rules.Required(s.Name, path.Child("name"))
	switch s.Kind {
	case rbacv1.ServiceAccountKind:
		if s.Name != "" {
			errs = append(errs, rules.Invalid(s.Name, path.Child("name"), apivalidation.ValidateServiceAccountName(s.Name, false))...)
		}
		errs = append(errs, rules.Enum(s.APIGroup, path.Child("apiGroup"), "")...)
		if !namespaced {
			errs = append(errs, rules.Required(s.Namespace, path.Child("namespace"))...)
		}
	case rbacv1.UserKind, rbacv1.GroupKind:
		errs = append(errs, rules.Enum(s.APIGroup, path.Child("apiGroup"), rbacv1.GroupName)...)
	default:
		errs = append(errs, field.NotSupported(path.Child("kind"), s.Kind,
			[]string{rbacv1.ServiceAccountKind, rbacv1.UserKind, rbacv1.GroupKind}))
	}
	return errs
}

func validateRefChange(ref, old rbacv1.RoleRef) field.ErrorList {
	if ref == old {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("roleRef"), rules.Internal(ref), "cannot change roleRef")}
}
