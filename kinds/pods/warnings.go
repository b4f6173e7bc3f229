package pods

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/kinds/rules"
	"espalier.dev/kinds/volumes"
)

// warner collects the warnings about a pod or a template.
type warner struct {
	spec *corev1.PodSpec
	meta *metav1.ObjectMeta
	path *field.Path
	list []string
	// compared counts the comparisons of files.
	compared int
}

// maxWarnings is the number of warnings about a pod. A response has room for fewer.
const maxWarnings = 1000

// full reports whether there are as many warnings as a pod can have.
func (w *warner) full() bool { return len(w.list) >= maxWarnings }

func (w *warner) add(path *field.Path, format string, args ...any) {
	if !w.full() {
		w.warn("%s: %s", path, fmt.Sprintf(format, args...))
	}
}

// warn adds a warning that has no path.
func (w *warner) warn(format string, args ...any) {
	if !w.full() {
		w.list = append(w.list, fmt.Sprintf(format, args...))
	}
}

// podWarnings returns the warnings about a new pod.
func podWarnings(pod, old *corev1.Pod) []string {
	if old != nil {
		return nil
	}
	w := &warner{spec: &pod.Spec, meta: &pod.ObjectMeta}
	w.warnMovedAppArmor()
	if messages := validation.IsDNS1123Label(pod.Name); len(messages) > 0 {
		w.add(metadata.Child("name"),
			"this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended: %v", messages)
	}
	return w.warnings()
}

// warnMovedAppArmor warns about annotations whose profile becomes that of a field, or is not
// valid.
func (w *warner) warnMovedAppArmor() {
	if isWindows(w.spec) {
		return
	}
	var ofPod *corev1.AppArmorProfile
	if w.spec.SecurityContext != nil {
		ofPod = w.spec.SecurityContext.AppArmorProfile
	}
	for _, c := range containers(w.spec, nil) {
		annotation, ok := w.meta.Annotations[appArmorPrefix+c.Name]
		if !ok || c.SecurityContext != nil && c.SecurityContext.AppArmorProfile != nil {
			continue
		}
		if profile := movedProfile(annotation); profile == nil || !apiequality.Semantic.DeepEqual(profile, ofPod) {
			w.add(w.annotation(appArmorPrefix+c.Name), `deprecated since v1.30; use the "appArmorProfile" field instead`)
		}
	}
}

// statusWarnings returns the warnings about the addresses of a pod.
func statusWarnings(pod, _ *corev1.Pod) (list []string) {
	for i, ip := range pod.Status.PodIPs {
		list = append(list, validation.GetWarningsForIP(statusPath.Child("podIPs").Index(i).Child("ip"), ip.IP)...)
	}
	for i, ip := range pod.Status.HostIPs {
		list = append(list, validation.GetWarningsForIP(statusPath.Child("hostIPs").Index(i).Child("ip"), ip.IP)...)
	}
	return list
}

// TemplateWarnings returns the warnings about a template.
func TemplateWarnings(template *corev1.PodTemplateSpec, path *field.Path) []string {
	if template == nil {
		return nil
	}
	return (&warner{spec: &template.Spec, meta: &template.ObjectMeta, path: path}).warnings()
}

// NameWarnings returns a warning about a name that pods cannot have as their host name.
func NameWarnings(name string) []string {
	if messages := validation.IsDNS1123Label(name); len(messages) > 0 {
		return []string{fmt.Sprintf("metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended: %v", messages)}
	}
	return nil
}

func podTemplateWarnings(t, old *corev1.PodTemplate) []string {
	if old != nil && old.Generation == t.Generation {
		return nil
	}
	return TemplateWarnings(&t.Template, field.NewPath("template"))
}

// controllerWarnings returns the warnings about a replication controller. An update is warned
// about the old template, as kube-apiserver does it.
func controllerWarnings(rc, old *corev1.ReplicationController) []string {
	path := specPath.Child("template")
	switch {
	case old == nil:
		return append(NameWarnings(rc.Name), TemplateWarnings(rc.Spec.Template, path)...)
	case old.Generation != rc.Generation:
		return TemplateWarnings(old.Spec.Template, path)
	}
	return nil
}

