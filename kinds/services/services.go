// Package services has the rules of services, and allocates their cluster IPs and node ports.
package services

import (
	"fmt"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/kinds/kind"
	"espalier.dev/kinds/rules"
)

// Rules returns the rules of services, except allocation.
func Rules() kind.Rules {
	return kind.Rules{
		Default: kind.On(setDefaults),
		Main: kind.Write{
			Prepare:  kind.Change(prepare),
			Validate: kind.Check(validate),
			Warnings: kind.Warn(func(svc, _ *corev1.Service) []string { return warnings(svc) }),
			Reset:    []string{"status"},
		},
		Status: &kind.Write{
			Prepare:  kind.Change(func(svc, old *corev1.Service) { svc.Spec = old.Spec }),
			Validate: kind.Check(validateStatus),
			Warnings: kind.Warn(statusWarnings),
			Reset:    []string{"spec"},
		},
		CreateOnUpdate: true,
		Fields: func(obj kind.Object) fields.Set {
			spec := obj.(*corev1.Service).Spec
			return fields.Set{"spec.clusterIP": spec.ClusterIP, "spec.type": string(spec.Type)}
		},
	}
}

func setDefaults(svc *corev1.Service) {
	spec := &svc.Spec
	rules.SetDefault(&spec.SessionAffinity, corev1.ServiceAffinityNone)
	switch spec.SessionAffinity {
	case corev1.ServiceAffinityNone:
		spec.SessionAffinityConfig = nil
	case corev1.ServiceAffinityClientIP:
		if c := spec.SessionAffinityConfig; c == nil || c.ClientIP == nil || c.ClientIP.TimeoutSeconds == nil {
			spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{
				TimeoutSeconds: new(corev1.DefaultClientIPServiceAffinitySeconds),
			}}
		}
	}
	rules.SetDefault(&spec.Type, corev1.ServiceTypeClusterIP)
	for i := range spec.Ports {
		port := &spec.Ports[i]
		rules.SetDefault(&port.Protocol, corev1.ProtocolTCP)
		if port.TargetPort == intstr.FromInt32(0) || port.TargetPort == intstr.FromString("") {
			port.TargetPort = intstr.FromInt32(port.Port)
		}
	}
	if isExternallyAccessible(svc) {
		rules.SetDefault(&spec.ExternalTrafficPolicy, corev1.ServiceExternalTrafficPolicyCluster)
	}
	switch spec.Type {
	case corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeClusterIP:
		rules.SetDefaultPointer(&spec.InternalTrafficPolicy, corev1.ServiceInternalTrafficPolicyCluster)
	}
	if spec.Type == corev1.ServiceTypeLoadBalancer {
		rules.SetDefaultPointer(&spec.AllocateLoadBalancerNodePorts, true)
		for i := range svc.Status.LoadBalancer.Ingress {
			if ingress := &svc.Status.LoadBalancer.Ingress[i]; ingress.IP != "" {
				rules.SetDefaultPointer(&ingress.IPMode, corev1.LoadBalancerIPModeVIP)
			}
		}
	}
}

func isExternallyAccessible(svc *corev1.Service) bool {
	switch svc.Spec.Type {
	case corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeNodePort:
		return true
	case corev1.ServiceTypeClusterIP:
		return len(svc.Spec.ExternalIPs) > 0
	}
	return false
}

// needsHealthCheck reports whether a service has a health check node port.
func needsHealthCheck(svc *corev1.Service) bool {
	return svc.Spec.Type == corev1.ServiceTypeLoadBalancer && svc.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
}

func usesNodePorts(svc *corev1.Service) bool {
	return svc.Spec.Type == corev1.ServiceTypeNodePort || svc.Spec.Type == corev1.ServiceTypeLoadBalancer
}

func isExternalName(svc *corev1.Service) bool { return svc.Spec.Type == corev1.ServiceTypeExternalName }

// isHeadless reports whether a service has no cluster IP by request.
func isHeadless(svc *corev1.Service) bool {
	return len(svc.Spec.ClusterIPs) == 1 && svc.Spec.ClusterIPs[0] == corev1.ClusterIPNone
}

func prepare(svc, old *corev1.Service) {
	if old == nil {
		svc.Status = corev1.ServiceStatus{}
		return
	}
	svc.Status = old.Status
	dropFieldsOfOldType(svc, old)
}

