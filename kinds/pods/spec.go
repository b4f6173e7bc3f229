package pods

import (
	"fmt"
	"math"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/kinds/rules"
)

// checker validates the spec of one pod or template. Its methods add to errs, in the order of
// kube-apiserver.
type checker struct {
	Options
	spec *corev1.PodSpec
	// meta is nil for templates.
	meta *metav1.ObjectMeta
	// volumes are the valid volumes of the pod.
	volumes map[string]*corev1.VolumeSource
	claims  sets.Set[string]
	errs    field.ErrorList
}

func (c *checker) add(errs ...*field.Error) {
	c.errs = append(c.errs, errs...)
}

// validateSpec validates the spec of a pod, or of a template if meta is nil.
func validateSpec(spec *corev1.PodSpec, meta *metav1.ObjectMeta, path *field.Path, opts Options) field.ErrorList {
	c := &checker{Options: opts, spec: spec, meta: meta}
	if spec.TerminationGracePeriodSeconds == nil {
		c.add(field.Required(path.Child("terminationGracePeriodSeconds"), ""))
	}
	c.checkVolumes(path.Child("volumes"))
	c.checkResourceClaims(path.Child("resourceClaims"))
	c.checkContainers(path.Child("containers"))
	c.checkInitContainers(path.Child("initContainers"))
	c.checkEphemeralContainers(path.Child("ephemeralContainers"))
	c.checkPodResources(path.Child("resources"))
	c.checkHostPorts(path.Child("containers"))
	c.add(rules.RequiredEnum(spec.RestartPolicy, path.Child("restartPolicy"),
		corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever)...)
	c.add(rules.RequiredEnum(spec.DNSPolicy, path.Child("dnsPolicy"),
		corev1.DNSClusterFirstWithHostNet, corev1.DNSClusterFirst, corev1.DNSDefault, corev1.DNSNone)...)
	c.add(metav1validation.ValidateLabels(spec.NodeSelector, path.Child("nodeSelector"))...)
	c.checkPodSecurity(path.Child("securityContext"))
	for i, secret := range spec.ImagePullSecrets {
		if !reflect.DeepEqual(secret, corev1.LocalObjectReference{Name: secret.Name}) {
			c.add(field.Invalid(path.Child("imagePullSecrets").Index(i), rules.Internal(secret), "only name may be set"))
		}
	}
	c.checkAffinity(path.Child("affinity"))
	c.checkDNSConfig(path.Child("dnsConfig"))
	for i, gate := range spec.ReadinessGates {
		c.add(rules.QualifiedName(string(gate.ConditionType), path.Child("readinessGates").Index(i).Child("conditionType"))...)
	}
	c.checkSchedulingGates(path.Child("schedulingGates"))
	c.checkSpreadConstraints(path.Child("topologySpreadConstraints"))
	c.checkHostProcesses(path)
	c.checkUserNamespace(path)
	c.checkHostnameOverride(path.Child("hostnameOverride"))
	c.checkNames(path)
	if len(spec.Tolerations) > 0 {
		c.add(validateTolerations(spec.Tolerations, path.Child("tolerations"), opts)...)
	}
	for i, alias := range spec.HostAliases {
		at := path.Child("hostAliases").Index(i)
		c.add(validation.IsValidIPForLegacyField(at.Child("ip"), alias.IP, true, nil)...)
		for j, name := range alias.Hostnames {
			c.add(rules.Subdomain(name, at.Child("hostnames").Index(j))...)
		}
	}
	c.checkClasses(path)
	c.checkOS(path)
	if group := spec.SchedulingGroup; group != nil {
		c.checkSchedulingGroup(group, path.Child("schedulingGroup", "podGroupName"))
	}
	c.checkEnvFiles(path)
	return c.errs
}

// checkNames validates the references of a pod and the names that it has on the network.
func (c *checker) checkNames(path *field.Path) {
	spec := c.spec
	if name := spec.ServiceAccountName; name != "" {
		c.add(rules.Invalid(name, path.Child("serviceAccountName"), apivalidation.ValidateServiceAccountName(name, false))...)
	}
	if spec.NodeName != "" {
		c.add(rules.Invalid(spec.NodeName, path.Child("nodeName"), apivalidation.NameIsDNSSubdomain(spec.NodeName, false))...)
	}
	if seconds := spec.ActiveDeadlineSeconds; seconds != nil && (*seconds < 1 || *seconds > math.MaxInt32) {
		c.add(field.Invalid(path.Child("activeDeadlineSeconds"), *seconds, validation.InclusiveRangeError(1, math.MaxInt32)))
	}
	if spec.Hostname != "" {
		c.add(rules.Label(spec.Hostname, path.Child("hostname"))...)
	}
	if spec.Subdomain != "" {
		c.add(rules.Label(spec.Subdomain, path.Child("subdomain"))...)
	}
}