func (w *warner) warnings() []string {
	spec := w.path.Child("spec")
	w.warnScheduling(spec)
	for _, deprecated := range []struct{ key, message string }{
		{"scheduler.alpha.kubernetes.io/critical-pod", `non-functional in v1.16+; use the "priorityClassName" field instead`},
		{"security.alpha.kubernetes.io/sysctls", `non-functional in v1.11+; use the "sysctls" field instead`},
		{"security.alpha.kubernetes.io/unsafe-sysctls", `non-functional in v1.11+; use the "sysctls" field instead`},
	} {
		if _, ok := w.meta.Annotations[deprecated.key]; ok {
			w.add(w.annotation(deprecated.key), "%s", deprecated.message)
		}
	}
	w.warnVolumes(spec.Child("volumes"))
	w.warnOverlaps()
	w.warnDuplicates(spec)
	w.warnFractions(w.spec.Overhead, spec.Child("overhead"))
	w.warnContainers(spec)
	w.warnPorts(spec)
	if grace := w.spec.TerminationGracePeriodSeconds; grace != nil && *grace < 0 {
		w.add(spec.Child("terminationGracePeriodSeconds"), "must be >= 0; negative values are invalid and will be treated as 1")
	}
	w.warnTerms(spec.Child("affinity"))
	if w.spec.DNSConfig != nil {
		for i, server := range w.spec.DNSConfig.Nameservers {
			w.list = append(w.list, validation.GetWarningsForIP(spec.Child("dnsConfig", "nameservers").Index(i), server)...)
		}
	}
	for i, alias := range w.spec.HostAliases {
		w.list = append(w.list, validation.GetWarningsForIP(spec.Child("hostAliases").Index(i).Child("ip"), alias.IP)...)
	}
	return w.list
}

func (w *warner) annotation(key string) *field.Path {
	return w.path.Child("metadata", "annotations").Key(key)
}

const noSelector = "a null labelSelector results in matching no pod"

func (w *warner) warnScheduling(spec *field.Path) {
	for _, key := range rules.Keys(w.spec.NodeSelector) {
		if message := rules.DeprecatedNodeLabel(key); message != "" {
			w.add(spec.Child("nodeSelector").Key(key), "%s", message)
		}
	}
	if w.spec.Affinity != nil && w.spec.Affinity.NodeAffinity != nil {
		affinity, path := w.spec.Affinity.NodeAffinity, spec.Child("affinity", "nodeAffinity")
		if required := affinity.RequiredDuringSchedulingIgnoredDuringExecution; required != nil {
			for i := range required.NodeSelectorTerms {
				w.list = append(w.list, rules.NodeSelectorTermWarnings(&required.NodeSelectorTerms[i],
					path.Child(requiredTerms, "nodeSelectorTerms").Index(i))...)
			}
		}
		for i := range affinity.PreferredDuringSchedulingIgnoredDuringExecution {
			term, at := &affinity.PreferredDuringSchedulingIgnoredDuringExecution[i].Preference,
				path.Child(preferredTerms).Index(i).Child("preference")
			w.list = append(w.list, rules.NodeSelectorTermWarnings(term, at)...)
			for j, expression := range term.MatchExpressions {
				for k, value := range expression.Values {
					for _, message := range validation.IsValidLabelValue(value) {
						w.add(at.Child("matchExpressions").Index(j).Child("values").Index(k), "%s is invalid, %s", value, message)
					}
				}
			}
		}
	}
	for i, constraint := range w.spec.TopologySpreadConstraints {
		path := spec.Child("topologySpreadConstraints").Index(i)
		if message := rules.DeprecatedNodeLabel(constraint.TopologyKey); message != "" {
			w.add(path.Child("topologyKey"), "%s is %s", constraint.TopologyKey, message)
		}
		if constraint.LabelSelector == nil {
			w.add(path.Child("labelSelector"), noSelector)
		}
	}
}

