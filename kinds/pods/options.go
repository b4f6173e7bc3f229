package pods

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"

	"espalier.dev/kinds/rules"
)

// Options are the rules that an update need not follow, because the old object does not follow
// them either: it was written before they existed. The zero value has no exceptions.
type Options struct {
	// InvalidSelectorValues accepts selectors with values that labels cannot have.
	InvalidSelectorValues bool

	// pod is set for pods, whose rules are stricter than those of templates.
	pod bool

	deletionCost        bool // that is not a number
	hugePages           bool // that are no multiple of their size
	nodeAffinityValues  bool // that labels cannot have
	spreadSelectors     bool // of topology spread constraints that are not valid
	spreadKeys          bool // of topology spread constraints that are in the selector too
	tokenPaths          bool // that leave the volume
	hostSysctls         bool // in namespaces that the pod shares with the host
	seLinuxPolicies     bool // other than Recursive
	comparedTolerations bool // with the operators Lt and Gt
	userNamespaceOnHost bool // with the network of the host
	userNamespaceBlocks bool // with block devices
	initRestarts        bool // of init containers for a change of resources
}

// options returns the options for an object with the old metadata and spec. Both are nil if the
// object is created.
func options(meta *metav1.ObjectMeta, old *corev1.PodSpec) Options {
	if old == nil {
		return Options{}
	}
	_, err := deletionCost(meta.Annotations)
	return Options{
		InvalidSelectorValues: slices.ContainsFunc(affinityTerms(old), func(term corev1.PodAffinityTerm) bool {
			return len(termSelectors(&term, false, nil)) > 0
		}),
		deletionCost:       err != nil,
		hugePages:          hasUnevenHugePages(old),
		nodeAffinityValues: hasInvalidNodeAffinity(old),
		spreadSelectors: slices.ContainsFunc(old.TopologySpreadConstraints, func(c corev1.TopologySpreadConstraint) bool {
			return len(metav1validation.ValidateLabelSelector(c.LabelSelector, metav1validation.LabelSelectorValidationOptions{}, nil)) > 0
		}),
		spreadKeys: slices.ContainsFunc(old.TopologySpreadConstraints, func(c corev1.TopologySpreadConstraint) bool {
			return len(labelKeys(c.MatchLabelKeys, nil, c.LabelSelector, nil)) > 0
		}),
		tokenPaths:      hasForeignTokenPath(old),
		hostSysctls:     hasHostSysctl(old),
		seLinuxPolicies: old.SecurityContext != nil && old.SecurityContext.SELinuxChangePolicy != nil,
		comparedTolerations: slices.ContainsFunc(old.Tolerations, func(t corev1.Toleration) bool {
			return t.Operator == corev1.TolerationOpLt || t.Operator == corev1.TolerationOpGt
		}),
		userNamespaceOnHost: hasUserNamespace(old) && old.HostNetwork,
		userNamespaceBlocks: hasUserNamespace(old) && anyContainer(old, func(c *corev1.Container) bool { return len(c.VolumeDevices) > 0 }),
		initRestarts: slices.ContainsFunc(old.InitContainers, func(c corev1.Container) bool {
			return !isSidecar(&c) && slices.ContainsFunc(c.ResizePolicy,
				func(p corev1.ContainerResizePolicy) bool { return p.RestartPolicy == corev1.RestartContainer })
		}),
	}
}

// TemplateOptions returns the options for an object with the old template, or nil.
func TemplateOptions(old *corev1.PodTemplateSpec) Options {
	if old == nil {
		return Options{}
	}
	return options(&old.ObjectMeta, &old.Spec)
}

// podOptions returns the options for a pod.
func podOptions(old *corev1.Pod) (opts Options) {
	if old != nil {
		opts = options(&old.ObjectMeta, &old.Spec)
	}
	opts.pod = true
	return opts
}

// deletionCost parses an annotation that helps to choose the pods that are deleted first.
func deletionCost(annotations map[string]string) (int32, error) {
	value, ok := annotations[corev1.PodDeletionCost]
	if !ok {
		return 0, nil
	}
	if len(value) > 0 && (value[0] == '+' || value[0] == '0' && len(value) > 1) {
		return 0, strconv.ErrSyntax
	}
	cost, err := strconv.ParseInt(value, 10, 32)
	return int32(cost), err
}

func hasUserNamespace(spec *corev1.PodSpec) bool {
	return spec.HostUsers != nil && !*spec.HostUsers
}

func hasUnevenHugePages(spec *corev1.PodSpec) bool {
	uneven := func(list corev1.ResourceList) bool {
		for name, value := range list {
			if rules.IsHugePages(name) && !rules.IsDivisibleHugePages(name, value) {
				return true
			}
		}
		return false
	}
	return uneven(spec.Overhead) || anyContainer(spec, func(c *corev1.Container) bool {
		return uneven(c.Resources.Limits) || uneven(c.Resources.Requests)
	})
}

func hasInvalidNodeAffinity(spec *corev1.PodSpec) bool {
	if spec.Affinity == nil || spec.Affinity.NodeAffinity == nil {
		return false
	}
	required := spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	return required != nil && rules.HasInvalidNodeSelectorValues(required.NodeSelectorTerms)
}

func hasForeignTokenPath(spec *corev1.PodSpec) bool {
	for _, source := range tokenSources(spec.Volumes, nil) {
		if len(rules.RelativeFile(source.Path, nil)) > 0 {
			return true
		}
	}
	return false
}

func hasHostSysctl(spec *corev1.PodSpec) bool {
	return spec.SecurityContext != nil && slices.ContainsFunc(spec.SecurityContext.Sysctls, func(s corev1.Sysctl) bool {
		return len(hostSysctl(s.Name, spec, nil)) > 0
	})
}
