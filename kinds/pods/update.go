package pods

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/kinds/rules"
)

// updatable are the fields of the spec that may change, as errors list them.
var updatable = strings.Join([]string{
	"`spec.containers[*].image`",
	"`spec.initContainers[*].image`",
	"`spec.activeDeadlineSeconds`",
	"`spec.tolerations` (only additions to existing tolerations)",
	"`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
}, ",")

// validateUpdate validates the update of a pod. Most fields cannot change.
func validateUpdate(pod, old *corev1.Pod, opts Options) field.ErrorList {
	errs := rules.ObjectMetaUpdate(&pod.ObjectMeta, &old.ObjectMeta, metadata)
	errs = append(errs, validateWhole(pod, opts)...)
	errs = append(errs, validateAnnotationUpdate(pod, old, metadata.Child("annotations"), opts)...)
	for _, lists := range []struct {
		path     *field.Path
		new, old []corev1.Container
	}{
		{specPath.Child("containers"), pod.Spec.Containers, old.Spec.Containers},
		{specPath.Child("initContainers"), pod.Spec.InitContainers, old.Spec.InitContainers},
	} {
		if len(lists.new) != len(lists.old) {
			return append(errs, field.Forbidden(lists.path, "pod updates may not add or remove containers"))
		}
		for i, c := range lists.new {
			errs = append(errs, rules.Required(c.Image, lists.path.Index(i).Child("image"))...)
			errs = append(errs, trimmedImage(c.Image, lists.path.Index(i))...)
		}
	}
	deadline, stop := validateDeadlineUpdate(pod.Spec.ActiveDeadlineSeconds,
		old.Spec.ActiveDeadlineSeconds, specPath.Child("activeDeadlineSeconds"))
	errs = append(errs, deadline...)
	if stop {
		return errs
	}
	errs = append(errs, validateTolerationUpdate(pod.Spec.Tolerations, old.Spec.Tolerations, specPath.Child("tolerations"), opts)...)
	errs = append(errs, validateGateUpdate(pod.Spec.SchedulingGates, old.Spec.SchedulingGates, specPath.Child("schedulingGates"))...)
	if apiequality.Semantic.DeepEqual(pod.Spec, old.Spec) {
		return errs
	}

	// What may change is made equal: the rest must be equal then.
	spec := pod.Spec.DeepCopy()
	for i := range spec.Containers {
		spec.Containers[i].Image = old.Spec.Containers[i].Image
	}
	for i := range spec.InitContainers {
		spec.InitContainers[i].Image = old.Spec.InitContainers[i].Image
	}
	spec.ActiveDeadlineSeconds = old.Spec.ActiveDeadlineSeconds
	spec.SchedulingGates = old.Spec.SchedulingGates
	spec.Tolerations = old.Spec.Tolerations
	if grace, before := spec.TerminationGracePeriodSeconds,
		old.Spec.TerminationGracePeriodSeconds; grace != nil && before != nil && *grace == 1 && *before < 0 {
		spec.TerminationGracePeriodSeconds = before
	}
	if len(old.Spec.SchedulingGates) > 0 {
		errs = append(errs, validateGatedUpdate(spec, &old.Spec)...)
	}
	if !apiequality.Semantic.DeepEqual(*spec, old.Spec) {
		changes := diff.Diff(rules.Internal(old.Spec), rules.Internal(*spec))
		errs = append(errs, field.Forbidden(specPath,
			fmt.Sprintf("pod updates may not change fields other than %s\n%v", updatable, changes)))
	}
	return errs
}

// validateDeadlineUpdate accepts earlier deadlines only. stop reports whether no other errors
// are reported.
func validateDeadlineUpdate(seconds, old *int64, path *field.Path) (errs field.ErrorList, stop bool) {
	switch {
	case seconds == nil && old != nil:
		return field.ErrorList{field.Invalid(path, seconds, "must not update from a positive integer to nil value")}, false
	case seconds == nil:
		return nil, false
	case *seconds < 0 || *seconds > math.MaxInt32:
		return field.ErrorList{field.Invalid(path, *seconds, validation.InclusiveRangeError(0, math.MaxInt32))}, true
	case old != nil && *old < *seconds:
		return field.ErrorList{field.Invalid(path, *seconds, "must be less than or equal to previous value")}, true
	}
	return nil, false
}

// validateTolerationUpdate accepts more tolerations, and other seconds of old ones.
func validateTolerationUpdate(tolerations, old []corev1.Toleration, path *field.Path, opts Options) field.ErrorList {
	for _, before := range old {
		if !slices.ContainsFunc(tolerations, func(t corev1.Toleration) bool {
			t.TolerationSeconds = before.TolerationSeconds
			return reflect.DeepEqual(t, before)
		}) {
			return field.ErrorList{field.Forbidden(path, "existing toleration can not be modified except its tolerationSeconds")}
		}
	}
	return validateTolerations(tolerations, path, opts)
}

