package pods

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"espalier.dev/kinds/rules"
)

// validateStatus validates the status that a node reports. Fields of alpha features are not
// validated: only objects of other servers have them.
func validateStatus(pod, old *corev1.Pod) field.ErrorList {
	status, before := &pod.Status, &old.Status
	errs := rules.ObjectMetaUpdate(&pod.ObjectMeta, &old.ObjectMeta, metadata)
	errs = append(errs, validateAnnotationUpdate(pod, old, metadata.Child("annotations"), podOptions(old))...)
	errs = append(errs, validateConditions(status.Conditions, statusPath.Child("conditions"))...)
	nominated := statusPath.Child("nominatedNodeName")
	if name := status.NominatedNodeName; name != "" && name != before.NominatedNodeName {
		errs = append(errs, rules.Invalid(name, nominated, apivalidation.NameIsDNSSubdomain(name, false))...)
		if old.Spec.NodeName != "" {
			errs = append(errs, field.Forbidden(nominated, "may not be set on pods that are already bound to a node"))
		}
	}
	if status.ObservedGeneration < 0 {
		errs = append(errs, field.Invalid(statusPath.Child("observedGeneration"),
			status.ObservedGeneration, "must be a non-negative integer"))
	}
	errs = append(errs, rules.Immutable(status.QOSClass, before.QOSClass, statusPath.Child("qosClass"))...)

	containers, initContainers, ephemeral := statusPath.Child("containerStatuses"),
		statusPath.Child("initContainerStatuses"), statusPath.Child("ephemeralContainerStatuses")
	if !couldRestartAll(&old.Spec) {
		errs = append(errs, validateRestarts(status.ContainerStatuses, before.ContainerStatuses,
			&old.Spec, old.Spec.Containers, containers)...)
		errs = append(errs, validateRestarts(status.InitContainerStatuses, before.InitContainerStatuses,
			&old.Spec, old.Spec.InitContainers, initContainers)...)
	}
	errs = append(errs, validateRestarts(status.EphemeralContainerStatuses, before.EphemeralContainerStatuses, nil, nil, ephemeral)...)

	errs = append(errs, validateClaimStatuses(status.ResourceClaimStatuses,
		pod.Spec.ResourceClaims, statusPath.Child("resourceClaimStatuses"))...)
	errs = append(errs, validateExtendedClaim(status.ExtendedResourceClaimStatus, &pod.Spec,
		statusPath.Child("extendedResourceClaimStatus"))...)
	errs = append(errs, validateIPs(podIPs(pod), podIPs(old), status.PodIPs, statusPath.Child("podIPs"))...)
	if hosts := status.HostIPs; len(hosts) > 0 {
		path := statusPath.Child("hostIPs")
		if hosts[0].IP != status.HostIP {
			errs = append(errs, field.Invalid(path.Index(0).Child("ip"), hosts[0].IP, "must be equal to `hostIP`"))
		}
		errs = append(errs, validateIPs(hostIPs(pod), hostIPs(old), hosts, path)...)
	}
	errs = append(errs, validateUsers(status.ContainerStatuses, pod.Spec.OS, containers)...)
	errs = append(errs, validateUsers(status.InitContainerStatuses, pod.Spec.OS, initContainers)...)
	errs = append(errs, validateUsers(status.EphemeralContainerStatuses, pod.Spec.OS, ephemeral)...)
	errs = append(errs, validateAllocated(status.ContainerStatuses, pod.Spec.Containers, containers)...)
	errs = append(errs, validateAllocated(status.InitContainerStatuses, pod.Spec.InitContainers, initContainers)...)
	for i, s := range status.EphemeralContainerStatuses {
		if len(s.AllocatedResourcesStatus) > 0 {
			errs = append(errs, field.Forbidden(ephemeral.Index(i).Child("allocatedResourcesStatus"),
				"must not be specified in container status"))
		}
	}
	return errs
}

func validateConditions(conditions []corev1.PodCondition, path *field.Path) (errs field.ErrorList) {
	for i, c := range conditions {
		if c.ObservedGeneration < 0 {
			errs = append(errs, field.Invalid(path.Index(i).Child("observedGeneration"),
				c.ObservedGeneration, "must be a non-negative integer"))
		}
		switch c.Type {
		case corev1.PodScheduled, corev1.PodReady, corev1.PodInitialized:
		default:
			errs = append(errs, rules.QualifiedName(string(c.Type), path.Index(i).Child("Type"))...)
		}
	}
	return errs
}

// couldRestartAll reports whether a container may restart all others when it ends.
func couldRestartAll(spec *corev1.PodSpec) bool {
	restarts := func(c corev1.Container) bool {
		return slices.ContainsFunc(c.RestartPolicyRules, func(rule corev1.ContainerRestartRule) bool {
			return rule.Action == corev1.ContainerRestartRuleActionRestartAllContainers
		})
	}
	return slices.ContainsFunc(spec.InitContainers, restarts) || slices.ContainsFunc(spec.Containers, restarts)
}

