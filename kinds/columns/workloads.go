package columns

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

func replicationControllerColumns() []column {
	spec, status := corev1.ReplicationControllerSpec{}.SwaggerDoc(), corev1.ReplicationControllerStatus{}.SwaggerDoc()
	return append([]column{
		name(),
		number("Desired", spec["replicas"], func(c *corev1.ReplicationController) any { return int64(ptr.Deref(c.Spec.Replicas, 0)) }),
		number("Current", status["replicas"], func(c *corev1.ReplicationController) any { return int64(c.Status.Replicas) }),
		number("Ready", status["readyReplicas"], func(c *corev1.ReplicationController) any { return int64(c.Status.ReadyReplicas) }),
		age(),
	}, wideContainers(func(c *corev1.ReplicationController) []corev1.Container {
		if c.Spec.Template == nil {
			return nil
		}
		return c.Spec.Template.Spec.Containers
	}, text("Selector", spec["selector"], func(c *corev1.ReplicationController) any { return labels.FormatLabels(c.Spec.Selector) }))...)
}

func replicaSetColumns() []column {
	spec, status := appsv1.ReplicaSetSpec{}.SwaggerDoc(), appsv1.ReplicaSetStatus{}.SwaggerDoc()
	return append([]column{
		name(),
		number("Desired", spec["replicas"], func(s *appsv1.ReplicaSet) any { return int64(ptr.Deref(s.Spec.Replicas, 0)) }),
		number("Current", status["replicas"], func(s *appsv1.ReplicaSet) any { return int64(s.Status.Replicas) }),
		number("Ready", status["readyReplicas"], func(s *appsv1.ReplicaSet) any { return int64(s.Status.ReadyReplicas) }),
		age(),
	}, wideContainers(func(s *appsv1.ReplicaSet) []corev1.Container { return s.Spec.Template.Spec.Containers },
		text("Selector", spec["selector"], func(s *appsv1.ReplicaSet) any { return metav1.FormatLabelSelector(s.Spec.Selector) }))...)
}

func deploymentColumns() []column {
	status := appsv1.DeploymentStatus{}.SwaggerDoc()
	return append([]column{
		name(),
		text("Ready", "Number of the pod with ready state", func(d *appsv1.Deployment) any {
			return fmt.Sprintf("%d/%d", d.Status.ReadyReplicas, ptr.Deref(d.Spec.Replicas, 0))
		}),
		text("Up-to-date", status["updatedReplicas"], func(d *appsv1.Deployment) any { return int64(d.Status.UpdatedReplicas) }),
		text("Available", status["availableReplicas"], func(d *appsv1.Deployment) any { return int64(d.Status.AvailableReplicas) }),
		age(),
	}, wideContainers(func(d *appsv1.Deployment) []corev1.Container { return d.Spec.Template.Spec.Containers },
		text("Selector", appsv1.DeploymentSpec{}.SwaggerDoc()["selector"], func(d *appsv1.Deployment) any {
			selector, err := metav1.LabelSelectorAsSelector(d.Spec.Selector)
			if err != nil {
				return "<invalid>"
			}
			return selector.String()
		}))...)
}

func statefulSetColumns() []column {
	return append([]column{
		name(),
		text("Ready", "Number of the pod with ready state", func(s *appsv1.StatefulSet) any {
			return fmt.Sprintf("%d/%d", s.Status.ReadyReplicas, ptr.Deref(s.Spec.Replicas, 0))
		}),
		age(),
	}, wideContainers(func(s *appsv1.StatefulSet) []corev1.Container { return s.Spec.Template.Spec.Containers })...)
}

func daemonSetColumns() []column {
	status := appsv1.DaemonSetStatus{}.SwaggerDoc()
	return append([]column{
		name(),
		number("Desired", status["desiredNumberScheduled"],
			func(s *appsv1.DaemonSet) any { return int64(s.Status.DesiredNumberScheduled) }),
		number("Current", status["currentNumberScheduled"],
			func(s *appsv1.DaemonSet) any { return int64(s.Status.CurrentNumberScheduled) }),
		number("Ready", status["numberReady"], func(s *appsv1.DaemonSet) any { return int64(s.Status.NumberReady) }),
		number("Up-to-date", status["updatedNumberScheduled"],
			func(s *appsv1.DaemonSet) any { return int64(s.Status.UpdatedNumberScheduled) }),
		number("Available", status["numberAvailable"], func(s *appsv1.DaemonSet) any { return int64(s.Status.NumberAvailable) }),
		text("Node Selector", corev1.PodSpec{}.SwaggerDoc()["nodeSelector"], func(s *appsv1.DaemonSet) any {
			return labels.FormatLabels(s.Spec.Template.Spec.NodeSelector)
		}),
		age(),
	}, wideContainers(func(s *appsv1.DaemonSet) []corev1.Container { return s.Spec.Template.Spec.Containers },
		text("Selector", appsv1.DaemonSetSpec{}.SwaggerDoc()["selector"], func(s *appsv1.DaemonSet) any {
			return metav1.FormatLabelSelector(s.Spec.Selector)
		}))...)
}

func controllerRevisionColumns() []column {
	return []column{
		name(),
		text("Controller", "Controller of the object", func(r *appsv1.ControllerRevision) any {
			owner := metav1.GetControllerOf(r)
			if owner == nil {
				return none
			}
			kind := runtimeschema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).GroupKind()
			if kind.Empty() {
				return owner.Name
			}
			return strings.ToLower(kind.String()) + "/" + owner.Name
		}),
		text("Revision", appsv1.ControllerRevision{}.SwaggerDoc()["revision"],
			func(r *appsv1.ControllerRevision) any { return r.Revision }),
		age(),
	}
}

