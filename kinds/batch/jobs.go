package batch

import (
	"fmt"
	"math"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"espalier.dev/kinds/pods"
	"espalier.dev/kinds/rules"
)

// The labels of pods without a domain, which older controllers select.
const (
	legacyJobName       = "job-name"
	legacyControllerUID = "controller-uid"
)

func defaultJob(job *batchv1.Job) {
	spec := &job.Spec
	if spec.Completions == nil && spec.Parallelism == nil {
		spec.Completions = ptr.To[int32](1)
	}
	rules.SetDefaultPointer(&spec.Parallelism, 1)
	if spec.BackoffLimitPerIndex != nil {
		rules.SetDefaultPointer(&spec.BackoffLimit, math.MaxInt32)
	}
	rules.SetDefaultPointer(&spec.BackoffLimit, 6)
	if spec.Template.Labels != nil && len(job.Labels) == 0 {
		job.Labels = spec.Template.Labels
	}
	rules.SetDefaultPointer(&spec.CompletionMode, batchv1.NonIndexedCompletion)
	rules.SetDefaultPointer(&spec.Suspend, false)
	if spec.PodFailurePolicy != nil {
		rules.SetDefaultPointer(&spec.PodReplacementPolicy, batchv1.Failed)
	}
	rules.SetDefaultPointer(&spec.PodReplacementPolicy, batchv1.TerminatingOrFailed)
	rules.SetDefaultPointer(&spec.ManualSelector, false)
	defaultTemplate(spec)
}

// defaultTemplate fills in the defaults that jobs and the templates of jobs have in common.
func defaultTemplate(spec *batchv1.JobSpec) {
	pods.DefaultTemplate(&spec.Template)
	if spec.PodFailurePolicy == nil {
		return
	}
	for _, rule := range spec.PodFailurePolicy.Rules {
		for i := range rule.OnPodConditions {
			rules.SetDefault(&rule.OnPodConditions[i].Status, corev1.ConditionTrue)
		}
	}
}

func prepareJob(job, old *batchv1.Job) {
	// The field belongs to a feature that is alpha.
	if old == nil || old.Spec.Scheduling == nil {
		job.Spec.Scheduling = nil
	}
	if old != nil {
		old.Status.DeepCopyInto(&job.Status)
		pods.PrepareTemplate(&job.Spec.Template, &old.Spec.Template)
		if !apiequality.Semantic.DeepEqual(job.Spec, old.Spec) {
			job.Generation = old.Generation + 1
		}
		return
	}
	if !ptr.Deref(job.Spec.ManualSelector, false) {
		generateSelector(job)
	}
	job.Status = batchv1.JobStatus{}
	job.Generation = 1
	pods.PrepareTemplate(&job.Spec.Template, nil)
}

// generateSelector makes the job select its own pods. Labels that exist already are kept:
// validation rejects wrong ones.
func generateSelector(job *batchv1.Job) {
	spec := &job.Spec
	set := func(labels map[string]string, value string, keys ...string) {
		for _, key := range keys {
			if _, ok := labels[key]; !ok {
				labels[key] = value
			}
		}
	}
	if spec.Template.Labels == nil {
		spec.Template.Labels = map[string]string{}
	}
	set(spec.Template.Labels, job.Name, legacyJobName, batchv1.JobNameLabel)
	set(spec.Template.Labels, string(job.UID), legacyControllerUID, batchv1.ControllerUidLabel)
	rules.SetDefaultPointer(&spec.Selector, metav1.LabelSelector{})
	if spec.Selector.MatchLabels == nil {
		spec.Selector.MatchLabels = map[string]string{}
	}
	set(spec.Selector.MatchLabels, string(job.UID), batchv1.ControllerUidLabel)
}

