package pods

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// preparePod normalizes a pod that is created or updated.
func preparePod(pod, old *corev1.Pod) {
	if old != nil {
		old.Status.DeepCopyInto(&pod.Status)
		dropDisabled(&pod.Spec, &old.Spec)
		dropDisabledStatus(&pod.Status, &old.Status)
		countGeneration(pod, old)
		return
	}
	pod.Generation = 1
	class := pod.Status.QOSClass
	if class == "" {
		class = QOSClass(&pod.Spec)
	}
	pod.Status = corev1.PodStatus{Phase: corev1.PodPending, QOSClass: class}
	dropDisabled(&pod.Spec, nil)
	if len(pod.Spec.SchedulingGates) > 0 {
		pod.Status.Conditions = []corev1.PodCondition{{
			Type:               corev1.PodScheduled,
			Status:             corev1.ConditionFalse,
			LastTransitionTime: metav1.Now(),
			Reason:             corev1.PodReasonSchedulingGated,
			Message:            "Scheduling is blocked due to non-empty scheduling gates",
		}}
	}
	mergeLabelKeys(pod)
}

func countGeneration(pod, old *corev1.Pod) {
	if !apiequality.Semantic.DeepEqual(pod.Spec, old.Spec) {
		pod.Generation++
	}
}

// PrepareTemplate drops the fields of a template that are disabled. old is nil if the object is
// created, or had no template.
func PrepareTemplate(template, old *corev1.PodTemplateSpec) {
	if old != nil {
		dropDisabled(&template.Spec, &old.Spec)
	} else {
		dropDisabled(&template.Spec, nil)
	}
}

// dropDisabled drops the fields of features that are alpha, or beta and off by default, unless
// the old object has them.
func dropDisabled(spec, old *corev1.PodSpec) {
	if old == nil || !alphaFields(old, false) {
		alphaFields(spec, true)
	}
	projected := func(spec *corev1.PodSpec, is func(*corev1.VolumeProjection) bool) (found []*corev1.VolumeProjection) {
		if spec == nil {
			return nil
		}
		for i := range spec.Volumes {
			if spec.Volumes[i].Projected == nil {
				continue
			}
			sources := spec.Volumes[i].Projected.Sources
			for j := range sources {
				if is(&sources[j]) {
					found = append(found, &sources[j])
				}
			}
		}
		return found
	}
	bundles := func(p *corev1.VolumeProjection) bool { return p.ClusterTrustBundle != nil }
	if len(projected(old, bundles)) == 0 {
		for _, source := range projected(spec, bundles) {
			source.ClusterTrustBundle = nil
		}
	}
	certificates := func(p *corev1.VolumeProjection) bool { return p.PodCertificate != nil }
	if len(projected(old, certificates)) == 0 {
		for _, source := range projected(spec, certificates) {
			source.PodCertificate = nil
		}
	}
	if old == nil || old.SchedulingGroup == nil {
		spec.SchedulingGroup = nil
	}
	signals := func(c *corev1.Container) bool { return c.Lifecycle != nil && c.Lifecycle.StopSignal != nil }
	if !anyContainer(old, signals) {
		for _, c := range containers(spec, nil) {
			if signals(c) {
				c.Lifecycle.StopSignal = nil
				if *c.Lifecycle == (corev1.Lifecycle{}) {
					c.Lifecycle = nil
				}
			}
		}
	}
}

// dropDisabledStatus is dropDisabled for the status.
func dropDisabledStatus(status, old *corev1.PodStatus) {
	if len(old.NodeAllocatableResourceClaimStatuses) == 0 {
		status.NodeAllocatableResourceClaimStatuses = nil
	}
	if len(old.VolumeHealth) == 0 {
		status.VolumeHealth = nil
	}
	hasVolumeStatus := slices.ContainsFunc(containerStatuses(old), func(s *corev1.ContainerStatus) bool {
		return slices.ContainsFunc(s.VolumeMounts, func(m corev1.VolumeMountStatus) bool { return m.VolumeStatus != nil })
	})
	if hasVolumeStatus {
		return
	}
	for _, s := range containerStatuses(status) {
		for i := range s.VolumeMounts {
			s.VolumeMounts[i].VolumeStatus = nil
		}
	}
}

func containerStatuses(status *corev1.PodStatus) (all []*corev1.ContainerStatus) {
	for _, list := range [][]corev1.ContainerStatus{status.InitContainerStatuses,
		status.ContainerStatuses, status.EphemeralContainerStatuses} {
		for i := range list {
			all = append(all, &list[i])
		}
	}
	return all
}

// mergeLabelKeys adds the values that the labels of the pod have for the keys of affinity terms
// and topology spread constraints to their selectors.
func mergeLabelKeys(pod *corev1.Pod) {
	merge := func(selector *metav1.LabelSelector, keys []string, operator metav1.LabelSelectorOperator) {
		if selector == nil {
			return
		}
		for _, key := range keys {
			if value, ok := pod.Labels[key]; ok {
				selector.MatchExpressions = append(selector.MatchExpressions,
					metav1.LabelSelectorRequirement{Key: key, Operator: operator, Values: []string{value}})
			}
		}
	}
	for _, term := range affinityTerms(&pod.Spec) {
		merge(term.LabelSelector, term.MatchLabelKeys, metav1.LabelSelectorOpIn)
		merge(term.LabelSelector, term.MismatchLabelKeys, metav1.LabelSelectorOpNotIn)
	}
	for _, c := range pod.Spec.TopologySpreadConstraints {
		merge(c.LabelSelector, c.MatchLabelKeys, metav1.LabelSelectorOpIn)
	}
}