func jobColumns() []column {
	return append([]column{
		name(),
		text("Status", "Status of the job.", func(j *batchv1.Job) any { return jobStatus(j) }),
		text("Completions", batchv1.JobStatus{}.SwaggerDoc()["succeeded"], func(j *batchv1.Job) any {
			switch parallelism := ptr.Deref(j.Spec.Parallelism, 0); {
			case j.Spec.Completions != nil:
				return fmt.Sprintf("%d/%d", j.Status.Succeeded, *j.Spec.Completions)
			case parallelism > 1:
				return fmt.Sprintf("%d/1 of %d", j.Status.Succeeded, parallelism)
			}
			return fmt.Sprintf("%d/1", j.Status.Succeeded)
		}),
		text("Duration", "Time required to complete the job.", func(j *batchv1.Job) any {
			switch start, end := j.Status.StartTime, j.Status.CompletionTime; {
			case start == nil:
				return ""
			case end == nil:
				return duration.HumanDuration(time.Since(start.Time))
			default:
				return duration.HumanDuration(end.Sub(start.Time))
			}
		}),
		age(),
	}, wideContainers(func(j *batchv1.Job) []corev1.Container { return j.Spec.Template.Spec.Containers },
		text("Selector", batchv1.JobSpec{}.SwaggerDoc()["selector"],
			func(j *batchv1.Job) any { return metav1.FormatLabelSelector(j.Spec.Selector) }))...)
}

func jobStatus(j *batchv1.Job) string {
	has := func(conditionType batchv1.JobConditionType) bool {
		i := slices.IndexFunc(j.Status.Conditions, func(c batchv1.JobCondition) bool { return c.Type == conditionType })
		return i >= 0 && j.Status.Conditions[i].Status == corev1.ConditionTrue
	}
	for _, ended := range []batchv1.JobConditionType{batchv1.JobComplete, batchv1.JobFailed} {
		if has(ended) {
			return string(ended)
		}
	}
	if j.DeletionTimestamp != nil {
		return "Terminating"
	}
	for _, state := range []batchv1.JobConditionType{batchv1.JobSuspended, batchv1.JobFailureTarget, batchv1.JobSuccessCriteriaMet} {
		if has(state) {
			return string(state)
		}
	}
	return "Running"
}

func cronJobColumns() []column {
	spec, status := batchv1.CronJobSpec{}.SwaggerDoc(), batchv1.CronJobStatus{}.SwaggerDoc()
	return append([]column{
		name(),
		text("Schedule", spec["schedule"], func(j *batchv1.CronJob) any { return j.Spec.Schedule }),
		text("Timezone", spec["timeZone"], func(j *batchv1.CronJob) any { return orElse(j.Spec.TimeZone, none) }),
		flag("Suspend", spec["suspend"], func(j *batchv1.CronJob) any {
			switch {
			case j.Spec.Suspend == nil:
				return unset
			case *j.Spec.Suspend:
				return "True"
			}
			return "False"
		}),
		number("Active", status["active"], func(j *batchv1.CronJob) any { return count(j.Status.Active) }),
		text("Last Schedule", status["lastScheduleTime"], func(j *batchv1.CronJob) any {
			if j.Status.LastScheduleTime == nil {
				return none
			}
			return since(j.Status.LastScheduleTime.Time)
		}),
		age(),
	}, wideContainers(func(j *batchv1.CronJob) []corev1.Container { return j.Spec.JobTemplate.Spec.Template.Spec.Containers },
		text("Selector", batchv1.JobSpec{}.SwaggerDoc()["selector"], func(j *batchv1.CronJob) any {
			return metav1.FormatLabelSelector(j.Spec.JobTemplate.Spec.Selector)
		}))...)
}

func scaleColumns() []column {
	named := name()
	named.Format = ""
	return []column{
		named,
		number("Desired", autoscalingv1.ScaleSpec{}.SwaggerDoc()["replicas"],
			func(s *autoscalingv1.Scale) any { return int64(s.Spec.Replicas) }),
		number("Available", autoscalingv1.ScaleStatus{}.SwaggerDoc()["replicas"],
			func(s *autoscalingv1.Scale) any { return int64(s.Status.Replicas) }),
		age(),
	}
}

func podDisruptionBudgetColumns() []column {
	limit := func(v *intstr.IntOrString) any {
		if v == nil {
			return "N/A"
		}
		return v.String()
	}
	return []column{
		name(),
		text("Min Available", "The minimum number of pods that must be available.", func(b *policyv1.PodDisruptionBudget) any {
			return limit(b.Spec.MinAvailable)
		}),
		text("Max Unavailable", "The maximum number of pods that may be unavailable.", func(b *policyv1.PodDisruptionBudget) any {
			return limit(b.Spec.MaxUnavailable)
		}),
		number("Allowed Disruptions", "Calculated number of pods that may be disrupted at this time.",
			func(b *policyv1.PodDisruptionBudget) any {
				return int64(b.Status.DisruptionsAllowed)
			}),
		age(),
	}
}

func priorityClassColumns() []column {
	doc := schedulingv1.PriorityClass{}.SwaggerDoc()
	return []column{
		name(),
		number("Value", doc["value"], func(c *schedulingv1.PriorityClass) any { return int64(c.Value) }),
		flag("Global-Default", doc["globalDefault"], func(c *schedulingv1.PriorityClass) any { return c.GlobalDefault }),
		age(),
		text("PreemptionPolicy", doc["preemptionPolicy"],
			func(c *schedulingv1.PriorityClass) any { return orElse(c.PreemptionPolicy, "") }),
	}
}