func validateJob(job, old *batchv1.Job) field.ErrorList {
	var opts pods.Options
	prefixed := true
	if old != nil {
		opts = pods.TemplateOptions(&old.Spec.Template)
		opts.InvalidSelectorValues = opts.InvalidSelectorValues || metav1validation.LabelSelectorHasInvalidLabelValue(old.Spec.Selector)
		_, hasName := old.Spec.Template.Labels[batchv1.JobNameLabel]
		_, hasUID := old.Spec.Template.Labels[batchv1.ControllerUidLabel]
		prefixed = hasName && hasUID
	}
	errs := rules.ObjectMeta(&job.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, metadata)
	errs = append(errs, validateGeneratedSelector(job, prefixed)...)
	errs = append(errs, validateSelectingSpec(&job.Spec, opts)...)
	if isIndexed(&job.Spec) && ptr.Deref(job.Spec.Completions, 0) > 0 {
		// The host name of the last pod is the longest.
		host := fmt.Sprintf("%s-%d", job.Name, *job.Spec.Completions-1)
		if len(validation.IsDNS1123Label(host)) > 0 {
			errs = append(errs, field.Invalid(metadata.Child("name"), job.Name,
				"will not able to create pod with invalid DNS label: "+host))
		}
	}
	if old == nil {
		return errs
	}
	errs = append(errs, rules.ObjectMetaUpdate(&job.ObjectMeta, &old.ObjectMeta, metadata)...)
	errs = append(errs, validateSelectingSpec(&job.Spec, opts)...)
	return append(errs, validateJobUpdate(job, old)...)
}

func isIndexed(spec *batchv1.JobSpec) bool {
	return ptr.Deref(spec.CompletionMode, batchv1.NonIndexedCompletion) == batchv1.IndexedCompletion
}

// validateGeneratedSelector rejects labels that would make a job select the pods of another one.
// Jobs that are older than the labels with a domain need not have them.
func validateGeneratedSelector(job *batchv1.Job, prefixed bool) (errs field.ErrorList) {
	if ptr.Deref(job.Spec.ManualSelector, false) || job.Spec.Selector == nil {
		return nil
	}
	if job.UID == "" {
		errs = append(errs, field.Required(metadata.Child("uid"), ""))
	}
	path := specPath.Child("template", "metadata", "labels")
	expected := labels.Set{}
	expect := func(key, value string) {
		expected[key] = value
		detail := fmt.Sprintf("must be '%s'", value)
		if actual, ok := job.Spec.Template.Labels[key]; !ok {
			errs = append(errs, field.Required(path.Key(key), detail))
		} else if actual != value {
			errs = append(errs, field.Invalid(path.Key(key), job.Spec.Template.Labels, detail))
		}
	}
	expect(legacyControllerUID, string(job.UID))
	expect(legacyJobName, job.Name)
	if prefixed {
		expect(batchv1.ControllerUidLabel, string(job.UID))
		expect(batchv1.JobNameLabel, job.Name)
	}
	if selector, err := metav1.LabelSelectorAsSelector(job.Spec.Selector); err == nil && !selector.Matches(expected) {
		errs = append(errs, field.Invalid(specPath.Child("selector"), job.Spec.Selector, "`selector` not auto-generated"))
	}
	return errs
}

// validateSelectingSpec validates the spec of a job, which has a selector, unlike the spec in a
// cron job.
func validateSelectingSpec(spec *batchv1.JobSpec, opts pods.Options) field.ErrorList {
	errs := validateJobSpec(spec, specPath, opts)
	if spec.Selector == nil {
		errs = append(errs, field.Required(specPath.Child("selector"), ""))
	} else {
		errs = append(errs, metav1validation.ValidateLabelSelector(spec.Selector,
			metav1validation.LabelSelectorValidationOptions{AllowInvalidLabelValueInSelector: opts.InvalidSelectorValues},
			specPath.Child("selector"))...)
	}
	if selector, err := metav1.LabelSelectorAsSelector(spec.Selector); err == nil {
		errs = append(errs, pods.SelectedLabels(&spec.Template, selector, specPath.Child("template"))...)
	}
	return errs
}