// moveAppArmorAnnotations sets the fields of a new pod that replace the deprecated annotations.
// It runs when the pod is valid, so that warnings can tell these fields from those of the client.
func moveAppArmorAnnotations(pod *corev1.Pod) {
	if pod.ResourceVersion != "" || isWindows(&pod.Spec) {
		return
	}
	var ofPod *corev1.AppArmorProfile
	if pod.Spec.SecurityContext != nil {
		ofPod = pod.Spec.SecurityContext.AppArmorProfile
	}
	for _, c := range containers(&pod.Spec, nil) {
		annotation, ok := pod.Annotations[corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix+c.Name]
		if !ok || c.SecurityContext != nil && c.SecurityContext.AppArmorProfile != nil {
			continue
		}
		profile := movedProfile(annotation)
		if profile == nil || apiequality.Semantic.DeepEqual(profile, ofPod) {
			continue
		}
		if c.SecurityContext == nil {
			c.SecurityContext = &corev1.SecurityContext{}
		}
		c.SecurityContext.AppArmorProfile = profile
	}
}

// prepareStatus keeps all but the status and some metadata.
func prepareStatus(pod, old *corev1.Pod) {
	old.Spec.DeepCopyInto(&pod.Spec)
	pod.DeletionTimestamp = nil
	pod.OwnerReferences = old.OwnerReferences
	if pod.Status.QOSClass == "" {
		pod.Status.QOSClass = old.Status.QOSClass
	}
	keepObservedGenerations(&pod.Status, &old.Status)
	dropDisabledStatus(&pod.Status, &old.Status)
}

// keepObservedGenerations keeps the observed generations of clients that do not know the field.
// Conditions of a type that occurs several times are compared in their order.
func keepObservedGenerations(status, old *corev1.PodStatus) {
	if status.ObservedGeneration == 0 {
		status.ObservedGeneration = old.ObservedGeneration
	}
	observed := map[corev1.PodConditionType][]int64{}
	for _, c := range old.Conditions {
		observed[c.Type] = append(observed[c.Type], c.ObservedGeneration)
	}
	for i := range status.Conditions {
		c := &status.Conditions[i]
		before := observed[c.Type]
		if len(before) == 0 {
			continue
		}
		observed[c.Type] = before[1:]
		if c.ObservedGeneration == 0 {
			c.ObservedGeneration = before[0]
		}
	}
}

// prepareEphemeralContainers keeps all but the ephemeral containers.
func prepareEphemeralContainers(pod, old *corev1.Pod) {
	added := pod.Spec.EphemeralContainers
	keepAll(pod, old)
	pod.Spec.EphemeralContainers = added
	dropDisabled(&pod.Spec, &old.Spec)
	countGeneration(pod, old)
}

// keepAll makes pod equal to old but for managed fields.
func keepAll(pod, old *corev1.Pod) {
	old.Spec.DeepCopyInto(&pod.Spec)
	old.Status.DeepCopyInto(&pod.Status)
	metav1.ResetObjectMetaForStatus(&pod.ObjectMeta, &old.ObjectMeta)
}

// prepareResize keeps all but the resources and resize policies of containers, and the resources
// of the pod.
func prepareResize(pod, old *corev1.Pod) {
	if len(pod.Spec.Containers) == len(old.Spec.Containers) && len(pod.Spec.InitContainers) == len(old.Spec.InitContainers) {
		resources := pod.Spec.Resources
		containers := resized(pod.Spec.Containers, old.Spec.Containers)
		initContainers := resized(pod.Spec.InitContainers, old.Spec.InitContainers)
		keepAll(pod, old)
		pod.Spec.Resources = resources
		pod.Spec.Containers = containers
		pod.Spec.InitContainers = initContainers
	}
	dropDisabled(&pod.Spec, &old.Spec)
	dropDisabledStatus(&pod.Status, &old.Status)
	countGeneration(pod, old)
}

// resized returns the old containers with new resources. Containers with other names are
// returned as they are: validation rejects them.
func resized(list, old []corev1.Container) []corev1.Container {
	if len(list) == 0 {
		return list
	}
	merged := make([]corev1.Container, len(old))
	for i := range old {
		if old[i].Name != list[i].Name {
			return list
		}
		old[i].DeepCopyInto(&merged[i])
		merged[i].Resources = list[i].Resources
		merged[i].ResizePolicy = list[i].ResizePolicy
	}
	return merged
}

// gracePeriod returns the grace period of a deletion. Pods without a node, and those that have
// ended, are deleted immediately.
func gracePeriod(pod *corev1.Pod, requested *int64) int64 {
	period := ptr.Deref(requested, ptr.Deref(pod.Spec.TerminationGracePeriodSeconds, 0))
	switch {
	case pod.Spec.NodeName == "", pod.Status.Phase == corev1.PodFailed, pod.Status.Phase == corev1.PodSucceeded:
		return 0
	case period < 0:
		return 1
	}
	return period
}