func (w *warner) warnTerms(path *field.Path) {
	warn := func(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm, path *field.Path) {
		for i := range required {
			if required[i].LabelSelector == nil {
				w.add(path.Child(requiredTerms).Index(i).Child("labelSelector"), noSelector)
			}
		}
		for i := range preferred {
			if preferred[i].PodAffinityTerm.LabelSelector == nil {
				w.add(path.Child(preferredTerms).Index(i).Child("podAffinityTerm", "labelSelector"), noSelector)
			}
		}
	}
	if affinity := w.spec.Affinity; affinity != nil {
		if a := affinity.PodAffinity; a != nil {
			warn(a.RequiredDuringSchedulingIgnoredDuringExecution,
				a.PreferredDuringSchedulingIgnoredDuringExecution, path.Child("podAffinity"))
		}
		if a := affinity.PodAntiAffinity; a != nil {
			warn(a.RequiredDuringSchedulingIgnoredDuringExecution,
				a.PreferredDuringSchedulingIgnoredDuringExecution, path.Child("podAntiAffinity"))
		}
	}
}

func (w *warner) warnVolumes(path *field.Path) {
	for i, v := range w.spec.Volumes {
		for _, deprecated := range []struct {
			set           bool
			name, message string
		}{
			{v.PhotonPersistentDisk != nil, "photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"},
			{v.GitRepo != nil, "gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"},
			{v.ScaleIO != nil, "scaleIO", "deprecated in v1.16, non-functional in v1.22+"},
			{v.Flocker != nil, "flocker", "deprecated in v1.22, non-functional in v1.25+"},
			{v.StorageOS != nil, "storageOS", "deprecated in v1.22, non-functional in v1.25+"},
			{v.Quobyte != nil, "quobyte", "deprecated in v1.22, non-functional in v1.25+"},
			{v.Glusterfs != nil, "glusterfs", "deprecated in v1.25, non-functional in v1.26+"},
		} {
			if deprecated.set {
				w.add(path.Index(i).Child(deprecated.name), "%s", deprecated.message)
			}
		}
		if v.Ephemeral != nil && v.Ephemeral.VolumeClaimTemplate != nil {
			w.list = append(w.list, volumes.ClaimSpecWarnings(&v.Ephemeral.VolumeClaimTemplate.Spec,
				path.Index(i).Child("ephemeral", "volumeClaimTemplate", "spec"))...)
		}
		if v.CephFS != nil {
			w.add(path.Index(i).Child("cephfs"), "deprecated in v1.28, non-functional in v1.31+")
		}
		if v.RBD != nil {
			w.add(path.Index(i).Child("rbd"), "deprecated in v1.28, non-functional in v1.31+")
		}
	}
}

// warnDuplicates warns about entries of lists that occur twice.
func (w *warner) warnDuplicates(spec *field.Path) {
	ips, names := sets.New[string](), sets.New[string]()
	for i, alias := range w.spec.HostAliases {
		if ips.Has(alias.IP) {
			w.add(spec.Child("hostAliases").Index(i).Child("ip"), "duplicate ip %q", alias.IP)
		}
		ips.Insert(alias.IP)
	}
	for i, secret := range w.spec.ImagePullSecrets {
		if names.Has(secret.Name) {
			w.add(spec.Child("imagePullSecrets").Index(i).Child("name"), "duplicate name %q", secret.Name)
		}
		names.Insert(secret.Name)
	}
	for i, secret := range w.spec.ImagePullSecrets {
		if secret.Name == "" {
			w.add(spec.Child("imagePullSecrets").Index(i).Child("name"), "invalid empty name %q", secret.Name)
		}
	}
}

// warnFractions warns about fractions of a byte.
func (w *warner) warnFractions(list corev1.ResourceList, path *field.Path) {
	for _, name := range []corev1.ResourceName{corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
		w.warnFraction(list, name, path)
	}
}

func (w *warner) warnFraction(list corev1.ResourceList, name corev1.ResourceName, path *field.Path) {
	if value, ok := list[name]; ok && value.MilliValue()%1000 != 0 {
		w.add(path.Key(string(name)), "fractional byte value %q is invalid, must be an integer", value.String())
	}
}

