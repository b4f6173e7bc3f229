package batch

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"espalier.dev/kinds/rules"
)

// validateJobUpdate rejects changes of fields that cannot change.
func validateJobUpdate(job, old *batchv1.Job) field.ErrorList {
	spec, before := &job.Spec, &old.Spec
	errs := validateCompletionsUpdate(spec, before, specPath.Child("completions"))
	errs = append(errs, rules.Immutable(spec.Selector, before.Selector, specPath.Child("selector"))...)
	errs = append(errs, validateTemplateUpdate(spec, old)...)
	errs = append(errs, rules.Immutable(spec.CompletionMode, before.CompletionMode, specPath.Child("completionMode"))...)
	errs = append(errs, rules.Immutable(spec.PodFailurePolicy, before.PodFailurePolicy, specPath.Child("podFailurePolicy"))...)
	errs = append(errs, rules.Immutable(spec.BackoffLimitPerIndex, before.BackoffLimitPerIndex, specPath.Child("backoffLimitPerIndex"))...)
	errs = append(errs, rules.Immutable(spec.ManagedBy, before.ManagedBy, specPath.Child("managedBy"))...)
	return append(errs, rules.Immutable(spec.SuccessPolicy, before.SuccessPolicy, specPath.Child("successPolicy"))...)
}

// validateCompletionsUpdate accepts another number of completions of indexed jobs that run all
// their pods at the same time.
func validateCompletionsUpdate(spec, old *batchv1.JobSpec, path *field.Path) field.ErrorList {
	if !isIndexed(spec) {
		return rules.Immutable(spec.Completions, old.Completions, path)
	}
	if spec.Completions == nil || ptr.Equal(spec.Completions, old.Completions) || *spec.Completions == ptr.Deref(spec.Parallelism, 0) {
		return nil
	}
	return field.ErrorList{field.Invalid(path, spec.Completions, "can only be modified in tandem with spec.parallelism")}
}

// validateTemplateUpdate accepts other scheduling directives and resources of suspended jobs
// without pods.
func validateTemplateUpdate(spec *batchv1.JobSpec, old *batchv1.Job) field.ErrorList {
	template, before := &spec.Template, old.Spec.Template.DeepCopy()
	suspended := ptr.Deref(old.Spec.Suspend, false)
	mutable := suspended && old.Status.Active == 0 && (old.Status.StartTime == nil || is(old, batchv1.JobSuspended, corev1.ConditionTrue))
	if !mutable {
		return rules.Immutable(*template, *before, specPath.Child("template"))
	}
	before.Spec.Affinity = withNodeAffinity(before.Spec.Affinity, template.Spec.Affinity)
	before.Spec.NodeSelector = template.Spec.NodeSelector
	before.Spec.Tolerations = template.Spec.Tolerations
	before.Spec.SchedulingGates = template.Spec.SchedulingGates
	// Metadata may change too: only the spec is compared.
	keepResources(before.Spec.Containers, template.Spec.Containers)
	keepResources(before.Spec.InitContainers, template.Spec.InitContainers)
	return rules.Immutable(template.Spec, before.Spec, specPath.Child("template.spec"))
}

// withNodeAffinity returns an affinity with the node affinity of another one, or nil if it would
// be empty.
func withNodeAffinity(affinity, other *corev1.Affinity) *corev1.Affinity {
	switch {
	case other == nil && affinity == nil:
		return nil
	case affinity == nil:
		return &corev1.Affinity{NodeAffinity: other.NodeAffinity}
	case other != nil:
		affinity.NodeAffinity = other.NodeAffinity
		return affinity
	}
	affinity.NodeAffinity = nil
	if *affinity == (corev1.Affinity{}) {
		return nil
	}
	return affinity
}

// keepResources gives containers the resources of others with the same names.
func keepResources(list, other []corev1.Container) {
	if len(list) != len(other) {
		return
	}
	for i := range list {
		if list[i].Name == other[i].Name {
			list[i].Resources = other[i].Resources
		}
	}
}

