// Package batch has the rules of jobs and cron jobs, as kube-apiserver v1.36 has them.
package batch

import (
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/kinds/kind"
)

var metadata, specPath, statusPath = field.NewPath("metadata"), field.NewPath("spec"), field.NewPath("status")

// Rules returns the rules of the kinds in the group batch by resource.
func Rules() map[string]kind.Rules {
	return map[string]kind.Rules{
		"jobs": {
			Default: kind.On(defaultJob),
			Main: kind.Write{
				Prepare:  kind.Change(prepareJob),
				Validate: kind.Check(validateJob),
				Warnings: kind.Warn(jobWarnings),
				Reset:    []string{"status"},
			},
			Status: &kind.Write{
				Prepare:  kind.Change(func(job, old *batchv1.Job) { old.Spec.DeepCopyInto(&job.Spec) }),
				Validate: kind.Check(validateJobStatus),
				Reset:    []string{"spec"},
			},
			Fields: func(obj kind.Object) fields.Set {
				return fields.Set{"status.successful": strconv.Itoa(int(obj.(*batchv1.Job).Status.Succeeded))}
			},
		},
		"cronjobs": {
			Default: kind.On(defaultCronJob),
			Main: kind.Write{
				Prepare:  kind.Change(prepareCronJob),
				Validate: kind.Check(validateCronJob),
				Warnings: kind.Warn(cronJobWarnings),
				Reset:    []string{"status"},
			},
			Status: &kind.Write{
				Prepare: kind.Change(func(job, old *batchv1.CronJob) { old.Spec.DeepCopyInto(&job.Spec) }),
				Reset:   []string{"spec"},
			},
		},
	}
}