// dropFieldsOfOldType removes values that do not apply to a changed type, unless the client has
// changed them, too: validation rejects those.
func dropFieldsOfOldType(svc, old *corev1.Service) {
	spec, before := &svc.Spec, &old.Spec
	if !isExternalName(old) && isExternalName(svc) {
		if spec.ClusterIP == before.ClusterIP && slices.Equal(spec.ClusterIPs, before.ClusterIPs) {
			spec.ClusterIP, spec.ClusterIPs = "", nil
		}
		if reflect.DeepEqual(spec.IPFamilies, before.IPFamilies) {
			spec.IPFamilies = nil
		}
		if value(spec.IPFamilyPolicy) == value(before.IPFamilyPolicy) {
			spec.IPFamilyPolicy = nil
		}
	}
	if usesNodePorts(old) && !usesNodePorts(svc) && isSubset(nodePorts(svc), nodePorts(old)) {
		for i := range spec.Ports {
			spec.Ports[i].NodePort = 0
		}
	}
	if needsHealthCheck(old) && !needsHealthCheck(svc) && spec.HealthCheckNodePort == before.HealthCheckNodePort {
		spec.HealthCheckNodePort = 0
	}
	if before.Type == corev1.ServiceTypeLoadBalancer && spec.Type != corev1.ServiceTypeLoadBalancer {
		if a, b := spec.AllocateLoadBalancerNodePorts, before.AllocateLoadBalancerNodePorts; a != nil && b != nil && *a == *b {
			spec.AllocateLoadBalancerNodePorts = nil
		}
		if samePointer(spec.LoadBalancerClass, before.LoadBalancerClass) {
			spec.LoadBalancerClass = nil
		}
	}
	if isExternallyAccessible(old) && !isExternallyAccessible(svc) && spec.ExternalTrafficPolicy == before.ExternalTrafficPolicy {
		spec.ExternalTrafficPolicy = ""
	}
	if spec.Type != corev1.ServiceTypeLoadBalancer {
		svc.Status.LoadBalancer = corev1.LoadBalancerStatus{}
	}
}

// nodePorts returns the node ports of a service, without the health check.
func nodePorts(svc *corev1.Service) (ports []int32) {
	for _, port := range svc.Spec.Ports {
		if port.NodePort != 0 {
			ports = append(ports, port.NodePort)
		}
	}
	return ports
}

func isSubset[T comparable](some, all []T) bool {
	return !slices.ContainsFunc(some, func(v T) bool { return !slices.Contains(all, v) })
}

// value returns what p points to, or the zero value.
func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

func samePointer[T comparable](a, b *T) bool {
	return (a == nil) == (b == nil) && value(a) == value(b)
}

func warnings(svc *corev1.Service) (out []string) {
	spec, path := &svc.Spec, field.NewPath("spec")
	warn := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	warnIPs := func(path *field.Path, ips []string) {
		for i, ip := range ips {
			out = append(out, validation.GetWarningsForIP(path.Index(i), ip)...)
		}
	}
	if _, ok := svc.Annotations[corev1.DeprecatedAnnotationTopologyAwareHints]; ok {
		warn("annotation %s is deprecated, please use %s instead",
			corev1.DeprecatedAnnotationTopologyAwareHints, corev1.AnnotationTopologyMode)
	}
	if spec.ClusterIP != "" && spec.ClusterIP != corev1.ClusterIPNone {
		warnIPs(path.Child("clusterIPs"), spec.ClusterIPs)
	}
	headless := spec.Type == corev1.ServiceTypeClusterIP && spec.ClusterIP == corev1.ClusterIPNone
	if headless {
		if spec.LoadBalancerIP != "" {
			warn("spec.loadBalancerIP is ignored for headless services")
		}
		if len(spec.ExternalIPs) > 0 {
			warn("spec.externalIPs is ignored for headless services")
		}
		if spec.SessionAffinity != corev1.ServiceAffinityNone {
			warn("spec.SessionAffinity is ignored for headless services")
		}
	}
	warnIPs(path.Child("externalIPs"), spec.ExternalIPs)
	if len(spec.ExternalIPs) > 0 && !headless && !isExternalName(svc) {
		warn("spec.externalIPs is deprecated and may no longer be implemented in some clusters")
	}
	if spec.LoadBalancerIP != "" {
		out = append(out, validation.GetWarningsForIP(path.Child("loadBalancerIP"), spec.LoadBalancerIP)...)
	}
	for i, cidr := range spec.LoadBalancerSourceRanges {
		out = append(out, validation.GetWarningsForCIDR(path.Child("loadBalancerSourceRanges").Index(i), cidr)...)
	}
	if isExternalName(svc) && len(spec.ExternalIPs) > 0 {
		warn("spec.externalIPs is ignored when spec.type is %q", corev1.ServiceTypeExternalName)
	}
	if !isExternalName(svc) && spec.ExternalName != "" {
		warn("spec.externalName is ignored when spec.type is not %q", corev1.ServiceTypeExternalName)
	}
	if value(spec.TrafficDistribution) == corev1.ServiceTrafficDistributionPreferClose {
		warn("spec.trafficDistribution: %q is deprecated; use %q",
			corev1.ServiceTrafficDistributionPreferClose, corev1.ServiceTrafficDistributionPreferSameZone)
	}
	return out
}

func statusWarnings(svc, _ *corev1.Service) (out []string) {
	path := field.NewPath("status", "loadBalancer", "ingress")
	for i, ingress := range svc.Status.LoadBalancer.Ingress {
		if ingress.IP != "" {
			out = append(out, validation.GetWarningsForIP(path.Index(i), ingress.IP)...)
		}
	}
	return out
}