// is reports whether a job has a condition with a status.
func is(job *batchv1.Job, condition batchv1.JobConditionType, status corev1.ConditionStatus) bool {
	for _, c := range job.Status.Conditions {
		if c.Type == condition && c.Status == status {
			return true
		}
	}
	return false
}

// state is what the rules of the status of a job depend on.
type state struct {
	complete, failed, failing, succeeding bool
}

func stateOf(job *batchv1.Job) state {
	return state{
		complete:   is(job, batchv1.JobComplete, corev1.ConditionTrue),
		failed:     is(job, batchv1.JobFailed, corev1.ConditionTrue),
		failing:    is(job, batchv1.JobFailureTarget, corev1.ConditionTrue),
		succeeding: is(job, batchv1.JobSuccessCriteriaMet, corev1.ConditionTrue),
	}
}

func (s state) finished() bool { return s.complete || s.failed }

// changes are the parts of the status that an update changes. Rules apply to parts that have
// changed only, so that a status that was valid before they existed can still be updated.
type changes struct {
	finished, complete, failed, failing, succeeding   bool
	completedIndexes, failedIndexes                   bool
	active, ready, terminating, uncounted, start, end bool
}

func changesOf(s, old *batchv1.JobStatus, now, before state) changes {
	return changes{
		finished:         now.finished() != before.finished(),
		complete:         now.complete != before.complete,
		failed:           now.failed != before.failed,
		failing:          now.failing != before.failing,
		succeeding:       now.succeeding != before.succeeding,
		completedIndexes: s.CompletedIndexes != old.CompletedIndexes,
		failedIndexes:    !ptr.Equal(s.FailedIndexes, old.FailedIndexes),
		active:           s.Active != old.Active,
		ready:            !ptr.Equal(s.Ready, old.Ready),
		terminating:      !ptr.Equal(s.Terminating, old.Terminating),
		uncounted:        !apiequality.Semantic.DeepEqual(s.UncountedTerminatedPods, old.UncountedTerminatedPods),
		start:            !ptr.Equal(s.StartTime, old.StartTime),
		end:              !ptr.Equal(s.CompletionTime, old.CompletionTime),
	}
}

func validateJobStatus(job, old *batchv1.Job) field.ErrorList {
	errs := rules.ObjectMetaUpdate(&job.ObjectMeta, &old.ObjectMeta, metadata)
	s, before := stateOf(job), stateOf(old)
	changed := changesOf(&job.Status, &old.Status, s, before)
	errs = append(errs, validateJobCounts(&job.Status)...)
	errs = append(errs, validateJobEnd(job, s, changed)...)
	errs = append(errs, validateJobIndexes(job, changed)...)
	errs = append(errs, validateRunningPods(job, s, changed)...)
	errs = append(errs, validateSuccess(job, s)...)
	return append(errs, validateStatusChange(job, old, s, before, changed)...)
}

// conditionError is an error about a combination of conditions.
func conditionError(detail string) *field.Error {
	return field.Invalid(statusPath.Child("conditions"), field.OmitValueType{}, detail)
}

func validateJobCounts(s *batchv1.JobStatus) field.ErrorList {
	errs := rules.Nonnegative(s.Active, statusPath.Child("active"))
	errs = append(errs, rules.Nonnegative(s.Succeeded, statusPath.Child("succeeded"))...)
	errs = append(errs, rules.Nonnegative(s.Failed, statusPath.Child("failed"))...)
	errs = append(errs, validateOptional(s.Ready, statusPath.Child("ready"))...)
	errs = append(errs, validateOptional(s.Terminating, statusPath.Child("terminating"))...)
	if s.UncountedTerminatedPods == nil {
		return errs
	}
	seen := sets.New[types.UID]()
	check := func(uids []types.UID, path *field.Path) {
		for i, uid := range uids {
			if uid == "" {
				errs = append(errs, field.Invalid(path.Index(i), uid, "must not be empty"))
			} else if seen.Has(uid) {
				errs = append(errs, field.Duplicate(path.Index(i), uid))
			}
			seen.Insert(uid)
		}
	}
	path := statusPath.Child("uncountedTerminatedPods")
	check(s.UncountedTerminatedPods.Succeeded, path.Child("succeeded"))
	check(s.UncountedTerminatedPods.Failed, path.Child("failed"))
	return errs
}

