package pods

import (
	corev1 "k8s.io/api/core/v1"
)

// QOSClass returns the quality of service of a pod, which follows from the resources of the pod
// or, if it has none, of its containers: guaranteed if all have limits for CPU and memory that
// are equal to the requests, best effort if none has any.
func QOSClass(spec *corev1.PodSpec) corev1.PodQOSClass {
	var all []corev1.ResourceRequirements
	if spec.Resources != nil {
		all = append(all, *spec.Resources)
	} else {
		for _, c := range append(spec.Containers[:len(spec.Containers):len(spec.Containers)], spec.InitContainers...) {
			all = append(all, c.Resources)
		}
	}

	requests, limits := corev1.ResourceList{}, corev1.ResourceList{}
	guaranteed := true
	for _, r := range all {
		addCompute(requests, r.Requests)
		// A pod without any limits of its own is not guaranteed either, but because its
		// requests have no limits.
		if addCompute(limits, r.Limits) < 2 && (spec.Resources == nil || len(r.Limits) > 0) {
			guaranteed = false
		}
	}
	if len(requests) == 0 && len(limits) == 0 {
		return corev1.PodQOSBestEffort
	}
	for name, request := range requests {
		if limit, ok := limits[name]; !ok || limit.Cmp(request) != 0 {
			guaranteed = false
		}
	}
	if guaranteed && len(requests) == len(limits) {
		return corev1.PodQOSGuaranteed
	}
	return corev1.PodQOSBurstable
}

// addCompute adds CPU and memory to a sum. It returns how many of the two there are.
func addCompute(sum, list corev1.ResourceList) (found int) {
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if value, ok := list[name]; ok && value.Sign() > 0 {
			total := value.DeepCopy()
			total.Add(sum[name])
			sum[name] = total
			found++
		}
	}
	return found
}
