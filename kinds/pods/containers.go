package pods

import (
	"iter"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// containers returns all containers of a pod with their paths: init containers, containers and
// ephemeral containers.
func containers(spec *corev1.PodSpec, path *field.Path) iter.Seq2[*field.Path, *corev1.Container] {
	return func(yield func(*field.Path, *corev1.Container) bool) {
		for i := range spec.InitContainers {
			if !yield(path.Child("initContainers").Index(i), &spec.InitContainers[i]) {
				return
			}
		}
		for i := range spec.Containers {
			if !yield(path.Child("containers").Index(i), &spec.Containers[i]) {
				return
			}
		}
		for i := range spec.EphemeralContainers {
			if !yield(path.Child("ephemeralContainers").Index(i), common(&spec.EphemeralContainers[i])) {
				return
			}
		}
	}
}

// common returns what an ephemeral container has in common with others.
func common(c *corev1.EphemeralContainer) *corev1.Container {
	return (*corev1.Container)(&c.EphemeralContainerCommon)
}

// anyContainer reports whether a condition is true for a container of a pod. There is none if
// spec is nil.
func anyContainer(spec *corev1.PodSpec, is func(*corev1.Container) bool) bool {
	if spec == nil {
		return false
	}
	for _, c := range containers(spec, nil) {
		if is(c) {
			return true
		}
	}
	return false
}

// isSidecar reports whether an init container keeps running beside the containers.
func isSidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// tokenSources returns the service account tokens in the volumes of a pod, with their paths.
func tokenSources(volumes []corev1.Volume, path *field.Path) iter.Seq2[*field.Path, *corev1.ServiceAccountTokenProjection] {
	return func(yield func(*field.Path, *corev1.ServiceAccountTokenProjection) bool) {
		for i := range volumes {
			if volumes[i].Projected == nil {
				continue
			}
			for j, source := range volumes[i].Projected.Sources {
				at := path.Index(i).Child("projected", "sources").Index(j).Child("serviceAccountToken")
				if source.ServiceAccountToken != nil && !yield(at, source.ServiceAccountToken) {
					return
				}
			}
		}
	}
}