func (w *warner) warnContainers(spec *field.Path) {
	const seccomp = `non-functional in v1.27+; use the "seccompProfile" field instead`
	security := w.spec.SecurityContext
	if _, ok := w.meta.Annotations[corev1.SeccompPodAnnotationKey]; ok && (security == nil || security.SeccompProfile == nil) {
		w.add(w.annotation(corev1.SeccompPodAnnotationKey), seccomp)
	}
	for path, c := range containers(w.spec, spec) {
		key := corev1.SeccompContainerAnnotationKeyPrefix + c.Name
		if _, ok := w.meta.Annotations[key]; ok && (c.SecurityContext == nil || c.SecurityContext.SeccompProfile == nil) {
			w.add(w.annotation(key), seccomp)
		}
		// Pods are warned about annotations that have become fields instead.
		if w.path != nil && (c.SecurityContext == nil || c.SecurityContext.AppArmorProfile == nil) {
			annotation, ok := w.meta.Annotations[appArmorPrefix+c.Name]
			if ok && (security == nil || security.AppArmorProfile == nil ||
				!apiequality.Semantic.DeepEqual(security.AppArmorProfile, appArmorProfile(annotation))) {
				w.add(w.annotation(appArmorPrefix+c.Name), `deprecated since v1.30; use the "appArmorProfile" field instead`)
			}
		}
		for _, name := range []corev1.ResourceName{corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
			w.warnFraction(c.Resources.Limits, name, path.Child("resources", "limits"))
			w.warnFraction(c.Resources.Requests, name, path.Child("resources", "requests"))
		}
		w.warnEnv(c.Env, path.Child("env"))
	}
}

// warnEnv warns about variables that are defined twice, unless the second definition extends the
// first one.
func (w *warner) warnEnv(env []corev1.EnvVar, path *field.Path) {
	seen := sets.New[string]()
	for i, variable := range env {
		reference := "$(" + variable.Name + ")"
		extends := variable.ValueFrom == nil && variable.Value != reference && strings.Contains(variable.Value, reference)
		if seen.Has(variable.Name) && !extends {
			w.add(path.Index(i), "hides previous definition of %q, which may be dropped when using apply", variable.Name)
		}
		seen.Insert(variable.Name)
	}
}

// internalPort is displayed in warnings.
type internalPort struct {
	Name          string
	HostPort      int32
	ContainerPort int32
	Protocol      corev1.Protocol
	HostIP        string
}

// warnPorts warns about ports that are defined twice.
func (w *warner) warnPorts(spec *field.Path) {
	type definition struct {
		path *field.Path
		port corev1.ContainerPort
	}
	byNumber, byName := map[string][]definition{}, map[string]*field.Path{}
	for path, c := range containers(w.spec, spec) {
		for i, port := range c.Ports {
			at := path.Child("ports").Index(i)
			if port.HostIP != "" && port.HostPort == 0 {
				w.add(at, "hostIP set without hostPort: %+v", internalPort(port))
			}
			key := fmt.Sprintf("%d/%s", port.ContainerPort, port.Protocol)
			for _, other := range byNumber[key] {
				if w.full() {
					return
				}
				switch sameIP, sameHost := port.HostIP == other.port.HostIP, port.HostPort == other.port.HostPort; {
				case sameIP && sameHost:
					w.add(at, "duplicate port definition with %s", other.path)
				case port.HostPort == 0 || other.port.HostPort == 0:
					w.add(at, "overlapping port definition with %s", other.path)
				case sameHost && (port.HostIP == "") != (other.port.HostIP == ""):
					w.add(at, "dangerously ambiguous port definition with %s", other.path)
				}
			}
			byNumber[key] = append(byNumber[key], definition{at, port})
		}
	}
	for path, c := range containers(w.spec, spec) {
		for i, port := range c.Ports {
			at := path.Child("ports").Index(i)
			if other := byName[port.Name]; other != nil {
				w.add(at, "duplicate port name %q with %s, services and probes that select ports by name will use %s", port.Name, other,
					other)
			} else if port.Name != "" {
				byName[port.Name] = at
			}
		}
	}
}