// validateGateUpdate accepts fewer scheduling gates only.
func validateGateUpdate(gates, old []corev1.PodSchedulingGate, path *field.Path) (errs field.ErrorList) {
	added := map[string]int{}
	for i, gate := range gates {
		added[gate.Name] = i
	}
	for _, gate := range old {
		delete(added, gate.Name)
	}
	for _, name := range rules.Keys(added) {
		errs = append(errs, field.Forbidden(path.Index(added[name]).Child("name"),
			fmt.Sprintf("only deletion is allowed, but found new scheduling gate '%s'", name)))
	}
	return errs
}

// validateGatedUpdate validates the changes that pods with scheduling gates may have: their node
// selector and their node affinity may become stricter. It undoes them in spec.
func validateGatedUpdate(spec, old *corev1.PodSpec) (errs field.ErrorList) {
	for _, key := range rules.Keys(old.NodeSelector) {
		if value, ok := spec.NodeSelector[key]; !ok || value != old.NodeSelector[key] {
			errs = append(errs, field.Invalid(specPath.Child("nodeSelector"), spec.NodeSelector,
				"only additions to spec.nodeSelector are allowed (no mutations or deletions)"))
			break
		}
	}
	spec.NodeSelector = old.NodeSelector

	var affinity, before *corev1.NodeAffinity
	if spec.Affinity != nil {
		affinity = spec.Affinity.NodeAffinity
	}
	if old.Affinity != nil {
		before = old.Affinity.NodeAffinity
	}
	if apiequality.Semantic.DeepEqual(affinity, before) {
		return errs
	}
	errs = append(errs, validateNodeAffinityUpdate(affinity, before, specPath.Child("affinity",
		"nodeAffinity", requiredTerms, "nodeSelectorTerms"))...)
	switch {
	case spec.Affinity == nil:
		spec.Affinity = &corev1.Affinity{NodeAffinity: before}
	case old.Affinity == nil && spec.Affinity.PodAffinity == nil && spec.Affinity.PodAntiAffinity == nil:
		spec.Affinity = nil
	default:
		spec.Affinity.NodeAffinity = before
	}
	return errs
}

func validateNodeAffinityUpdate(affinity, old *corev1.NodeAffinity, path *field.Path) (errs field.ErrorList) {
	if old == nil || old.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return nil
	}
	before := old.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	var terms []corev1.NodeSelectorTerm
	if affinity != nil && affinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		terms = affinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	}
	if len(before) > 0 && len(before) != len(terms) {
		return field.ErrorList{field.Invalid(path, rules.Internal(terms),
			"no additions/deletions to non-empty NodeSelectorTerms list are allowed")}
	}
	for i := range before {
		if !isStricter(&terms[i], &before[i]) {
			errs = append(errs, field.Invalid(path.Index(i), rules.Internal(terms[i]),
				"only additions are allowed (no mutations or deletions)"))
		}
	}
	return errs
}

// isStricter reports whether a term has all requirements of the old one, and perhaps more after
// them. An empty term selects nothing: it cannot become stricter.
func isStricter(term, old *corev1.NodeSelectorTerm) bool {
	if len(old.MatchExpressions) == 0 && len(old.MatchFields) == 0 {
		return len(term.MatchExpressions) == 0 && len(term.MatchFields) == 0
	}
	begins := func(list, with []corev1.NodeSelectorRequirement) bool {
		return len(list) >= len(with) && apiequality.Semantic.DeepEqual(list[:len(with)], with)
	}
	return begins(term.MatchExpressions, old.MatchExpressions) && begins(term.MatchFields, old.MatchFields)
}

// validateEphemeralContainers validates added ephemeral containers.
func validateEphemeralContainers(pod, old *corev1.Pod) field.ErrorList {
	opts := podOptions(old)
	if IsMirror(&old.ObjectMeta) {
		return field.ErrorList{field.Forbidden(field.NewPath(""), "static pods do not support ephemeral containers")}
	}
	errs := rules.ObjectMetaUpdate(&pod.ObjectMeta, &old.ObjectMeta, metadata)
	errs = append(errs, validateWhole(pod, opts)...)
	errs = append(errs, validateAnnotationUpdate(pod, old, metadata.Child("annotations"), opts)...)
	path := specPath.Child("ephemeralContainers")
	byName := map[string]*corev1.EphemeralContainer{}
	for i := range pod.Spec.EphemeralContainers {
		byName[pod.Spec.EphemeralContainers[i].Name] = &pod.Spec.EphemeralContainers[i]
	}
	for _, before := range old.Spec.EphemeralContainers {
		if c, ok := byName[before.Name]; !ok {
			errs = append(errs, field.Forbidden(path, fmt.Sprintf("existing ephemeral containers %q may not be removed\n", before.Name)))
		} else if !apiequality.Semantic.DeepEqual(before, *c) {
			changes := diff.Diff(rules.Internal(before), rules.Internal(*c))
			errs = append(errs, field.Forbidden(path,
				fmt.Sprintf("existing ephemeral containers %q may not be changed\n%v", before.Name, changes)))
		}
	}
	return errs
}