func validateJobSpec(spec *batchv1.JobSpec, path *field.Path, opts pods.Options) (errs field.ErrorList) {
	const maxManager = 63
	errs = append(errs, validateOptional(spec.Parallelism, path.Child("parallelism"))...)
	errs = append(errs, validateOptional(spec.Completions, path.Child("completions"))...)
	errs = append(errs, validateOptional(spec.ActiveDeadlineSeconds, path.Child("activeDeadlineSeconds"))...)
	errs = append(errs, validateOptional(spec.BackoffLimit, path.Child("backoffLimit"))...)
	errs = append(errs, validateOptional(spec.TTLSecondsAfterFinished, path.Child("ttlSecondsAfterFinished"))...)
	errs = append(errs, validateOptional(spec.BackoffLimitPerIndex, path.Child("backoffLimitPerIndex"))...)
	if spec.MaxFailedIndexes != nil {
		errs = append(errs, rules.Nonnegative(*spec.MaxFailedIndexes, path.Child("maxFailedIndexes"))...)
		if spec.BackoffLimitPerIndex == nil {
			errs = append(errs, field.Required(path.Child("backoffLimitPerIndex"), "when maxFailedIndexes is specified"))
		}
	}
	if spec.ManagedBy != nil {
		errs = append(errs, validation.IsDomainPrefixedPath(path.Child("managedBy"), *spec.ManagedBy)...)
		if len(*spec.ManagedBy) > maxManager {
			errs = append(errs, field.TooLong(path.Child("managedBy"), "", maxManager))
		}
	}
	errs = append(errs, validateCompletionMode(spec, path)...)
	if spec.PodFailurePolicy != nil {
		errs = append(errs, validateFailurePolicy(spec, path.Child("podFailurePolicy"))...)
	}
	if spec.SuccessPolicy != nil {
		if isIndexed(spec) {
			errs = append(errs, validateSuccessPolicy(spec, path.Child("successPolicy"))...)
		} else {
			errs = append(errs, field.Invalid(path.Child("successPolicy"),
				rules.Internal(*spec.SuccessPolicy), "requires indexed completion mode"))
		}
	}
	if policy := spec.PodReplacementPolicy; policy != nil {
		supported := []batchv1.PodReplacementPolicy{batchv1.Failed, batchv1.TerminatingOrFailed}
		if spec.PodFailurePolicy != nil {
			supported = supported[:1]
		}
		errs = append(errs, rules.Enum(*policy, path.Child("podReplacementPolicy"), supported...)...)
	}
	errs = append(errs, pods.Template(&spec.Template, path.Child("template"), opts)...)
	return append(errs, validateJobRestarts(spec, path.Child("template", "spec", "restartPolicy"))...)
}

func validateOptional[T ~int32 | ~int64](value *T, path *field.Path) field.ErrorList {
	if value == nil {
		return nil
	}
	return rules.Nonnegative(*value, path)
}

func validateJobRestarts(spec *batchv1.JobSpec, path *field.Path) field.ErrorList {
	switch policy := spec.Template.Spec.RestartPolicy; policy {
	case corev1.RestartPolicyAlways, "":
		return field.ErrorList{field.Required(path, fmt.Sprintf("valid values: %q, %q",
			corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever))}
	case corev1.RestartPolicyNever:
		return nil
	case corev1.RestartPolicyOnFailure:
		if spec.PodFailurePolicy != nil {
			return field.ErrorList{field.Invalid(path, policy,
				fmt.Sprintf("only %q is supported when podFailurePolicy is specified", corev1.RestartPolicyNever))}
		}
		return nil
	default:
		return rules.Enum(policy, path, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever)
	}
}

