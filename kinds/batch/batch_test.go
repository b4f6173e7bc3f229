package batch_test

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"espalier.dev/kinds/batch"
	"espalier.dev/kinds/kind/kindtest"
)

func job() *batchv1.Job {
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "work", Namespace: "default", UID: "1"},
		Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{
			Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "work", Image: "busybox"}}},
		}},
	}
}

func indexed(job *batchv1.Job) {
	job.Spec.CompletionMode = ptr.To(batchv1.IndexedCompletion)
	job.Spec.Completions, job.Spec.Parallelism = ptr.To[int32](3), ptr.To[int32](3)
}

func TestJobs(t *testing.T) {
	t.Parallel()
	rules := batch.Rules()["jobs"]
	create := kindtest.Create(t, rules, job())
	j := create(func(*batchv1.Job) {})
	if *j.Spec.BackoffLimit != 6 || *j.Spec.Completions != 1 || j.Spec.Selector.MatchLabels[batchv1.ControllerUidLabel] != "1" || j.Spec.Template.Labels["job-name"] != "work" {
		t.Errorf("wrong defaults: %+v", j.Spec)
	}
	create(func(j *batchv1.Job) { j.Spec.Template.Spec.RestartPolicy = "" },
		`spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"`)
	create(func(j *batchv1.Job) { j.Spec.Template.Labels = map[string]string{"controller-uid": "2"} },
		`spec.template.metadata.labels[controller-uid]: Invalid value: {"batch.kubernetes.io/controller-uid":"1","batch.kubernetes.io/job-name":"work","controller-uid":"2","job-name":"work"}: must be '1'`)
	create(func(j *batchv1.Job) { j.Spec.ManualSelector = ptr.To(true) }, "spec.selector: Required value",
		"spec.template.metadata.labels: Invalid value: null: `selector` does not match template `labels`")
	create(func(j *batchv1.Job) { j.Spec.BackoffLimitPerIndex = ptr.To[int32](1) },
		`spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode`)
	create(func(j *batchv1.Job) {
		j.Spec.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{
			{OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{Operator: "In", Values: []int32{2, 0}}},
		}}
	}, `spec.podFailurePolicy.rules[0].action: Required value: valid values: ["Count" "FailIndex" "FailJob" "Ignore"]`,
		`spec.podFailurePolicy.rules[0].onExitCodes.values[1]: Invalid value: 0: must not be 0 for the In operator`,
		`spec.podFailurePolicy.rules[0].onExitCodes.values: Invalid value: [2,0]: must be ordered`)
	create(func(j *batchv1.Job) {
		indexed(j)
		j.Spec.SuccessPolicy = &batchv1.SuccessPolicy{Rules: []batchv1.SuccessPolicyRule{{SucceededIndexes: ptr.To("0-5")}, {SucceededIndexes: ptr.To("0,2"), SucceededCount: ptr.To[int32](3)}}}
	}, `spec.successPolicy.rules[0].succeededIndexes: Invalid value: "0-5": error parsing succeededIndexes: too large index: "5"`,
		`spec.successPolicy.rules[1].succeededCount: Invalid value: 3: must be less than or equal to 2 (the number of indexes in the specified succeededIndexes field)`)

	update := kindtest.Update(t, rules, "", job())
	if j := update(func(j *batchv1.Job) { j.Spec.Parallelism = ptr.To[int32](2) }); j.Generation != 2 {
		t.Errorf("the generation is %d after a change", j.Generation)
	}
	update(func(j *batchv1.Job) { j.Spec.Completions = ptr.To[int32](2) }, `spec.completions: Invalid value: 2: field is immutable`)
	suspended := job()
	suspended.Spec.Suspend = ptr.To(true)
	kindtest.Update(t, rules, "", suspended)(func(j *batchv1.Job) { j.Spec.Template.Spec.NodeSelector = map[string]string{"a": "b"} })
}

func TestJobStatus(t *testing.T) {
	t.Parallel()
	update := kindtest.Update(t, batch.Rules()["jobs"], "status", job())
	condition := func(j *batchv1.Job, types ...batchv1.JobConditionType) {
		for _, c := range types {
			j.Status.Conditions = append(j.Status.Conditions, batchv1.JobCondition{Type: c, Status: corev1.ConditionTrue})
		}
	}
	now := metav1.NewTime(time.Unix(1700000000, 0))
	update(func(j *batchv1.Job) {
		condition(j, batchv1.JobSuccessCriteriaMet, batchv1.JobComplete)
		j.Status.StartTime, j.Status.CompletionTime = &now, &now
	})
	update(func(j *batchv1.Job) { condition(j, batchv1.JobComplete) },
		`status.completionTime: Required value: completionTime is required for Complete jobs`,
		`status.conditions: Invalid value: cannot set Complete=True condition without the SuccessCriteriaMet=true condition`,
		`status.startTime: Required value: startTime is required for finished job`)
	update(func(j *batchv1.Job) { j.Status.Ready = ptr.To[int32](2); j.Status.Active = 1 },
		`status.ready: Invalid value: 2: cannot set more ready pods than active`)
	update(func(j *batchv1.Job) { j.Status.CompletedIndexes = "0" },
		`status.completedIndexes: Invalid value: "0": cannot set non-empty completedIndexes when non-indexed completion mode`)
}

func TestCronJobs(t *testing.T) {
	t.Parallel()
	rules := batch.Rules()["cronjobs"]
	valid := &batchv1.CronJob{ObjectMeta: job().ObjectMeta, Spec: batchv1.CronJobSpec{Schedule: "*/5 * * * *", JobTemplate: batchv1.JobTemplateSpec{Spec: job().Spec}}}
	create := kindtest.Create(t, rules, valid)
	c := create(func(*batchv1.CronJob) {})
	if c.Spec.ConcurrencyPolicy != batchv1.AllowConcurrent || *c.Spec.SuccessfulJobsHistoryLimit != 3 || *c.Spec.FailedJobsHistoryLimit != 1 {
		t.Errorf("wrong defaults: %+v", c.Spec)
	}
	create(func(c *batchv1.CronJob) { c.Spec.Schedule = "" }, `spec.schedule: Required value`)
	create(func(c *batchv1.CronJob) { c.Spec.Schedule = "x" }, `spec.schedule: Invalid value: "x": expected exactly 5 fields, found 1: [x]`)
	create(func(c *batchv1.CronJob) { c.Spec.Schedule = "TZ=UTC * * * * *" },
		`spec.schedule: Invalid value: "TZ=UTC * * * * *": cannot use TZ or CRON_TZ in schedule, use timeZone field instead`)
	create(func(c *batchv1.CronJob) { c.Spec.TimeZone = ptr.To("No/Where") }, `spec.timeZone: Invalid value: "No/Where": unknown time zone No/Where`)
	create(func(c *batchv1.CronJob) { c.Spec.ConcurrencyPolicy = "x" },
		`spec.concurrencyPolicy: Unsupported value: "x": supported values: "Allow", "Forbid", "Replace"`)
	long := strings.Repeat("a", 53)
	create(func(c *batchv1.CronJob) { c.Name = long }, `metadata.name: Invalid value: "`+long+`": must be no more than 52 characters`)
	kindtest.Update(t, rules, "", valid)(func(c *batchv1.CronJob) { c.Spec.JobTemplate.Spec.ManualSelector = ptr.To(true) },
		`spec.jobTemplate.spec.manualSelector: Unsupported value: true: supported values: "nil", "false"`)
}
