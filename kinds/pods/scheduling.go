package pods

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/kinds/rules"
)

const (
	requiredTerms  = "requiredDuringSchedulingIgnoredDuringExecution"
	preferredTerms = "preferredDuringSchedulingIgnoredDuringExecution"
)

// affinityTerms returns all terms about other pods.
func affinityTerms(spec *corev1.PodSpec) (terms []corev1.PodAffinityTerm) {
	add := func(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) {
		terms = append(terms, required...)
		for _, weighted := range preferred {
			terms = append(terms, weighted.PodAffinityTerm)
		}
	}
	if affinity := spec.Affinity; affinity != nil {
		if a := affinity.PodAffinity; a != nil {
			add(a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution)
		}
		if a := affinity.PodAntiAffinity; a != nil {
			add(a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution)
		}
	}
	return terms
}

func (c *checker) checkAffinity(path *field.Path) {
	affinity := c.spec.Affinity
	if affinity == nil {
		return
	}
	if a := affinity.NodeAffinity; a != nil {
		at := path.Child("nodeAffinity")
		if a.RequiredDuringSchedulingIgnoredDuringExecution != nil {
			c.add(rules.NodeSelector(a.RequiredDuringSchedulingIgnoredDuringExecution, c.nodeAffinityValues, at.Child(requiredTerms))...)
		}
		for i := range a.PreferredDuringSchedulingIgnoredDuringExecution {
			term, termPath := &a.PreferredDuringSchedulingIgnoredDuringExecution[i], at.Child(preferredTerms).Index(i)
			c.checkWeight(term.Weight, termPath)
			c.add(rules.NodeSelectorTerm(&term.Preference, true, termPath.Child("preference"))...)
		}
	}
	if a := affinity.PodAffinity; a != nil {
		c.checkTerms(a.RequiredDuringSchedulingIgnoredDuringExecution,
			a.PreferredDuringSchedulingIgnoredDuringExecution, path.Child("podAffinity"))
	}
	if a := affinity.PodAntiAffinity; a != nil {
		c.checkTerms(a.RequiredDuringSchedulingIgnoredDuringExecution,
			a.PreferredDuringSchedulingIgnoredDuringExecution, path.Child("podAntiAffinity"))
	}
}

func (c *checker) checkWeight(weight int32, path *field.Path) {
	if weight < 1 || weight > 100 {
		c.add(field.Invalid(path.Child("weight"), weight, "must be in the range 1-100"))
	}
}

func (c *checker) checkTerms(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm, path *field.Path) {
	for i := range required {
		c.checkTerm(&required[i], path.Child(requiredTerms).Index(i))
	}
	for i := range preferred {
		at := path.Child(preferredTerms).Index(i)
		c.checkWeight(preferred[i].Weight, at)
		c.checkTerm(&preferred[i].PodAffinityTerm, at.Child("podAffinityTerm"))
	}
}

func (c *checker) checkTerm(term *corev1.PodAffinityTerm, path *field.Path) {
	c.add(termSelectors(term, c.InvalidSelectorValues, path)...)
	for _, namespace := range term.Namespaces {
		c.add(rules.Invalid(namespace, path.Child("namespace"), apivalidation.ValidateNamespaceName(namespace, false))...)
	}
	c.add(labelKeys(term.MatchLabelKeys, term.MismatchLabelKeys, term.LabelSelector, path)...)
	if term.TopologyKey == "" {
		c.add(field.Required(path.Child("topologyKey"), "can not be empty"))
	}
	c.add(metav1validation.ValidateLabelName(term.TopologyKey, path.Child("topologyKey"))...)
}

func termSelectors(term *corev1.PodAffinityTerm, invalidValues bool, path *field.Path) field.ErrorList {
	opts := metav1validation.LabelSelectorValidationOptions{AllowInvalidLabelValueInSelector: invalidValues}
	errs := metav1validation.ValidateLabelSelector(term.LabelSelector, opts, path.Child("labelSelector"))
	return append(errs, metav1validation.ValidateLabelSelector(term.NamespaceSelector, opts, path.Child("namespaceSelector"))...)
}

// labelKeys validates the keys of labels whose values are added to a selector. When a pod is
// created, they become expressions at the end of the selector: a key that is already used is in
// the selector twice.
func labelKeys(match, mismatch []string, selector *metav1.LabelSelector, path *field.Path) (errs field.ErrorList) {
	check := func(keys []string, at *field.Path) {
		if len(keys) > 0 && selector == nil {
			errs = append(errs, field.Forbidden(at, "must not be specified when labelSelector is not set"))
			return
		}
		for i, key := range keys {
			errs = append(errs, metav1validation.ValidateLabelName(key, at.Index(i))...)
		}
	}
	check(match, path.Child("matchLabelKeys"))
	check(mismatch, path.Child("mismatchLabelKeys"))
	if selector != nil {
		last := map[string]int{}
		for i, key := range match {
			last[key] = i
		}
		used := sets.KeySet(selector.MatchLabels)
		for _, expression := range selector.MatchExpressions {
			if i, ok := last[expression.Key]; ok && used.Has(expression.Key) {
				errs = append(errs, field.Invalid(path.Index(i), expression.Key, "exists in both matchLabelKeys and labelSelector"))
			}
			used.Insert(expression.Key)
		}
	}
	for i, key := range match {
		if slices.Contains(mismatch, key) {
			errs = append(errs, field.Invalid(path.Child("matchLabelKeys").Index(i), key,
				"exists in both matchLabelKeys and mismatchLabelKeys"))
		}
	}
	return errs
}

