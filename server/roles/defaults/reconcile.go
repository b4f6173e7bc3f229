package defaults

import (
	"maps"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/auth/rbac/validation"
)

// Change is what has to be done with a stored object.
type Change int

const (
	// Keep means that it stays as it is.
	Keep Change = iota
	// Update means that it is written as it was changed.
	Update
	// Recreate means that it is deleted and created: the role of a binding cannot be changed.
	Recreate
)

// Reconcile changes a stored role or binding so that it grants at least what the wanted one
// grants, as kube-apiserver does when it starts: missing rules, subjects, labels and annotations
// are added, others stay. Objects with the annotation autoupdate "false" are kept as they are.
func Reconcile(stored, wanted Object) Change {
	if stored.GetAnnotations()[rbacv1.AutoUpdateAnnotationKey] == "false" {
		return Keep
	}
	changed := false
	switch stored := stored.(type) {
	case *rbacv1.ClusterRole:
		wanted := wanted.(*rbacv1.ClusterRole)
		// The rules of an aggregated role are the concern of the controller that fills them in.
		if wanted.AggregationRule == nil {
			changed = addRules(&stored.Rules, wanted.Rules)
		}
		if addSelectors(stored, wanted.AggregationRule) {
			changed = true
		}
	case *rbacv1.Role:
		changed = addRules(&stored.Rules, wanted.(*rbacv1.Role).Rules)
	case *rbacv1.ClusterRoleBinding:
		wanted := wanted.(*rbacv1.ClusterRoleBinding)
		if stored.RoleRef != wanted.RoleRef {
			return Recreate
		}
		changed = addSubjects(&stored.Subjects, wanted.Subjects)
	case *rbacv1.RoleBinding:
		wanted := wanted.(*rbacv1.RoleBinding)
		if stored.RoleRef != wanted.RoleRef {
			return Recreate
		}
		changed = addSubjects(&stored.Subjects, wanted.Subjects)
	}
	if labels, ok := merge(wanted.GetLabels(), stored.GetLabels()); ok {
		stored.SetLabels(labels)
		changed = true
	}
	if annotations, ok := merge(wanted.GetAnnotations(), stored.GetAnnotations()); ok {
		stored.SetAnnotations(annotations)
		changed = true
	}
	if changed {
		return Update
	}
	return Keep
}

// addRules adds the rules that others do not cover.
func addRules(stored *[]rbacv1.PolicyRule, wanted []rbacv1.PolicyRule) bool {
	if slices.EqualFunc(*stored, wanted, func(a, b rbacv1.PolicyRule) bool { return equalRules(&a, &b) }) {
		return false // which is faster to find out
	}
	_, missing := validation.Covers(*stored, wanted)
	*stored = append(*stored, missing...)
	return len(missing) > 0
}

// addSelectors adds the missing selectors of an aggregation, and removes one that is not wanted.
func addSelectors(stored *rbacv1.ClusterRole, wanted *rbacv1.AggregationRule) (changed bool) {
	if wanted == nil {
		changed = stored.AggregationRule != nil
		stored.AggregationRule = nil
		return changed
	}
	if stored.AggregationRule == nil {
		stored.AggregationRule = &rbacv1.AggregationRule{}
	}
	for _, s := range wanted.ClusterRoleSelectors {
		if !slices.ContainsFunc(stored.AggregationRule.ClusterRoleSelectors,
			func(have metav1.LabelSelector) bool { return equality.Semantic.DeepEqual(have, s) }) {
			stored.AggregationRule.ClusterRoleSelectors = append(stored.AggregationRule.ClusterRoleSelectors, s)
			changed = true
		}
	}
	return changed
}

// addSubjects adds missing subjects.
func addSubjects(stored *[]rbacv1.Subject, wanted []rbacv1.Subject) (changed bool) {
	for _, s := range wanted {
		if !slices.Contains(*stored, s) {
			*stored = append(*stored, s)
			changed = true
		}
	}
	return changed
}

// merge adds missing labels or annotations, and reports whether there are any.
func merge(wanted, stored map[string]string) (map[string]string, bool) {
	out := maps.Clone(wanted)
	maps.Copy(out, stored)
	return out, len(out) != len(stored)
}
