package batch

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/robfig/cron/v3"
	batchv1 "k8s.io/api/batch/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"espalier.dev/kinds/pods"
	"espalier.dev/kinds/rules"
)

func defaultCronJob(job *batchv1.CronJob) {
	rules.SetDefault(&job.Spec.ConcurrencyPolicy, batchv1.AllowConcurrent)
	rules.SetDefaultPointer(&job.Spec.Suspend, false)
	rules.SetDefaultPointer(&job.Spec.SuccessfulJobsHistoryLimit, 3)
	rules.SetDefaultPointer(&job.Spec.FailedJobsHistoryLimit, 1)
	defaultTemplate(&job.Spec.JobTemplate.Spec)
}

func prepareCronJob(job, old *batchv1.CronJob) {
	template := &job.Spec.JobTemplate.Spec.Template
	if old == nil || old.Spec.JobTemplate.Spec.Scheduling == nil {
		job.Spec.JobTemplate.Spec.Scheduling = nil
	}
	if old == nil {
		job.Status = batchv1.CronJobStatus{}
		job.Generation = 1
		pods.PrepareTemplate(template, nil)
		return
	}
	old.Status.DeepCopyInto(&job.Status)
	pods.PrepareTemplate(template, &old.Spec.JobTemplate.Spec.Template)
	if !apiequality.Semantic.DeepEqual(job.Spec, old.Spec) {
		job.Generation = old.Generation + 1
	}
}

// maxCronJobName is the length of names that leaves room for the suffix of the jobs.
const maxCronJobName = 52

func validateCronJob(job, old *batchv1.CronJob) field.ErrorList {
	if old != nil {
		errs := rules.ObjectMetaUpdate(&job.ObjectMeta, &old.ObjectMeta, metadata)
		return append(errs, validateCronJobSpec(&job.Spec, &old.Spec, pods.TemplateOptions(&old.Spec.JobTemplate.Spec.Template))...)
	}
	errs := rules.ObjectMeta(&job.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, metadata)
	errs = append(errs, validateCronJobSpec(&job.Spec, nil, pods.Options{})...)
	if len(job.Name) > maxCronJobName {
		errs = append(errs, field.Invalid(metadata.Child("name"), job.Name, fmt.Sprintf("must be no more than %d characters", maxCronJobName)))
	}
	return errs
}

func validateCronJobSpec(spec, old *batchv1.CronJobSpec, opts pods.Options) (errs field.ErrorList) {
	if spec.Schedule == "" {
		errs = append(errs, field.Required(specPath.Child("schedule"), ""))
	} else {
		zoned := old != nil && strings.Contains(old.Schedule, "TZ")
		errs = append(errs, validateSchedule(spec, zoned, specPath.Child("schedule"))...)
	}
	if spec.StartingDeadlineSeconds != nil {
		errs = append(errs, rules.Nonnegative(*spec.StartingDeadlineSeconds, specPath.Child("startingDeadlineSeconds"))...)
	}
	if spec.TimeZone != nil && (old == nil || !ptr.Equal(old.TimeZone, spec.TimeZone)) {
		errs = append(errs, validateTimeZone(*spec.TimeZone, specPath.Child("timeZone"))...)
	}
	errs = append(errs, rules.RequiredEnum(spec.ConcurrencyPolicy, specPath.Child("concurrencyPolicy"),
		batchv1.AllowConcurrent, batchv1.ForbidConcurrent, batchv1.ReplaceConcurrent)...)

	template, path := &spec.JobTemplate.Spec, specPath.Child("jobTemplate", "spec")
	errs = append(errs, validateJobSpec(template, path, opts)...)
	if template.Selector != nil {
		errs = append(errs, field.Invalid(path.Child("selector"), template.Selector, "`selector` will be auto-generated"))
	}
	if ptr.Deref(template.ManualSelector, false) {
		errs = append(errs, field.NotSupported(path.Child("manualSelector"), template.ManualSelector, []string{"nil", "false"}))
	}
	if spec.SuccessfulJobsHistoryLimit != nil {
		errs = append(errs, rules.Nonnegative(*spec.SuccessfulJobsHistoryLimit, specPath.Child("successfulJobsHistoryLimit"))...)
	}
	if spec.FailedJobsHistoryLimit != nil {
		errs = append(errs, rules.Nonnegative(*spec.FailedJobsHistoryLimit, specPath.Child("failedJobsHistoryLimit"))...)
	}
	return errs
}

// validateSchedule validates when jobs are created. The schedule of old objects may have a time
// zone, for which there is a field now.
func validateSchedule(spec *batchv1.CronJobSpec, zoned bool, path *field.Path) (errs field.ErrorList) {
	if err := parseSchedule(spec.Schedule); err != nil {
		errs = append(errs, field.Invalid(path, spec.Schedule, err.Error()))
	}
	switch hasZone := strings.Contains(spec.Schedule, "TZ"); {
	case hasZone && !zoned:
		errs = append(errs, field.Invalid(path, spec.Schedule, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"))
	case hasZone && spec.TimeZone != nil:
		errs = append(errs, field.Invalid(path, spec.Schedule, "cannot use both timeZone field and TZ or CRON_TZ in schedule"))
	}
	return errs
}

// parseSchedule reports what is wrong with a schedule. The parser panics on some of them, for
// example "TZ=0".
func parseSchedule(schedule string) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("invalid schedule format: %v", r)
		}
	}()
	_, err = cron.ParseStandard(schedule)
	return err
}

var zonePart = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z\.\-_0-9+]{1,14}$`) })

func validateTimeZone(zone string, path *field.Path) (errs field.ErrorList) {
	if zone == "" {
		return field.ErrorList{field.Invalid(path, zone, "timeZone must be nil or non-empty string")}
	}
	for part := range strings.SplitSeq(zone, "/") {
		if part == "." || part == ".." || strings.HasPrefix(part, "-") || !zonePart().MatchString(part) {
			return field.ErrorList{field.Invalid(path, zone, "unknown time zone "+zone)}
		}
	}
	if strings.EqualFold(zone, "Local") {
		errs = append(errs, field.Invalid(path, zone, "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"))
	}
	if _, err := time.LoadLocation(zone); err != nil {
		errs = append(errs, field.Invalid(path, zone, err.Error()))
	}
	return errs
}
