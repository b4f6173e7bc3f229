package pods

import (
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/kinds/rules"
)

// validateResize validates a change of the CPU and the memory of a pod.
func validateResize(pod, old *corev1.Pod) field.ErrorList {
	if IsMirror(&old.ObjectMeta) {
		return field.ErrorList{field.Forbidden(field.NewPath(""), "static pods cannot be resized")}
	}
	if isWindows(&old.Spec) {
		return field.ErrorList{field.Forbidden(field.NewPath(""), "windows pods cannot be resized")}
	}
	errs := rules.ObjectMetaUpdate(&pod.ObjectMeta, &old.ObjectMeta, metadata)
	errs = append(errs, validateWhole(pod, podOptions(old))...)
	class := old.Status.QOSClass
	if class == "" {
		class = QOSClass(&old.Spec)
	}
	if class != QOSClass(&pod.Spec) {
		errs = append(errs, field.Invalid(specPath, pod.Status.QOSClass, "Pod QOS Class may not change as a result of resizing"))
	}
	if !supportsResize(old) {
		errs = append(errs, field.Forbidden(specPath, "Pod running on node without support for resize"))
	}
	spec := pod.Spec.DeepCopy()
	if hasResources(&pod.Spec) || hasResources(&old.Spec) {
		errs = append(errs, validatePodResize(spec, &old.Spec)...)
	}
	if len(old.Status.NodeAllocatableResourceClaimStatuses) > 0 {
		errs = append(errs, field.Forbidden(specPath, "pods with node allocatable resource claims cannot be resized"))
	}
	order := validateOrder(pod.Spec.Containers, old.Spec.Containers, "containers")
	order = append(order, validateOrder(pod.Spec.InitContainers, old.Spec.InitContainers, "initContainers")...)
	if len(order) > 0 {
		return append(errs, order...)
	}
	errs = append(errs, validateRemovals(pod.Spec.InitContainers, old.Spec.InitContainers, specPath.Child("initContainers"))...)
	errs = append(errs, validateRemovals(pod.Spec.Containers, old.Spec.Containers, specPath.Child("containers"))...)

	// CPU and memory are made equal: the rest must be equal then.
	for i := range spec.Containers {
		c, before := &spec.Containers[i], &old.Spec.Containers[i]
		keepCompute(c, before)
		if !apiequality.Semantic.DeepEqual(c, before) {
			errs = append(errs, field.Forbidden(specPath, "only cpu and memory resources are mutable"))
		}
	}
	for i := range spec.InitContainers {
		c, before := &spec.InitContainers[i], &old.Spec.InitContainers[i]
		changed := !apiequality.Semantic.DeepEqual(c, before)
		keepCompute(c, before)
		path := specPath.Child("initContainers").Index(i)
		if !apiequality.Semantic.DeepEqual(c, before) {
			errs = append(errs, field.Forbidden(path, "only cpu and memory resources for init or sidecar containers are mutable"))
		}
		if !changed || isSidecar(c) {
			continue
		}
		for _, policy := range c.ResizePolicy {
			if policy.RestartPolicy == corev1.RestartContainer {
				errs = append(errs, field.Forbidden(path, "non-sidecar init containers with a resize policy of RestartContainer cannot be resized"))
			}
		}
	}
	if len(errs) == 0 && !apiequality.Semantic.DeepEqual(*spec, old.Spec) {
		errs = append(errs, field.Forbidden(specPath, "only cpu and memory resources are mutable"))
	}
	return errs
}

func hasResources(spec *corev1.PodSpec) bool {
	return spec.Resources != nil && len(spec.Resources.Requests)+len(spec.Resources.Limits) > 0
}

// supportsResize reports whether the node of a running pod reports the resources of containers.
func supportsResize(pod *corev1.Pod) bool {
	for _, status := range pod.Status.ContainerStatuses {
		if status.State.Running != nil {
			return status.Resources != nil
		}
	}
	return true
}

// validatePodResize validates the change of the resources of the pod as a whole, and undoes it
// in spec.
func validatePodResize(spec, old *corev1.PodSpec) (errs field.ErrorList) {
	path := specPath.Child("resources")
	if old.Resources != nil && spec.Resources == nil {
		return field.ErrorList{field.Forbidden(path, "pod-level resources cannot be removed")}
	}
	var before corev1.ResourceRequirements
	if old.Resources != nil {
		before = *old.Resources
		if isRemoved(spec.Resources.Requests, before.Requests) {
			errs = append(errs, field.Forbidden(path.Child("requests"), "pod-level resource requests cannot be removed"))
		}
		if isRemoved(spec.Resources.Limits, before.Limits) {
			errs = append(errs, field.Forbidden(path.Child("limits"), "pod-level resource limits cannot be removed"))
		}
	}
	r := spec.Resources
	r.Requests = withCompute(r.Requests, before.Requests)
	r.Limits = withCompute(r.Limits, before.Limits)
	if old.Resources == nil && len(r.Requests) == 0 && len(r.Limits) == 0 && len(r.Claims) == 0 {
		spec.Resources = nil
	}
	if !apiequality.Semantic.DeepEqual(spec.Resources, old.Resources) {
		errs = append(errs, field.Forbidden(specPath, "only cpu and memory resources are mutable at pod-level"))
	}
	return errs
}

func validateOrder(list, old []corev1.Container, name string) (errs field.ErrorList) {
	path := specPath.Child(name)
	if len(list) != len(old) {
		return field.ErrorList{field.Forbidden(path, name+" may not be added or removed on resize")}
	}
	for i := range old {
		if list[i].Name != old[i].Name {
			errs = append(errs, field.Forbidden(path.Index(i).Child("name"), name+" may not be renamed or reordered on resize"))
		}
	}
	return errs
}

func validateRemovals(list, old []corev1.Container, path *field.Path) (errs field.ErrorList) {
	for i := range old {
		at := path.Index(i).Child("resources")
		if isRemoved(list[i].Resources.Requests, old[i].Resources.Requests) {
			errs = append(errs, field.Forbidden(at.Child("requests"), "resource requests cannot be removed"))
		}
		if isRemoved(list[i].Resources.Limits, old[i].Resources.Limits) {
			errs = append(errs, field.Forbidden(at.Child("limits"), "resource limits cannot be removed"))
		}
	}
	return errs
}

// isRemoved reports whether a resource of the old list is missing.
func isRemoved(list, old corev1.ResourceList) bool {
	for name := range old {
		if _, ok := list[name]; !ok {
			return true
		}
	}
	return false
}

// keepCompute gives a container the old CPU and memory.
func keepCompute(c, old *corev1.Container) {
	c.Resources = corev1.ResourceRequirements{
		Limits:   withCompute(c.Resources.Limits, old.Resources.Limits),
		Requests: withCompute(c.Resources.Requests, old.Resources.Requests),
	}
}

// withCompute returns a list with the CPU and the memory of the old one.
func withCompute(list, old corev1.ResourceList) corev1.ResourceList {
	if list == nil && old == nil {
		return nil
	}
	merged := corev1.ResourceList{}
	for name, value := range list {
		merged[name] = value
	}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		delete(merged, name)
		if value, ok := old[name]; ok {
			merged[name] = value
		}
	}
	return merged
}