// checkClasses validates the references to classes of pods, and what belongs to these classes.
func (c *checker) checkClasses(path *field.Path) {
	spec := c.spec
	if name := spec.PriorityClassName; name != "" {
		c.add(rules.Invalid(name, path.Child("priorityClassName"), apivalidation.NameIsDNSSubdomain(name, false))...)
	}
	if name := spec.RuntimeClassName; name != nil {
		c.add(rules.Invalid(*name, path.Child("runtimeClassName"), apivalidation.NameIsDNSSubdomain(*name, false))...)
	}
	if spec.PreemptionPolicy != nil {
		c.add(rules.RequiredEnum(*spec.PreemptionPolicy, path.Child("preemptionPolicy"),
			corev1.PreemptLowerPriority, corev1.PreemptNever)...)
	}
	if spec.Overhead != nil {
		c.checkResources(&corev1.ResourceRequirements{Limits: spec.Overhead}, rules.ContainerResourceName, nil, path.Child("overhead"))
	}
}

func (c *checker) checkSchedulingGroup(group *corev1.PodSchedulingGroup, path *field.Path) {
	if group.PodGroupName == nil {
		c.add(field.Invalid(path, group.PodGroupName, "must specify one of: `podGroupName`"))
		return
	}
	c.add(rules.Invalid(*group.PodGroupName, path, apivalidation.NameIsDNSSubdomain(*group.PodGroupName, false))...)
}

// checkHostPorts rejects ports that are not those of the host, if the pod has its network.
// Templates need not have ports of the host.
func (c *checker) checkHostPorts(path *field.Path) {
	if !c.spec.HostNetwork {
		return
	}
	for i, container := range c.spec.Containers {
		for j, port := range container.Ports {
			if port.HostPort != port.ContainerPort && (c.pod || port.HostPort != 0) {
				c.add(field.Invalid(path.Index(i).Child("ports").Index(j).Child("hostPort"), port.HostPort,
					"must match `containerPort` when `hostNetwork` is true"))
			}
		}
	}
}

func (c *checker) checkDNSConfig(path *field.Path) {
	const (
		maxNameservers = 3
		maxSearches    = 32
		maxSearchChars = 2048
	)
	config := c.spec.DNSConfig
	if c.spec.DNSPolicy == corev1.DNSNone {
		if config == nil {
			c.add(field.Required(path, fmt.Sprintf("must provide `dnsConfig` when `dnsPolicy` is %s", corev1.DNSNone)))
			return
		}
		if len(config.Nameservers) == 0 {
			c.add(field.Required(path.Child("nameservers"),
				fmt.Sprintf("must provide at least one DNS nameserver when `dnsPolicy` is %s", corev1.DNSNone)))
			return
		}
	}
	if config == nil {
		return
	}
	servers, searches := path.Child("nameservers"), path.Child("searches")
	if len(config.Nameservers) > maxNameservers {
		c.add(field.Invalid(servers, config.Nameservers, fmt.Sprintf("must not have more than %v nameservers", maxNameservers)))
	}
	for i, server := range config.Nameservers {
		c.add(validation.IsValidIPForLegacyField(servers.Index(i), server, true, nil)...)
	}
	if len(config.Searches) > maxSearches {
		c.add(field.Invalid(searches, config.Searches, fmt.Sprintf("must not have more than %v search paths", maxSearches)))
	}
	if len(strings.Join(config.Searches, " ")) > maxSearchChars {
		c.add(field.Invalid(searches, config.Searches,
			fmt.Sprintf("must not have more than %v characters (including spaces) in the search list", maxSearchChars)))
	}
	for i, search := range config.Searches {
		if search != "." {
			search = strings.TrimSuffix(search, ".")
			c.add(rules.Invalid(search, searches.Index(i), validation.IsDNS1123SubdomainWithUnderscore(search))...)
		}
	}
	for i, option := range config.Options {
		if option.Name == "" {
			c.add(field.Required(path.Child("options").Index(i), "must not be empty"))
		}
	}
}

