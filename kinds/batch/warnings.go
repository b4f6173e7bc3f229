package batch

import (
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"espalier.dev/kinds/pods"
)

func jobWarnings(job, old *batchv1.Job) []string {
	switch {
	case old == nil:
		return append(pods.NameWarnings(job.Name), specWarnings(&job.Spec, specPath)...)
	case job.Generation != old.Generation:
		return specWarnings(&job.Spec, specPath)
	}
	return nil
}

func cronJobWarnings(job, old *batchv1.CronJob) (list []string) {
	path := specPath.Child("jobTemplate", "spec")
	if old == nil {
		return append(pods.NameWarnings(job.Name), specWarnings(&job.Spec.JobTemplate.Spec, path)...)
	}
	if job.Generation != old.Generation {
		list = specWarnings(&job.Spec.JobTemplate.Spec, path)
	}
	if strings.Contains(job.Spec.Schedule, "TZ") {
		list = append(list, "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details")
	}
	return list
}

func specWarnings(spec *batchv1.JobSpec, path *field.Path) (list []string) {
	const manyCompletions, highParallelism = 100_000, 10_000
	if isIndexed(spec) && ptr.Deref(spec.Completions, 0) > manyCompletions && ptr.Deref(spec.Parallelism, 0) > highParallelism {
		list = append(list, path.String()+
			": In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail")
	}
	return append(list, pods.TemplateWarnings(&spec.Template, path.Child("template"))...)
}