// validateRestarts rejects containers that run again although their restart policy does not
// allow it. Ephemeral containers, without a spec, never do.
func validateRestarts(statuses, old []corev1.ContainerStatus, spec *corev1.PodSpec,
	list []corev1.Container, path *field.Path) (errs field.ErrorList) {
	for i, before := range old {
		ended := before.State.Terminated
		if ended == nil {
			continue
		}
		for _, status := range statuses {
			if status.Name != before.Name || status.State.Terminated != nil {
				continue
			}
			index := slices.IndexFunc(list, func(c corev1.Container) bool { return c.Name == before.Name })
			if index < 0 || !shouldRestart(&list[index], spec, ended.ExitCode) {
				errs = append(errs, field.Forbidden(path.Index(i).Child("state"), "may not be transitioned to non-terminated state"))
			}
			if spec != nil {
				break
			}
		}
	}
	return errs
}

// shouldRestart reports whether a container that ended with a code runs again.
func shouldRestart(c *corev1.Container, spec *corev1.PodSpec, code int32) bool {
	policy := corev1.RestartPolicy("")
	if c.RestartPolicy != nil {
		if isRestartCode(c.RestartPolicyRules, code) {
			return true
		}
		policy = corev1.RestartPolicy(*c.RestartPolicy)
	}
	for _, policy := range []corev1.RestartPolicy{policy, spec.RestartPolicy} {
		switch policy {
		case corev1.RestartPolicyAlways:
			return true
		case corev1.RestartPolicyOnFailure:
			return code != 0
		case corev1.RestartPolicyNever:
			return false
		}
	}
	return true
}

// isRestartCode reports whether the first rule for an exit code restarts the container.
func isRestartCode(list []corev1.ContainerRestartRule, code int32) bool {
	for _, rule := range list {
		if rule.ExitCodes == nil {
			continue
		}
		listed := slices.Contains(rule.ExitCodes.Values, code)
		if listed && rule.ExitCodes.Operator == corev1.ContainerRestartRuleOnExitCodesOpIn ||
			!listed && rule.ExitCodes.Operator == corev1.ContainerRestartRuleOnExitCodesOpNotIn {
			return rule.Action == corev1.ContainerRestartRuleActionRestart ||
				rule.Action == corev1.ContainerRestartRuleActionRestartAllContainers
		}
	}
	return false
}

func validateClaimStatuses(statuses []corev1.PodResourceClaimStatus,
	claims []corev1.PodResourceClaim, path *field.Path) (errs field.ErrorList) {
	seen := sets.New[string]()
	for i, s := range statuses {
		name := path.Index(i).Child("name")
		if !slices.ContainsFunc(claims, func(claim corev1.PodResourceClaim) bool { return claim.Name == s.Name }) {
			errs = append(errs, field.Invalid(name, s.Name, "must match the name of an entry in `spec.resourceClaims`"))
		}
		if seen.Has(s.Name) {
			errs = append(errs, field.Duplicate(name, s.Name))
		}
		seen.Insert(s.Name)
		if s.ResourceClaimName != nil {
			errs = append(errs, rules.Invalid(s.ResourceClaimName, path.Index(i).Child("resourceClaimName"),
				apivalidation.NameIsDNSSubdomain(*s.ResourceClaimName, false))...)
		}
	}
	return errs
}

// validateExtendedClaim validates the claim that was created for extended resources.
func validateExtendedClaim(status *corev1.PodExtendedResourceClaimStatus, spec *corev1.PodSpec, path *field.Path) (errs field.ErrorList) {
	if status == nil {
		return nil
	}
	requests := map[string]corev1.ResourceList{}
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for _, c := range list {
			requests[c.Name] = c.Resources.Requests
		}
	}
	mappings := path.Child("requestMappings")
	if len(status.RequestMappings) == 0 {
		errs = append(errs, field.Required(mappings, "at least one request mapping is required"))
	}
	seen := sets.New[corev1.ContainerExtendedResourceRequest]()
	for i, m := range status.RequestMappings {
		at := mappings.Index(i)
		if list, ok := requests[m.ContainerName]; !ok {
			errs = append(errs, field.Invalid(at.Child("containerName"), m.ContainerName,
				"must match the name of an entry in spec.initContainers.name or spec.containers.name"))
		} else if _, ok := list[corev1.ResourceName(m.ResourceName)]; !ok {
			errs = append(errs, field.Invalid(at.Child("resourceName"), m.ResourceName,
				"must match the extended resource name of an entry in spec.initContainers.resources.requests or spec.containers.resources.requests"))
		}
		errs = append(errs, rules.Label(m.RequestName, path.Child("requestName"))...)
		if seen.Has(m) {
			errs = append(errs, field.Duplicate(at.Child("containerName"), m.ContainerName),
				field.Duplicate(at.Child("resourceName"), m.ResourceName), field.Duplicate(at.Child("requestName"), m.RequestName))
		}
		seen.Insert(m)
	}
	name := path.Child("resourceClaimName")
	if status.ResourceClaimName == "" {
		return append(errs, field.Required(name, ""))
	}
	return append(errs, rules.Invalid(status.ResourceClaimName, name, apivalidation.NameIsDNSSubdomain(status.ResourceClaimName, false))...)
}