// validateCompletionMode validates the mode and the numbers that depend on it.
func validateCompletionMode(spec *batchv1.JobSpec, path *field.Path) (errs field.ErrorList) {
	const (
		maxParallelism, maxFailed = 100_000, 100_000
		// Jobs with more completions have lower limits.
		manyCompletions                   = 100_000
		maxParallelismOfMany, maxFailedOf = 10_000, 10_000
	)
	parallelism, completions, failed := spec.Parallelism, spec.Completions, spec.MaxFailedIndexes
	if spec.CompletionMode != nil && *spec.CompletionMode != batchv1.NonIndexedCompletion &&
		*spec.CompletionMode != batchv1.IndexedCompletion {
		return field.ErrorList{field.NotSupported(path.Child("completionMode"), spec.CompletionMode,
			[]batchv1.CompletionMode{batchv1.NonIndexedCompletion, batchv1.IndexedCompletion})}
	}
	if !isIndexed(spec) {
		if spec.BackoffLimitPerIndex != nil {
			errs = append(errs, field.Invalid(path.Child("backoffLimitPerIndex"),
				*spec.BackoffLimitPerIndex, "requires indexed completion mode"))
		}
		if failed != nil {
			errs = append(errs, field.Invalid(path.Child("maxFailedIndexes"), *failed, "requires indexed completion mode"))
		}
		return errs
	}
	atMost := func(name string, value *int32, most int32, suffix string) {
		if value != nil && *value > most {
			errs = append(errs, field.Invalid(path.Child(name), *value, fmt.Sprintf("must be less than or equal to %d%s", most, suffix)))
		}
	}
	if completions == nil {
		errs = append(errs, field.Required(path.Child("completions"), fmt.Sprintf("when completion mode is %s", batchv1.IndexedCompletion)))
	}
	atMost("parallelism", parallelism, maxParallelism, fmt.Sprintf(" when completion mode is %s", batchv1.IndexedCompletion))
	if completions != nil && failed != nil && *failed > *completions {
		errs = append(errs, field.Invalid(path.Child("maxFailedIndexes"), *failed, "must be less than or equal to completions"))
	}
	atMost("maxFailedIndexes", failed, maxFailed, "")
	if ptr.Deref(completions, 0) > manyCompletions && spec.BackoffLimitPerIndex != nil {
		suffix := fmt.Sprintf(" when completions are above %d and used with backoff limit per index", manyCompletions)
		if failed == nil {
			errs = append(errs, field.Required(path.Child("maxFailedIndexes"),
				fmt.Sprintf("must be specified when completions is above %d", manyCompletions)))
		}
		atMost("parallelism", parallelism, maxParallelismOfMany, suffix)
		atMost("maxFailedIndexes", failed, maxFailedOf, suffix)
	}
	return errs
}

func validateFailurePolicy(spec *batchv1.JobSpec, path *field.Path) (errs field.ErrorList) {
	const maxRules = 20
	list, at := spec.PodFailurePolicy.Rules, path.Child("rules")
	if len(list) > maxRules {
		errs = append(errs, field.TooMany(at, len(list), maxRules))
	}
	names := sets.New[string]()
	for _, containers := range [][]corev1.Container{spec.Template.Spec.Containers, spec.Template.Spec.InitContainers} {
		for _, c := range containers {
			names.Insert(c.Name)
		}
	}
	for i := range list {
		errs = append(errs, validateFailureRule(&list[i], spec.BackoffLimitPerIndex != nil, names, at.Index(i))...)
	}
	return errs
}

func validateFailureRule(rule *batchv1.PodFailurePolicyRule, perIndex bool, names sets.Set[string], path *field.Path) field.ErrorList {
	errs := listedEnum(rule.Action, path.Child("action"),
		batchv1.PodFailurePolicyActionCount, batchv1.PodFailurePolicyActionFailIndex,
		batchv1.PodFailurePolicyActionFailJob, batchv1.PodFailurePolicyActionIgnore)
	if rule.Action == batchv1.PodFailurePolicyActionFailIndex && !perIndex {
		errs = append(errs, field.Invalid(path.Child("action"), rule.Action, "requires the backoffLimitPerIndex to be set"))
	}
	codes, conditions := rule.OnExitCodes, rule.OnPodConditions
	if codes != nil {
		errs = append(errs, validateExitCodes(codes, names, path.Child("onExitCodes"))...)
	}
	const maxConditions = 20
	at := path.Child("onPodConditions")
	if len(conditions) > maxConditions {
		errs = append(errs, field.TooMany(at, len(conditions), maxConditions))
	}
	for i, pattern := range conditions {
		errs = append(errs, rules.QualifiedName(string(pattern.Type), at.Index(i).Child("type"))...)
		errs = append(errs, listedEnum(pattern.Status, at.Index(i).Child("status"),
			corev1.ConditionFalse, corev1.ConditionTrue, corev1.ConditionUnknown)...)
	}
	if codes != nil && len(conditions) > 0 {
		errs = append(errs, field.Invalid(path, field.OmitValueType{}, "specifying both OnExitCodes and OnPodConditions is not supported"))
	}
	if codes == nil && len(conditions) == 0 {
		errs = append(errs, field.Invalid(path, field.OmitValueType{}, "specifying one of OnExitCodes and OnPodConditions is required"))
	}
	return errs
}