// validateJobEnd validates the conditions and the times of jobs that have finished.
func validateJobEnd(job *batchv1.Job, s state, changed changes) (errs field.ErrorList) {
	status := &job.Status
	completion := statusPath.Child("completionTime")
	if s.complete && s.failed && (changed.complete || changed.failed) {
		errs = append(errs, conditionError("cannot set Complete=True and Failed=true conditions"))
	}
	if s.complete && s.failing && (changed.complete || changed.failing) {
		errs = append(errs, conditionError("cannot set Complete=True and FailureTarget=true conditions"))
	}
	if changed.complete || changed.end {
		if status.CompletionTime != nil && !s.complete {
			errs = append(errs, field.Invalid(completion, status.CompletionTime,
				"cannot set completionTime when there is no Complete=True condition"))
		}
		if status.CompletionTime == nil && s.complete {
			errs = append(errs, field.Required(completion, "completionTime is required for Complete jobs"))
		}
	}
	if (changed.start || changed.end) && status.StartTime != nil && status.CompletionTime != nil &&
		status.CompletionTime.Before(status.StartTime) {
		errs = append(errs, field.Invalid(completion, status.CompletionTime, "must be equal to or after `startTime`"))
	}
	if s.failed && !s.failing && (changed.failed || changed.failedIndexes) {
		errs = append(errs, conditionError("cannot set Failed=True condition without the FailureTarget=true condition"))
	}
	if s.complete && !s.succeeding && (changed.complete || changed.succeeding) {
		errs = append(errs, conditionError("cannot set Complete=True condition without the SuccessCriteriaMet=true condition"))
	}
	if !s.finished() {
		return errs
	}
	if status.Active > 0 && (changed.finished || changed.active) {
		errs = append(errs, field.Invalid(statusPath.Child("active"), status.Active, "active>0 is invalid for finished job"))
	}
	nothingToDo := ptr.Deref(job.Spec.Suspend, false) && ptr.Equal(job.Spec.Completions, ptr.To[int32](0))
	if status.StartTime == nil && (changed.finished || changed.start) && !nothingToDo {
		errs = append(errs, field.Required(statusPath.Child("startTime"), "startTime is required for finished job"))
	}
	if uncounted := status.UncountedTerminatedPods; uncounted != nil &&
		(changed.finished || changed.uncounted) && len(uncounted.Failed)+len(uncounted.Succeeded) > 0 {
		errs = append(errs, field.Invalid(statusPath.Child("uncountedTerminatedPods"),
			rules.Internal(uncounted), "must be empty for finished job"))
	}
	return errs
}

func validateJobIndexes(job *batchv1.Job, changed changes) (errs field.ErrorList) {
	status := &job.Status
	completed, failed := statusPath.Child("completedIndexes"), statusPath.Child("failedIndexes")
	if completions := job.Spec.Completions; completions != nil {
		if _, err := parseIndexes(status.CompletedIndexes, *completions); err != nil && changed.completedIndexes {
			errs = append(errs, field.Invalid(completed, status.CompletedIndexes, "error parsing completedIndexes: "+err.Error()))
		}
		if status.FailedIndexes != nil && job.Spec.BackoffLimitPerIndex != nil && changed.failedIndexes {
			if _, err := parseIndexes(*status.FailedIndexes, *completions); err != nil {
				errs = append(errs, field.Invalid(failed, status.FailedIndexes, "error parsing failedIndexes: "+err.Error()))
			}
		}
	}
	if changed.completedIndexes && status.CompletedIndexes != "" && !isIndexed(&job.Spec) {
		errs = append(errs, field.Invalid(completed, status.CompletedIndexes,
			"cannot set non-empty completedIndexes when non-indexed completion mode"))
	}
	if status.FailedIndexes == nil {
		return errs
	}
	if changed.failedIndexes && job.Spec.BackoffLimitPerIndex == nil {
		errs = append(errs, field.Invalid(failed, *status.FailedIndexes,
			"cannot set non-null failedIndexes when backoffLimitPerIndex is null"))
	}
	if completions := job.Spec.Completions; completions != nil && (changed.failedIndexes || changed.completedIndexes) {
		if index, ok := overlap(status.CompletedIndexes, *status.FailedIndexes, *completions); ok {
			errs = append(errs, field.Invalid(failed, *status.FailedIndexes,
				fmt.Sprintf("failedIndexes and completedIndexes overlap at index: %d", index)))
		}
	}
	return errs
}