func podIPs(pod *corev1.Pod) (ips []string) {
	for _, ip := range pod.Status.PodIPs {
		ips = append(ips, ip.IP)
	}
	return ips
}

func hostIPs(pod *corev1.Pod) (ips []string) {
	for _, ip := range pod.Status.HostIPs {
		ips = append(ips, ip.IP)
	}
	return ips
}

// validateIPs accepts one IP per family. value is what errors display.
func validateIPs(ips, old []string, value any, path *field.Path) (errs field.ErrorList) {
	for i, ip := range ips {
		errs = append(errs, validation.IsValidIPForLegacyField(path.Index(i), ip, true, old)...)
	}
	if len(ips) < 2 {
		return errs
	}
	dual, err := netutils.IsDualStackIPStrings(ips)
	if err != nil {
		errs = append(errs, field.InternalError(path, fmt.Errorf("failed to check for dual stack with error:%v", err)))
	}
	if !dual || len(ips) > 2 {
		errs = append(errs, field.Invalid(path, rules.Internal(value), "may specify no more than one IP for each IP family"))
	}
	return errs
}

// validateUsers validates the users that containers run as.
func validateUsers(statuses []corev1.ContainerStatus, os *corev1.PodOS, path *field.Path) (errs field.ErrorList) {
	for i, s := range statuses {
		if s.User == nil || s.User.Linux == nil {
			continue
		}
		at, user := path.Index(i).Child("user", "linux"), s.User.Linux
		switch {
		case os != nil && os.Name == corev1.Windows:
			errs = append(errs, field.Forbidden(at, "cannot be set for a windows pod"))
		case os == nil || os.Name == corev1.Linux:
			errs = append(errs, rules.Invalid(user.UID, at.Child("uid"), validation.IsValidUserID(user.UID))...)
			errs = append(errs, rules.Invalid(user.GID, at.Child("gid"), validation.IsValidGroupID(user.GID))...)
			for j, group := range user.SupplementalGroups {
				errs = append(errs, rules.Invalid(group, at.Child("supplementalGroups").Index(j), validation.IsValidGroupID(group))...)
			}
		}
	}
	return errs
}

// validateAllocated validates the health of the devices of containers.
func validateAllocated(statuses []corev1.ContainerStatus, list []corev1.Container, path *field.Path) (errs field.ErrorList) {
	for i, s := range statuses {
		index := slices.IndexFunc(list, func(c corev1.Container) bool { return c.Name == s.Name })
		for j, allocated := range s.AllocatedResourcesStatus {
			at := path.Index(i).Child("allocatedResourcesStatus").Index(j)
			if index >= 0 {
				errs = append(errs, validateAllocatedName(allocated.Name, &list[index].Resources, at.Child("name"))...)
			}
			errs = append(errs, validateHealth(allocated.Resources, at.Child("resources"))...)
		}
	}
	return errs
}

func validateAllocatedName(name corev1.ResourceName, r *corev1.ResourceRequirements, path *field.Path) field.ErrorList {
	detail := "must match one of the container's resource requests"
	_, found := r.Requests[name]
	if strings.HasPrefix(string(name), "claim:") {
		detail = "must match one of the container's resource claims in a format 'claim:<claimName>/<request>' or 'claim:<claimName>' if request is empty"
		found = slices.ContainsFunc(r.Claims, func(claim corev1.ResourceClaim) bool {
			full := "claim:" + claim.Name
			if claim.Request != "" {
				full += "/" + claim.Request
			}
			return full == string(name)
		})
	}
	if found {
		return nil
	}
	return field.ErrorList{field.Invalid(path, name, detail)}
}

func validateHealth(list []corev1.ResourceHealth, path *field.Path) (errs field.ErrorList) {
	seen := sets.New[corev1.ResourceID]()
	for i, r := range list {
		at := path.Index(i)
		errs = append(errs, rules.Enum(r.Health, at.Child("health"),
			corev1.ResourceHealthStatusHealthy, corev1.ResourceHealthStatusUnhealthy, corev1.ResourceHealthStatusUnknown)...)
		if r.Message != nil {
			if *r.Message == "" {
				errs = append(errs, field.Required(at.Child("message"), "must be non-empty if specified"))
			} else if len(*r.Message) > corev1.ResourceHealthMessageMaxLength {
				errs = append(errs, field.TooLong(at.Child("message"), "", corev1.ResourceHealthMessageMaxLength))
			}
		}
		if seen.Has(r.ResourceID) {
			errs = append(errs, field.Duplicate(at.Child("resourceID"), r.ResourceID))
		}
		seen.Insert(r.ResourceID)
	}
	return errs
}