// listedEnum is rules.RequiredEnum with the supported values also in the error about no value.
func listedEnum[T ~string](value T, path *field.Path, supported ...T) field.ErrorList {
	if value == "" {
		return field.ErrorList{field.Required(path, fmt.Sprintf("valid values: %q", supported))}
	}
	return rules.Enum(value, path, supported...)
}

func validateExitCodes(codes *batchv1.PodFailurePolicyOnExitCodesRequirement, names sets.Set[string], path *field.Path) field.ErrorList {
	const maxCodes = 255
	errs := listedEnum(codes.Operator, path.Child("operator"),
		batchv1.PodFailurePolicyOnExitCodesOpIn, batchv1.PodFailurePolicyOnExitCodesOpNotIn)
	if name := codes.ContainerName; name != nil && !names.Has(*name) {
		errs = append(errs, field.Invalid(path.Child("containerName"), *name,
			"must be one of the container or initContainer names in the pod template"))
	}
	values := path.Child("values")
	if len(codes.Values) == 0 {
		errs = append(errs, field.Invalid(values, codes.Values, "at least one value is required"))
	} else if len(codes.Values) > maxCodes {
		errs = append(errs, field.TooMany(values, len(codes.Values), maxCodes))
	}
	ordered, seen := true, sets.New[int32]()
	for i, code := range codes.Values {
		if code == 0 && codes.Operator == batchv1.PodFailurePolicyOnExitCodesOpIn {
			errs = append(errs, field.Invalid(values.Index(i), code, "must not be 0 for the In operator"))
		}
		if seen.Has(code) {
			errs = append(errs, field.Duplicate(values.Index(i), code))
		}
		seen.Insert(code)
		ordered = ordered && (i == 0 || codes.Values[i-1] <= code)
	}
	if !ordered {
		errs = append(errs, field.Invalid(values, codes.Values, "must be ordered"))
	}
	return errs
}

func validateSuccessPolicy(spec *batchv1.JobSpec, path *field.Path) (errs field.ErrorList) {
	const maxRules = 20
	list, at := spec.SuccessPolicy.Rules, path.Child("rules")
	if len(list) == 0 {
		errs = append(errs, field.Required(at, "at least one rules must be specified when the successPolicy is specified"))
	}
	if len(list) > maxRules {
		errs = append(errs, field.TooMany(at, len(list), maxRules))
	}
	for i := range list {
		errs = append(errs, validateSuccessRule(&list[i], ptr.Deref(spec.Completions, 0), at.Index(i))...)
	}
	return errs
}

func validateSuccessRule(rule *batchv1.SuccessPolicyRule, completions int32, path *field.Path) (errs field.ErrorList) {
	const maxIndexes = 64 * 1024
	count, indexes := rule.SucceededCount, rule.SucceededIndexes
	if count == nil && indexes == nil {
		errs = append(errs, field.Required(path, "at least one of succeededCount or succeededIndexes must be specified"))
	}
	var total int32
	if indexes != nil {
		at := path.Child("succeededIndexes")
		if len(*indexes) > maxIndexes {
			errs = append(errs, field.TooLong(at, "", maxIndexes))
		}
		parsed, err := parseIndexes(*indexes, completions)
		if err != nil {
			errs = append(errs, field.Invalid(at, *indexes, "error parsing succeededIndexes: "+err.Error()))
		}
		total = parsed.total()
	}
	if count != nil {
		at := path.Child("succeededCount")
		errs = append(errs, rules.Nonnegative(*count, at)...)
		if *count > completions {
			errs = append(errs, field.Invalid(at, *count,
				fmt.Sprintf("must be less than or equal to %d (the number of specified completions)", completions)))
		}
		if indexes != nil && *count > total {
			errs = append(errs, field.Invalid(at, *count,
				fmt.Sprintf("must be less than or equal to %d (the number of indexes in the specified succeededIndexes field)", total)))
		}
	}
	return errs
}
