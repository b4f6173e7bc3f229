package pods

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/utils/ptr"

	"espalier.dev/kinds/rules"
)

// defaultPod fills in the defaults of a pod.
func defaultPod(pod *corev1.Pod) {
	spec := &pod.Spec
	for i := range spec.Containers {
		requestLimits(&spec.Containers[i].Resources)
	}
	for i := range spec.InitContainers {
		requestLimits(&spec.InitContainers[i].Resources)
	}
	if spec.Resources != nil {
		defaultPodLimits(pod)
		defaultPodRequests(pod)
	}
	rules.SetDefaultPointer(&spec.EnableServiceLinks, corev1.DefaultEnableServiceLinks)
	if spec.HostNetwork {
		defaultHostPorts(spec.Containers)
		defaultHostPorts(spec.InitContainers)
	}
	if p := spec.TerminationGracePeriodSeconds; p != nil && *p < 0 {
		spec.TerminationGracePeriodSeconds = ptr.To[int64](1)
	}
	defaultSpec(spec)
	dropInitAnnotations(pod.Annotations)
	defaultStatus(&pod.Status)
}

// DefaultTemplate fills in the defaults of a template of pods. They are fewer than those of
// pods: the others are filled in when pods are created from it.
func DefaultTemplate(template *corev1.PodTemplateSpec) {
	defaultSpec(&template.Spec)
	dropInitAnnotations(template.Annotations)
}

// requestLimits requests what is limited, unless there is a request.
func requestLimits(r *corev1.ResourceRequirements) {
	if r.Limits == nil {
		return
	}
	if r.Requests == nil {
		r.Requests = corev1.ResourceList{}
	}
	for name, limit := range r.Limits {
		setDefaultResource(r.Requests, name, limit)
	}
}

func setDefaultResource(list corev1.ResourceList, name corev1.ResourceName, value resource.Quantity) {
	if _, ok := list[name]; !ok {
		list[name] = value.DeepCopy()
	}
}

// defaultPodLimits limits the huge pages of the pod to those of its containers, if the pod
// itself has resources but none for these huge pages.
func defaultPodLimits(pod *corev1.Pod) {
	r := pod.Spec.Resources
	if len(r.Limits) == 0 && len(r.Requests) == 0 {
		return
	}
	for name, limit := range resourcehelper.AggregateContainerLimits(pod, resourcehelper.PodResourcesOptions{}) {
		if _, requested := r.Requests[name]; requested || !rules.IsHugePages(name) || !resourcehelper.IsSupportedPodLevelResource(name) {
			continue
		}
		if r.Limits == nil {
			r.Limits = corev1.ResourceList{}
		}
		setDefaultResource(r.Limits, name, limit)
	}
}

// defaultPodRequests requests for the pod what its containers request, and otherwise what the
// pod is limited to.
func defaultPodRequests(pod *corev1.Pod) {
	r := pod.Spec.Resources
	if len(r.Limits) == 0 {
		return
	}
	requests := r.Requests
	if requests == nil {
		requests = corev1.ResourceList{}
	}
	for name, request := range resourcehelper.AggregateContainerRequests(pod, resourcehelper.PodResourcesOptions{}) {
		if resourcehelper.IsSupportedPodLevelResource(name) && rules.IsOvercommitAllowed(name) {
			setDefaultResource(requests, name, request)
		}
	}
	for name, limit := range r.Limits {
		if resourcehelper.IsSupportedPodLevelResource(name) {
			setDefaultResource(requests, name, limit)
		}
	}
	if len(requests) > 0 {
		r.Requests = requests
	}
}

func defaultHostPorts(containers []corev1.Container) {
	for i := range containers {
		for j := range containers[i].Ports {
			port := &containers[i].Ports[j]
			rules.SetDefault(&port.HostPort, port.ContainerPort)
		}
	}
}

// defaultSpec fills in the defaults that pods and templates have in common.
func defaultSpec(spec *corev1.PodSpec) {
	rules.SetDefault(&spec.DNSPolicy, corev1.DNSClusterFirst)
	rules.SetDefault(&spec.RestartPolicy, corev1.RestartPolicyAlways)
	rules.SetDefaultPointer(&spec.SecurityContext, corev1.PodSecurityContext{})
	rules.SetDefaultPointer(&spec.TerminationGracePeriodSeconds, int64(corev1.DefaultTerminationGracePeriodSeconds))
	rules.SetDefault(&spec.SchedulerName, corev1.DefaultSchedulerName)
	// The deprecated name of the service account always has the value of the new one.
	rules.SetDefault(&spec.ServiceAccountName, spec.DeprecatedServiceAccount)
	spec.DeprecatedServiceAccount = spec.ServiceAccountName

	for i := range spec.Volumes {
		defaultVolume(&spec.Volumes[i].VolumeSource)
	}
	for _, c := range containers(spec, nil) {
		defaultContainer(c)
	}
	rules.RoundUp(spec.Overhead)
	roundUp(spec.Resources)
}

func roundUp(r *corev1.ResourceRequirements) {
	if r != nil {
		rules.RoundUp(r.Limits)
		rules.RoundUp(r.Requests)
	}
}

func defaultContainer(c *corev1.Container) {
	rules.SetDefault(&c.ImagePullPolicy, pullPolicy(c.Image))
	rules.SetDefault(&c.TerminationMessagePath, corev1.TerminationMessagePathDefault)
	rules.SetDefault(&c.TerminationMessagePolicy, corev1.TerminationMessageReadFile)
	for i := range c.Ports {
		rules.SetDefault(&c.Ports[i].Protocol, corev1.ProtocolTCP)
	}
	for i := range c.Env {
		if from := c.Env[i].ValueFrom; from != nil {
			defaultFieldRef(from.FieldRef)
			if from.FileKeyRef != nil {
				rules.SetDefaultPointer(&from.FileKeyRef.Optional, false)
			}
		}
	}
	roundUp(&c.Resources)
	for _, probe := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		if probe != nil {
			defaultProbe(probe)
		}
	}
	if c.Lifecycle != nil {
		for _, handler := range []*corev1.LifecycleHandler{c.Lifecycle.PostStart, c.Lifecycle.PreStop} {
			if handler != nil {
				defaultHTTPGet(handler.HTTPGet)
			}
		}
	}
}

