// Package pods has the rules of pods and of templates of pods, which other kinds contain, as
// kube-apiserver v1.36 has them. Features that are on by default there are on; fields of others
// are dropped. Privileged containers are allowed, as with --allow-privileged.
package pods

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/kinds/kind"
	"espalier.dev/kinds/rules"
)

var metadata, specPath, statusPath = field.NewPath("metadata"), field.NewPath("spec"), field.NewPath("status")

// Rules returns the rules of pods, pod templates and replication controllers by resource.
func Rules() map[string]kind.Rules {
	return map[string]kind.Rules{
		"pods": {
			Default: kind.On(defaultPod),
			Main: kind.Write{
				Prepare:      kind.Change(preparePod),
				Validate:     kind.Check(validatePod),
				Warnings:     kind.Warn(podWarnings),
				Canonicalize: kind.On(moveAppArmorAnnotations),
				Reset:        []string{"status"},
			},
			Status: &kind.Write{
				Prepare:  kind.Change(prepareStatus),
				Validate: kind.Check(validateStatus),
				Warnings: kind.Warn(statusWarnings),
				Reset:    []string{"spec", "metadata.deletionTimestamp", "metadata.ownerReferences"},
			},
			Subresources: map[string]kind.Write{
				"ephemeralcontainers": {Prepare: kind.Change(prepareEphemeralContainers), Validate: kind.Check(validateEphemeralContainers)},
				"resize":              {Prepare: kind.Change(prepareResize), Validate: kind.Check(validateResize)},
			},
			Fields: func(obj kind.Object) fields.Set { return podFields(obj.(*corev1.Pod)) },
			Graceful: func(obj kind.Object, requested *int64) int64 {
				return gracePeriod(obj.(*corev1.Pod), requested)
			},
		},
		"podtemplates": {
			Default: kind.On(func(t *corev1.PodTemplate) { DefaultTemplate(&t.Template) }),
			Main: kind.Write{
				Prepare:  kind.Change(preparePodTemplate),
				Validate: kind.Check(validatePodTemplate),
				Warnings: kind.Warn(podTemplateWarnings),
			},
		},
		"replicationcontrollers": {
			Default: kind.On(defaultController),
			Main: kind.Write{
				Prepare:  kind.Change(prepareController),
				Validate: kind.Check(validateController),
				Warnings: kind.Warn(controllerWarnings),
				Reset:    []string{"status"},
			},
			Status: &kind.Write{
				Prepare:  kind.Change(prepareControllerStatus),
				Validate: kind.Check(validateControllerStatus),
				Reset:    []string{"spec"},
			},
			Fields: func(obj kind.Object) fields.Set {
				return fields.Set{"status.replicas": strconv.Itoa(int(obj.(*corev1.ReplicationController).Status.Replicas))}
			},
		},
	}
}

func podFields(pod *corev1.Pod) fields.Set {
	ip := ""
	if len(pod.Status.PodIPs) > 0 {
		ip = pod.Status.PodIPs[0].IP
	}
	return fields.Set{
		"spec.nodeName":            pod.Spec.NodeName,
		"spec.restartPolicy":       string(pod.Spec.RestartPolicy),
		"spec.schedulerName":       pod.Spec.SchedulerName,
		"spec.serviceAccountName":  pod.Spec.ServiceAccountName,
		"spec.hostNetwork":         strconv.FormatBool(pod.Spec.HostNetwork),
		"status.phase":             string(pod.Status.Phase),
		"status.podIP":             ip,
		"status.nominatedNodeName": pod.Status.NominatedNodeName,
	}
}

// validatePod validates a pod that is created or updated.
func validatePod(pod, old *corev1.Pod) field.ErrorList {
	opts := podOptions(old)
	if old != nil {
		return validateUpdate(pod, old, opts)
	}
	errs := validateWhole(pod, opts)
	if len(pod.Spec.EphemeralContainers) > 0 {
		errs = append(errs, field.Forbidden(specPath.Child("ephemeralContainers"), "cannot be set on create"))
	}
	if pod.Spec.NodeName != "" && len(pod.Spec.SchedulingGates) > 0 {
		errs = append(errs, field.Forbidden(specPath.Child("nodeName"), "cannot be set until all schedulingGates have been cleared"))
	}
	return append(errs, validateProfileAnnotations(&pod.ObjectMeta, &pod.Spec, true, specPath)...)
}

// validateWhole validates the metadata and the spec of a pod.
func validateWhole(pod *corev1.Pod, opts Options) field.ErrorList {
	errs := rules.ObjectMeta(&pod.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, metadata)
	errs = append(errs, Annotations(pod.Annotations, &pod.Spec, metadata.Child("annotations"), opts)...)
	errs = append(errs, validateSpec(&pod.Spec, &pod.ObjectMeta, specPath, opts)...)
	if pod.Spec.ServiceAccountName == "" {
		for at := range tokenSources(pod.Spec.Volumes, specPath.Child("volumes")) {
			errs = append(errs, field.Forbidden(at, "must not be specified when serviceAccountName is not set"))
		}
	}
	for i, c := range pod.Spec.Containers {
		errs = append(errs, trimmedImage(c.Image, specPath.Child("containers").Index(i))...)
	}
	for i, c := range pod.Spec.InitContainers {
		errs = append(errs, trimmedImage(c.Image, specPath.Child("initContainers").Index(i))...)
	}
	return errs
}