func (c *checker) checkSchedulingGates(path *field.Path) {
	seen := sets.New[string]()
	for i, gate := range c.spec.SchedulingGates {
		c.add(rules.QualifiedName(gate.Name, path.Index(i))...)
		if seen.Has(gate.Name) {
			c.add(field.Duplicate(path.Index(i), gate.Name))
		}
		seen.Insert(gate.Name)
	}
}

func (c *checker) checkHostnameOverride(path *field.Path) {
	name := c.spec.HostnameOverride
	if name == nil {
		return
	}
	if c.spec.SetHostnameAsFQDN != nil && *c.spec.SetHostnameAsFQDN {
		c.add(field.Forbidden(path, "may not be specified when setHostnameAsFQDN is true"))
	}
	if c.spec.HostNetwork {
		c.add(field.Forbidden(path, "may not be specified when hostNetwork is true"))
	}
	if len(*name) > 64 {
		c.add(field.TooLong(path, "", 64))
	}
	c.add(rules.Subdomain(*name, path)...)
}

// checkUserNamespace validates pods with users of their own, which cannot share other namespaces
// with the host.
func (c *checker) checkUserNamespace(path *field.Path) {
	const detail = "when `hostUsers` is false"
	if !hasUserNamespace(c.spec) {
		return
	}
	if c.spec.HostNetwork && !c.userNamespaceOnHost {
		c.add(field.Forbidden(path.Child("hostNetwork"), detail))
	}
	if c.spec.HostPID {
		c.add(field.Forbidden(path.Child("HostPID"), detail))
	}
	if c.spec.HostIPC {
		c.add(field.Forbidden(path.Child("HostIPC"), detail))
	}
	if c.userNamespaceBlocks {
		return
	}
	for at, container := range containers(c.spec, path) {
		if len(container.VolumeDevices) > 0 {
			c.add(field.Forbidden(at.Child("volumeDevices"), detail))
		}
	}
}

// checkResourceClaims validates the claims for devices.
func (c *checker) checkResourceClaims(path *field.Path) {
	c.claims = sets.New[string]()
	for _, claim := range c.spec.ResourceClaims {
		if claim.Name != "" {
			c.claims.Insert(claim.Name)
		}
	}
	seen := sets.New[string]()
	for i, claim := range c.spec.ResourceClaims {
		if c.meta != nil && IsMirror(c.meta) {
			c.add(field.Forbidden(field.NewPath(""), "static pods do not support resource claims"))
			continue
		}
		at := path.Index(i)
		switch {
		case claim.Name == "":
			c.add(field.Required(at.Child("name"), ""))
		case seen.Has(claim.Name):
			c.add(field.Duplicate(at.Child("name"), claim.Name))
		default:
			c.add(rules.Label(claim.Name, at.Child("name"))...)
			seen.Insert(claim.Name)
		}
		name, template := claim.ResourceClaimName, claim.ResourceClaimTemplateName
		if name != nil && template != nil {
			c.add(field.Invalid(at, rules.Internal(claim),
				"at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"))
		}
		if name == nil && template == nil {
			c.add(field.Invalid(at, rules.Internal(claim), "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"))
		}
		if name != nil {
			c.add(rules.Invalid(*name, at.Child("resourceClaimName"), apivalidation.NameIsDNSSubdomain(*name, false))...)
		}
		if template != nil {
			c.add(rules.Invalid(*template, at.Child("resourceClaimTemplateName"), apivalidation.NameIsDNSSubdomain(*template, false))...)
		}
	}
}

// DefaultAccount is the service account of pods that do not name one.
const DefaultAccount = "default"

// SetDefaultAccount gives a pod the default service account, unless it has an account or is a
// mirror. It reports whether the pod has changed. The ServiceAccount admission plugin does it
// before pods are validated.
func SetDefaultAccount(pod *corev1.Pod) bool {
	if IsMirror(&pod.ObjectMeta) || pod.Spec.ServiceAccountName != "" {
		return false
	}
	pod.Spec.ServiceAccountName, pod.Spec.DeprecatedServiceAccount = DefaultAccount, DefaultAccount
	return true
}

// IsMirror reports whether a pod represents one that a node runs without the API server.
func IsMirror(meta *metav1.ObjectMeta) bool {
	_, ok := meta.Annotations[corev1.MirrorPodAnnotationKey]
	return ok
}