func validateRunningPods(job *batchv1.Job, s state, changed changes) (errs field.ErrorList) {
	status := &job.Status
	if ptr.Deref(status.Terminating, 0) > 0 && s.finished() && (changed.finished || changed.terminating) {
		errs = append(errs, field.Invalid(statusPath.Child("terminating"), status.Terminating, "terminating>0 is invalid for finished job"))
	}
	if status.Ready != nil && *status.Ready > status.Active && (changed.ready || changed.active) {
		errs = append(errs, field.Invalid(statusPath.Child("ready"), *status.Ready, "cannot set more ready pods than active"))
	}
	return errs
}

// validateSuccess validates the condition that the criteria of success are met.
func validateSuccess(job *batchv1.Job, s state) (errs field.ErrorList) {
	if s.succeeding && s.failed {
		errs = append(errs, conditionError("cannot set SuccessCriteriaMet=True and Failed=true conditions"))
	}
	if s.succeeding && s.failing {
		errs = append(errs, conditionError("cannot set SuccessCriteriaMet=True and FailureTarget=true conditions"))
	}
	if job.Spec.SuccessPolicy != nil && !s.succeeding && s.complete {
		errs = append(errs, conditionError("cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True"))
	}
	return errs
}

// validateStatusChange rejects changes that go back.
func validateStatusChange(job, old *batchv1.Job, s, before state, changed changes) (errs field.ErrorList) {
	for _, condition := range []struct {
		name     batchv1.JobConditionType
		old, new bool
	}{
		{batchv1.JobFailed, before.failed, s.failed},
		{batchv1.JobComplete, before.complete, s.complete},
		{batchv1.JobFailureTarget, before.failing, s.failing},
	} {
		if condition.old && !condition.new {
			errs = append(errs, conditionError(fmt.Sprintf("cannot disable the terminal %s=True condition", condition.name)))
		}
	}
	status, was := &job.Status, &old.Status
	if status.Failed < was.Failed {
		errs = append(errs, field.Invalid(statusPath.Child("failed"), status.Failed, "cannot decrease the failed counter"))
	}
	// Indexed jobs can become smaller.
	elastic := isIndexed(&job.Spec) && ptr.Equal(job.Spec.Completions, job.Spec.Parallelism)
	if status.Succeeded < was.Succeeded && !elastic {
		errs = append(errs, field.Invalid(statusPath.Child("succeeded"), status.Succeeded, "cannot decrease the succeeded counter"))
	}
	if status.CompletionTime != nil && was.CompletionTime != nil && changed.end {
		errs = append(errs, field.Invalid(statusPath.Child("completionTime"), status.CompletionTime, "field is immutable"))
	}
	resumed := is(old, batchv1.JobSuspended, corev1.ConditionTrue) && is(job, batchv1.JobSuspended, corev1.ConditionFalse)
	if was.StartTime != nil && changed.start && !resumed && !ptr.Deref(job.Spec.Suspend, false) {
		errs = append(errs, field.Invalid(statusPath.Child("startTime"), status.StartTime,
			"field is immutable for unsuspended job once set"))
	}
	if before.succeeding && !s.succeeding {
		errs = append(errs, conditionError("cannot disable the SuccessCriteriaMet=True condition"))
	}
	if before.complete && !before.succeeding && s.succeeding {
		errs = append(errs, conditionError("cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions"))
	}
	return errs
}