// unmergedLabelKeys is labelKeys for constraints whose keys were not added to the selector.
func unmergedLabelKeys(match []string, selector *metav1.LabelSelector, path *field.Path) (errs field.ErrorList) {
	if len(match) == 0 {
		return nil
	}
	used := sets.New[string]()
	if selector == nil {
		errs = append(errs, field.Forbidden(path, "must not be specified when labelSelector is not set"))
	} else {
		used = sets.KeySet(selector.MatchLabels)
		for _, expression := range selector.MatchExpressions {
			used.Insert(expression.Key)
		}
	}
	for i, key := range match {
		errs = append(errs, metav1validation.ValidateLabelName(key, path.Index(i))...)
		if used.Has(key) {
			errs = append(errs, field.Invalid(path.Index(i), key, "exists in both matchLabelKeys and labelSelector"))
		}
	}
	return errs
}

func (c *checker) checkSpreadConstraints(path *field.Path) {
	constraints := c.spec.TopologySpreadConstraints
	for i := range constraints {
		constraint, at := &constraints[i], path.Index(i)
		c.add(positive(constraint.MaxSkew, at.Child("maxSkew"))...)
		if constraint.TopologyKey == "" {
			c.add(field.Required(at.Child("topologyKey"), "can not be empty"))
		}
		c.add(rules.Enum(constraint.WhenUnsatisfiable, at.Child("whenUnsatisfiable"), corev1.DoNotSchedule, corev1.ScheduleAnyway)...)
		if slices.ContainsFunc(constraints[i+1:], func(other corev1.TopologySpreadConstraint) bool {
			return other.TopologyKey == constraint.TopologyKey && other.WhenUnsatisfiable == constraint.WhenUnsatisfiable
		}) {
			c.add(field.Duplicate(at.Child("{topologyKey, whenUnsatisfiable}"),
				fmt.Sprintf("{%v, %v}", constraint.TopologyKey, constraint.WhenUnsatisfiable)))
		}
		if domains := constraint.MinDomains; domains != nil {
			c.add(positive(*domains, at.Child("minDomains"))...)
			if constraint.WhenUnsatisfiable != corev1.DoNotSchedule {
				c.add(field.Invalid(at.Child("minDomains"), domains,
					fmt.Sprintf("can only use minDomains if whenUnsatisfiable=%s, not %s",
						corev1.DoNotSchedule, constraint.WhenUnsatisfiable)))
			}
		}
		c.checkInclusionPolicy(constraint.NodeAffinityPolicy, at.Child("nodeAffinityPolicy"))
		c.checkInclusionPolicy(constraint.NodeTaintsPolicy, at.Child("nodeTaintsPolicy"))
		if c.spreadKeys {
			c.add(unmergedLabelKeys(constraint.MatchLabelKeys, constraint.LabelSelector, at.Child("matchLabelKeys"))...)
		} else {
			c.add(labelKeys(constraint.MatchLabelKeys, nil, constraint.LabelSelector, at)...)
		}
		if !c.spreadSelectors {
			c.add(metav1validation.ValidateLabelSelector(constraint.LabelSelector,
				metav1validation.LabelSelectorValidationOptions{}, at.Child("labelSelector"))...)
		}
	}
}

func (c *checker) checkInclusionPolicy(policy *corev1.NodeInclusionPolicy, path *field.Path) {
	if policy != nil {
		c.add(rules.Enum(*policy, path, corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore)...)
	}
}

func positive(value int32, path *field.Path) field.ErrorList {
	if value <= 0 {
		return field.ErrorList{field.Invalid(path, int64(value), "must be greater than zero")}
	}
	return nil
}

func validateTolerations(tolerations []corev1.Toleration, path *field.Path, opts Options) (errs field.ErrorList) {
	for i, t := range tolerations {
		at := path.Index(i)
		operator := at.Child("operator")
		if t.Key != "" {
			errs = append(errs, metav1validation.ValidateLabelName(t.Key, at.Child("key"))...)
		} else if t.Operator != corev1.TolerationOpExists {
			errs = append(errs, field.Invalid(operator, t.Operator,
				"operator must be Exists when `key` is empty, which means \"match all values and all keys\""))
		}
		if t.TolerationSeconds != nil && t.Effect != corev1.TaintEffectNoExecute {
			errs = append(errs, field.Invalid(at.Child("effect"), t.Effect, "effect must be 'NoExecute' when `tolerationSeconds` is set"))
		}
		switch t.Operator {
		case corev1.TolerationOpEqual, "":
			if messages := validation.IsValidLabelValue(t.Value); len(messages) > 0 {
				errs = append(errs, field.Invalid(operator, t.Value, strings.Join(messages, ";")))
			}
		case corev1.TolerationOpExists:
			if t.Value != "" {
				errs = append(errs, field.Invalid(operator, t.Value, "value must be empty when `operator` is 'Exists'"))
			}
		case corev1.TolerationOpLt, corev1.TolerationOpGt:
			if !opts.comparedTolerations {
				errs = append(errs, field.NotSupported(operator, t.Operator,
					[]corev1.TolerationOperator{corev1.TolerationOpEqual,
						corev1.TolerationOpExists, corev1.TolerationOpLt, corev1.TolerationOpGt}))
				break
			}
			errs = append(errs, rules.Invalid(t.Value, at.Child("value"), content.IsDecimalInteger(t.Value))...)
			if _, err := strconv.ParseInt(t.Value, 10, 64); err != nil {
				errs = append(errs, field.Invalid(at.Child("value"), t.Value, err.Error()))
			}
		default:
			errs = append(errs, rules.Enum(t.Operator, operator, corev1.TolerationOpEqual, corev1.TolerationOpExists)...)
		}
		if t.Effect != "" {
			errs = append(errs, rules.Enum(t.Effect, at.Child("effect"),
				corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute)...)
		}
	}
	return errs
}