func defaultProbe(probe *corev1.Probe) {
	rules.SetDefault(&probe.TimeoutSeconds, 1)
	rules.SetDefault(&probe.PeriodSeconds, 10)
	rules.SetDefault(&probe.SuccessThreshold, 1)
	rules.SetDefault(&probe.FailureThreshold, 3)
	defaultHTTPGet(probe.HTTPGet)
	if probe.GRPC != nil {
		rules.SetDefaultPointer(&probe.GRPC.Service, "")
	}
}

func defaultHTTPGet(action *corev1.HTTPGetAction) {
	if action != nil {
		rules.SetDefault(&action.Path, "/")
		rules.SetDefault(&action.Scheme, corev1.URISchemeHTTP)
	}
}

func defaultFieldRef(ref *corev1.ObjectFieldSelector) {
	if ref != nil {
		rules.SetDefault(&ref.APIVersion, "v1")
	}
}

func defaultVolume(v *corev1.VolumeSource) {
	if ptr.AllPtrFieldsNil(v) {
		v.EmptyDir = &corev1.EmptyDirVolumeSource{}
	}
	if v.Image != nil {
		rules.SetDefault(&v.Image.PullPolicy, pullPolicy(v.Image.Reference))
	}
	if v.HostPath != nil {
		rules.SetDefaultPointer(&v.HostPath.Type, corev1.HostPathUnset)
	}
	if v.Secret != nil {
		rules.SetDefaultPointer(&v.Secret.DefaultMode, corev1.SecretVolumeSourceDefaultMode)
	}
	if v.ConfigMap != nil {
		rules.SetDefaultPointer(&v.ConfigMap.DefaultMode, corev1.ConfigMapVolumeSourceDefaultMode)
	}
	if v.DownwardAPI != nil {
		rules.SetDefaultPointer(&v.DownwardAPI.DefaultMode, corev1.DownwardAPIVolumeSourceDefaultMode)
		defaultFieldRefs(v.DownwardAPI.Items)
	}
	if v.Projected != nil {
		defaultProjected(v.Projected)
	}
	if v.Ephemeral != nil && v.Ephemeral.VolumeClaimTemplate != nil {
		rules.DefaultClaimSpec(&v.Ephemeral.VolumeClaimTemplate.Spec)
	}
	if v.ISCSI != nil {
		rules.SetDefault(&v.ISCSI.ISCSIInterface, "default")
	}
	if v.RBD != nil {
		rules.SetDefault(&v.RBD.RBDPool, "rbd")
		rules.SetDefault(&v.RBD.RadosUser, "admin")
		rules.SetDefault(&v.RBD.Keyring, "/etc/ceph/keyring")
	}
	if v.AzureDisk != nil {
		rules.SetDefaultPointer(&v.AzureDisk.CachingMode, corev1.AzureDataDiskCachingReadWrite)
		rules.SetDefaultPointer(&v.AzureDisk.FSType, "ext4")
		rules.SetDefaultPointer(&v.AzureDisk.ReadOnly, false)
		rules.SetDefaultPointer(&v.AzureDisk.Kind, corev1.AzureSharedBlobDisk)
	}
	if v.ScaleIO != nil {
		rules.SetDefault(&v.ScaleIO.StorageMode, "ThinProvisioned")
		rules.SetDefault(&v.ScaleIO.FSType, "xfs")
	}
}

func defaultProjected(v *corev1.ProjectedVolumeSource) {
	rules.SetDefaultPointer(&v.DefaultMode, corev1.ProjectedVolumeSourceDefaultMode)
	for i := range v.Sources {
		source := &v.Sources[i]
		if source.DownwardAPI != nil {
			defaultFieldRefs(source.DownwardAPI.Items)
		}
		if source.ServiceAccountToken != nil {
			rules.SetDefaultPointer(&source.ServiceAccountToken.ExpirationSeconds, 60*60)
		}
	}
}

func defaultFieldRefs(files []corev1.DownwardAPIVolumeFile) {
	for i := range files {
		defaultFieldRef(files[i].FieldRef)
	}
}

// defaultStatus makes the IP of a pod the first one of its IPs.
func defaultStatus(status *corev1.PodStatus) {
	switch {
	case status.PodIP != "" && (len(status.PodIPs) == 0 || status.PodIPs[0].IP != status.PodIP):
		status.PodIPs = []corev1.PodIP{{IP: status.PodIP}}
	case len(status.PodIPs) > 0:
		status.PodIP = status.PodIPs[0].IP
	}
	for _, list := range [][]corev1.ContainerStatus{status.InitContainerStatuses,
		status.ContainerStatuses, status.EphemeralContainerStatuses} {
		for i := range list {
			rules.RoundUp(list[i].AllocatedResources)
			roundUp(list[i].Resources)
		}
	}
	rules.RoundUp(status.AllocatedResources)
	roundUp(status.Resources)
}

// dropInitAnnotations deletes the annotations that had init containers before there was a field
// for them.
func dropInitAnnotations(annotations map[string]string) {
	for _, stage := range []string{"alpha", "beta"} {
		delete(annotations, "pod."+stage+".kubernetes.io/init-containers")
		delete(annotations, "pod."+stage+".kubernetes.io/init-container-statuses")
	}
}
