package quota

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	quota "k8s.io/apiserver/pkg/quota/v1"
	helpers "k8s.io/component-helpers/resource"

	podrules "espalier.dev/kinds/pods"
	"espalier.dev/kinds/rules"
)

// countPods limits all stored pods. corev1.ResourcePods limits those that have not ended.
const countPods corev1.ResourceName = "count/pods"

// pods returns the evaluator of pods.
func pods() *evaluator {
	return &evaluator{
		resource: schema.GroupResource{Resource: "pods"}, handles: handlesPod, matches: ofPods,
		scope: podInScope, constraints: requireResources,
		usage: func(obj runtime.Object) (corev1.ResourceList, error) {
			pod, err := as[*corev1.Pod](obj)
			if err != nil {
				return nil, err
			}
			return podUsage(pod, time.Now()), nil
		},
	}
}

func handlesPod(a admission.Attributes) bool {
	switch update := a.GetOperation() == admission.Update; a.GetSubresource() {
	case "resize":
		return update
	case "":
		if !update {
			return a.GetOperation() == admission.Create
		}
		pod, ok := a.GetObject().(*corev1.Pod)
		old, before := a.GetOldObject().(*corev1.Pod)
		return ok && before && terminating(pod) != terminating(old)
	}
	return false
}

// ofPods reports whether a name in a quota limits pods or what they need.
func ofPods(name corev1.ResourceName) bool {
	switch name {
	case countPods, corev1.ResourcePods, corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage,
		corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory, corev1.ResourceRequestsEphemeralStorage,
		corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory, corev1.ResourceLimitsEphemeralStorage:
		return true
	}
	for _, prefix := range []string{corev1.ResourceHugePagesPrefix, corev1.ResourceRequestsHugePagesPrefix} {
		if strings.HasPrefix(string(name), prefix) {
			return true
		}
	}
	return extendedRequest(name)
}

// extendedRequest reports whether a name in a quota limits the requests of an extended resource.
func extendedRequest(name corev1.ResourceName) bool {
	device := strings.HasPrefix(string(name), corev1.DefaultResourceRequestsPrefix+resourcev1.ResourceDeviceClassPrefix)
	return strings.HasPrefix(string(name), corev1.DefaultResourceRequestsPrefix) && (device || !rules.IsNativeResource(name))
}

// requireResources returns an error if a container does not have a CPU or memory request or limit
// that the quota limits.
func requireResources(required []corev1.ResourceName, obj runtime.Object) error {
	pod, err := as[*corev1.Pod](obj)
	if err != nil {
		return err
	}
	if helpers.IsPodLevelResourcesSet(pod) {
		return nil
	}
	missing := map[corev1.ResourceName][]string{}
	for _, c := range slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers) {
		given := computeUsage(c.Resources.Requests, c.Resources.Limits)
		for _, name := range required {
			switch name {
			case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceRequestsCPU,
				corev1.ResourceRequestsMemory, corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory:
				if _, ok := given[name]; !ok {
					missing[name] = append(missing[name], c.Name)
				}
			}
		}
	}
	if len(missing) == 0 {
		return nil
	}
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(missing)) {
		containers := missing[name]
		slices.Sort(containers)
		texts = append(texts, string(name)+" for: "+strings.Join(slices.Compact(containers), ","))
	}
	return errors.New("must specify " + strings.Join(texts, "; "))
}

// computeUsage returns what requests and limits use of a quota.
func computeUsage(requests, limits corev1.ResourceList) corev1.ResourceList {
	used := corev1.ResourceList{corev1.ResourcePods: whole(1)}
	for name, q := range requests {
		request := corev1.DefaultResourceRequestsPrefix + name
		switch {
		case name == corev1.ResourceCPU, name == corev1.ResourceMemory, name == corev1.ResourceEphemeralStorage, rules.IsHugePages(name):
			used[name], used[request] = q, q
		case rules.IsExtendedResource(name), strings.HasPrefix(string(name), resourcev1.ResourceDeviceClassPrefix):
			used[request] = q
		}
	}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
		if q, ok := limits[name]; ok {
			used["limits."+name] = q
		}
	}
	return used
}

// podUsage returns what a pod uses of a quota. One that has ended uses nothing but its place.
func podUsage(pod *corev1.Pod, now time.Time) corev1.ResourceList {
	used := corev1.ResourceList{countPods: whole(1)}
	if pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		return used
	}
	if pod.DeletionTimestamp != nil && pod.DeletionGracePeriodSeconds != nil &&
		now.After(pod.DeletionTimestamp.Add(time.Duration(*pod.DeletionGracePeriodSeconds)*time.Second)) {
		return used // its node does not answer
	}
	o := helpers.PodResourcesOptions{UseStatusResources: true}
	return quota.Add(used, computeUsage(helpers.PodRequests(pod, o), helpers.PodLimits(pod, o)))
}

// terminating reports whether a pod ends after some time.
func terminating(pod *corev1.Pod) bool {
	return pod.Spec.ActiveDeadlineSeconds != nil && *pod.Spec.ActiveDeadlineSeconds >= 0
}

func bestEffort(pod *corev1.Pod) bool {
	class := pod.Status.QOSClass
	if class == "" {
		class = podrules.QOSClass(&pod.Spec)
	}
	return class == corev1.PodQOSBestEffort
}

func podInScope(s corev1.ScopedResourceSelectorRequirement, obj runtime.Object) (bool, error) {
	pod, err := as[*corev1.Pod](obj)
	if err != nil {
		return false, err
	}
	switch s.ScopeName {
	case corev1.ResourceQuotaScopeTerminating:
		return terminating(pod), nil
	case corev1.ResourceQuotaScopeNotTerminating:
		return !terminating(pod), nil
	case corev1.ResourceQuotaScopeBestEffort:
		return bestEffort(pod), nil
	case corev1.ResourceQuotaScopeNotBestEffort:
		return !bestEffort(pod), nil
	case corev1.ResourceQuotaScopeCrossNamespacePodAffinity:
		return affineToOthers(pod.Spec.Affinity), nil
	case corev1.ResourceQuotaScopePriorityClass:
		if pod.Spec.PriorityClassName == "" {
			return selects(s)
		}
		return selects(s, pod.Spec.PriorityClassName)
	}
	return false, nil
}

// affineToOthers reports whether an affinity refers to pods in other namespaces.
func affineToOthers(a *corev1.Affinity) bool {
	if a == nil {
		return false
	}
	var terms []corev1.PodAffinityTerm
	var weighted []corev1.WeightedPodAffinityTerm
	if p := a.PodAffinity; p != nil {
		terms, weighted = append(terms, p.RequiredDuringSchedulingIgnoredDuringExecution...),
			append(weighted, p.PreferredDuringSchedulingIgnoredDuringExecution...)
	}
	if p := a.PodAntiAffinity; p != nil {
		terms, weighted = append(terms, p.RequiredDuringSchedulingIgnoredDuringExecution...),
			append(weighted, p.PreferredDuringSchedulingIgnoredDuringExecution...)
	}
	for _, w := range weighted {
		terms = append(terms, w.PodAffinityTerm)
	}
	return slices.ContainsFunc(terms, func(t corev1.PodAffinityTerm) bool { return len(t.Namespaces) > 0 || t.NamespaceSelector != nil })
}
