package services

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"espalier.dev/kinds/rules"
)

const onlyLoadBalancer = "may only be used when `type` is 'LoadBalancer'"

func validate(svc, old *corev1.Service) (errs field.ErrorList) {
	meta := field.NewPath("metadata")
	if old == nil {
		errs = rules.ObjectMeta(&svc.ObjectMeta, true, apivalidation.NameIsDNSLabel, meta)
	} else {
		errs = rules.ObjectMetaUpdate(&svc.ObjectMeta, &old.ObjectMeta, meta)
		errs = append(errs, clusterIPsUpdate(svc, old)...)
		errs = append(errs, familiesUpdate(svc, old)...)
		if isLoadBalancer(old) && isLoadBalancer(svc) && !samePointer(old.Spec.LoadBalancerClass, svc.Spec.LoadBalancerClass) {
			errs = append(errs, field.Invalid(field.NewPath("spec", "loadBalancerClass"),
				svc.Spec.LoadBalancerClass, "may not change once set"))
		}
		errs = append(errs, loadBalancerClass(svc)...)
		if needsHealthCheck(old) && needsHealthCheck(svc) && svc.Spec.HealthCheckNodePort != old.Spec.HealthCheckNodePort {
			errs = append(errs, field.Forbidden(field.NewPath("spec", "healthCheckNodePort"), "field is immutable"))
		}
	}
	hints, hintsSet := svc.Annotations[corev1.DeprecatedAnnotationTopologyAwareHints]
	mode, modeSet := svc.Annotations[corev1.AnnotationTopologyMode]
	if hintsSet && modeSet && hints != mode {
		errs = append(errs, field.Invalid(meta.Child("annotations").Key(corev1.AnnotationTopologyMode), mode,
			fmt.Sprintf("must match annotations[%s] when both are specified", corev1.DeprecatedAnnotationTopologyAwareHints)))
	}
	return append(errs, validateSpec(svc, old, field.NewPath("spec"))...)
}

func isLoadBalancer(svc *corev1.Service) bool { return svc.Spec.Type == corev1.ServiceTypeLoadBalancer }

func validateSpec(svc, old *corev1.Service, path *field.Path) (errs field.ErrorList) {
	spec := &svc.Spec
	before := &corev1.ServiceSpec{}
	if old != nil {
		before = &old.Spec
	}
	if len(spec.Ports) == 0 && !isHeadless(svc) && !isExternalName(svc) {
		errs = append(errs, field.Required(path.Child("ports"), ""))
	}
	errs = append(errs, validateType(svc, path)...)
	names := map[string]bool{}
	for i := range spec.Ports {
		errs = append(errs, validatePort(&spec.Ports[i], len(spec.Ports) > 1, names, path.Child("ports").Index(i))...)
	}
	errs = append(errs, metav1validation.ValidateLabels(spec.Selector, path.Child("selector"))...)
	errs = append(errs, rules.RequiredEnum(spec.SessionAffinity, path.Child("sessionAffinity"),
		corev1.ServiceAffinityClientIP, corev1.ServiceAffinityNone)...)
	errs = append(errs, validateAffinity(spec, path.Child("sessionAffinityConfig"))...)
	errs = append(errs, clusterIPs(svc, old)...)
	for i, ip := range spec.ExternalIPs {
		index := path.Child("externalIPs").Index(i)
		if invalid := rules.IP(ip, index, before.ExternalIPs); len(invalid) > 0 {
			errs = append(errs, invalid...)
		} else {
			errs = append(errs, rules.EndpointIP(ip, index)...)
		}
	}
	errs = append(errs, rules.RequiredEnum(spec.Type, path.Child("type"),
		corev1.ServiceTypeClusterIP, corev1.ServiceTypeExternalName, corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeNodePort)...)
	errs = append(errs, duplicatePorts(spec, path.Child("ports"))...)
	errs = append(errs, sourceRanges(svc, old, path.Child("LoadBalancerSourceRanges"))...)
	if spec.AllocateLoadBalancerNodePorts != nil && !isLoadBalancer(svc) {
		errs = append(errs, field.Forbidden(path.Child("allocateLoadBalancerNodePorts"), onlyLoadBalancer))
	}
	if spec.AllocateLoadBalancerNodePorts == nil && isLoadBalancer(svc) {
		errs = append(errs, field.Required(field.NewPath("allocateLoadBalancerNodePorts"), ""))
	}
	errs = append(errs, loadBalancerClass(svc)...)
	return append(errs, validateTraffic(svc, path)...)
}

// validateType validates what the type of a service requires.
func validateType(svc *corev1.Service, path *field.Path) (errs field.ErrorList) {
	spec := &svc.Spec
	switch spec.Type {
	case corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeNodePort:
		if isHeadless(svc) {
			errs = append(errs, field.Invalid(path.Child("clusterIPs").Index(0), spec.ClusterIPs[0],
				fmt.Sprintf("may not be set to 'None' for %s services", spec.Type)))
		}
	case corev1.ServiceTypeExternalName:
		const forbidden = "may not be set for ExternalName services"
		if len(spec.ClusterIPs) > 0 {
			errs = append(errs, field.Forbidden(path.Child("clusterIPs"), forbidden))
		}
		if len(spec.IPFamilies) > 0 {
			errs = append(errs, field.Forbidden(path.Child("ipFamilies"), forbidden))
		}
		if spec.IPFamilyPolicy != nil {
			errs = append(errs, field.Forbidden(path.Child("ipFamilyPolicy"), forbidden))
		}
		// A fully qualified name may end with a dot.
		if name := strings.TrimSuffix(spec.ExternalName, "."); name != "" {
			errs = append(errs, rules.Subdomain(name, path.Child("externalName"))...)
		} else {
			errs = append(errs, field.Required(path.Child("externalName"), ""))
		}
	}
	return errs
}

func validatePort(port *corev1.ServicePort, nameRequired bool, names map[string]bool, path *field.Path) (errs field.ErrorList) {
	switch {
	case port.Name != "":
		errs = append(errs, rules.Label(port.Name, path.Child("name"))...)
		if names[port.Name] {
			errs = append(errs, field.Duplicate(path.Child("name"), port.Name))
		}
		names[port.Name] = true
	case nameRequired:
		errs = append(errs, field.Required(path.Child("name"), ""))
	}
	errs = append(errs, rules.Port(port.Port, path.Child("port"))...)
	errs = append(errs, rules.RequiredEnum(port.Protocol, path.Child("protocol"),
		corev1.ProtocolSCTP, corev1.ProtocolTCP, corev1.ProtocolUDP)...)
	errs = append(errs, rules.PortOrName(port.TargetPort, path.Child("targetPort"))...)
	if port.AppProtocol != nil {
		errs = append(errs, rules.QualifiedName(*port.AppProtocol, path.Child("appProtocol"))...)
	}
	return errs
}

func validateAffinity(spec *corev1.ServiceSpec, path *field.Path) field.ErrorList {
	config := spec.SessionAffinityConfig
	clientIP := path.Child("clientIP")
	required := fmt.Sprintf("when session affinity type is %s", corev1.ServiceAffinityClientIP)
	switch {
	case spec.SessionAffinity == corev1.ServiceAffinityNone && config != nil:
		return field.ErrorList{field.Forbidden(path,
			fmt.Sprintf("must not be set when session affinity is %s", corev1.ServiceAffinityNone))}
	case spec.SessionAffinity != corev1.ServiceAffinityClientIP:
		return nil
	case config == nil:
		return field.ErrorList{field.Required(path, required)}
	case config.ClientIP == nil:
		return field.ErrorList{field.Required(clientIP, required)}
	case config.ClientIP.TimeoutSeconds == nil:
		return field.ErrorList{field.Required(clientIP.Child("timeoutSeconds"), required)}
	}
	const limit = 24 * 60 * 60
	if timeout := *config.ClientIP.TimeoutSeconds; timeout <= 0 || timeout > limit {
		return field.ErrorList{field.Invalid(clientIP.Child("timeoutSeconds"), timeout,
			fmt.Sprintf("must be greater than 0 and less than %d", limit))}
	}
	return nil
}

// duplicatePorts rejects node ports of services without them, and ports that occur twice with
// the same protocol.
func duplicatePorts(spec *corev1.ServiceSpec, path *field.Path) (errs field.ErrorList) {
	if spec.Type == corev1.ServiceTypeClusterIP {
		for i, port := range spec.Ports {
			if port.NodePort != 0 {
				errs = append(errs, field.Forbidden(path.Index(i).Child("nodePort"), "may not be used when `type` is 'ClusterIP'"))
			}
		}
	}
	type number struct {
		protocol corev1.Protocol
		port     int32
	}
	nodePorts, ports := map[number]bool{}, map[number]bool{}
	for i, port := range spec.Ports {
		if key := (number{port.Protocol, port.NodePort}); port.NodePort != 0 {
			if nodePorts[key] {
				errs = append(errs, field.Duplicate(path.Index(i).Child("nodePort"), port.NodePort))
			}
			nodePorts[key] = true
		}
	}
	for i, port := range spec.Ports {
		key := number{port.Protocol, port.Port}
		if ports[key] {
			errs = append(errs, field.Duplicate(path.Index(i),
				rules.Internal(corev1.ServicePort{Protocol: port.Protocol, Port: port.Port})))
		}
		ports[key] = true
	}
	return errs
}

// sourceRanges validates the ranges of clients of a load balancer, in the field or in the
// annotation that came before it. Both allow spaces.
func sourceRanges(svc, old *corev1.Service, path *field.Path) (errs field.ErrorList) {
	annotation := field.NewPath("metadata", "annotations").Key(corev1.AnnotationLoadBalancerSourceRangesKey)
	if ranges := svc.Spec.LoadBalancerSourceRanges; len(ranges) > 0 {
		if !isLoadBalancer(svc) {
			errs = append(errs, field.Forbidden(path, onlyLoadBalancer))
		}
		var existing []string
		if old != nil {
			for _, cidr := range old.Spec.LoadBalancerSourceRanges {
				existing = append(existing, strings.TrimSpace(cidr))
			}
		}
		for i, cidr := range ranges {
			errs = append(errs, rules.CIDR(strings.TrimSpace(cidr), path.Index(i), existing)...)
		}
		return errs
	}
	text, ok := svc.Annotations[corev1.AnnotationLoadBalancerSourceRangesKey]
	if !ok {
		return nil
	}
	if !isLoadBalancer(svc) {
		errs = append(errs, field.Forbidden(annotation, onlyLoadBalancer))
	}
	if old != nil && old.Annotations[corev1.AnnotationLoadBalancerSourceRangesKey] == text {
		return errs
	}
	if text = strings.TrimSpace(text); text != "" {
		for _, cidr := range strings.Split(text, ",") {
			errs = append(errs, rules.CIDR(strings.TrimSpace(cidr), annotation, nil)...)
		}
	}
	return errs
}

func loadBalancerClass(svc *corev1.Service) field.ErrorList {
	path := field.NewPath("spec", "loadBalancerClass")
	switch class := svc.Spec.LoadBalancerClass; {
	case class == nil:
		return nil
	case isLoadBalancer(svc):
		return rules.QualifiedName(*class, path)
	default:
		return field.ErrorList{field.Forbidden(path, onlyLoadBalancer)}
	}
}

func validateTraffic(svc *corev1.Service, path *field.Path) (errs field.ErrorList) {
	spec := &svc.Spec
	external := path.Child("externalTrafficPolicy")
	if isExternallyAccessible(svc) {
		errs = append(errs, rules.RequiredEnum(spec.ExternalTrafficPolicy, external,
			corev1.ServiceExternalTrafficPolicyCluster, corev1.ServiceExternalTrafficPolicyLocal)...)
	} else if spec.ExternalTrafficPolicy != "" {
		errs = append(errs, field.Invalid(external, spec.ExternalTrafficPolicy, "may only be set for externally-accessible services"))
	}
	health := path.Child("healthCheckNodePort")
	switch {
	case !needsHealthCheck(svc) && spec.HealthCheckNodePort != 0:
		errs = append(errs, field.Invalid(health, spec.HealthCheckNodePort,
			"may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"))
	case needsHealthCheck(svc) && spec.HealthCheckNodePort == 0:
		errs = append(errs, field.Required(health, ""))
	case needsHealthCheck(svc):
		errs = append(errs, rules.Port(spec.HealthCheckNodePort, health)...)
	}
	internal := path.Child("internalTrafficPolicy")
	if spec.InternalTrafficPolicy != nil {
		errs = append(errs, rules.Enum(*spec.InternalTrafficPolicy, internal,
			corev1.ServiceInternalTrafficPolicyCluster, corev1.ServiceInternalTrafficPolicyLocal)...)
	} else if usesNodePorts(svc) || spec.Type == corev1.ServiceTypeClusterIP {
		errs = append(errs, field.Required(internal, ""))
	}
	if spec.TrafficDistribution != nil {
		errs = append(errs, rules.Enum(*spec.TrafficDistribution, path.Child("trafficDistribution"),
			corev1.ServiceTrafficDistributionPreferClose,
			corev1.ServiceTrafficDistributionPreferSameZone, corev1.ServiceTrafficDistributionPreferSameNode)...)
	}
	return errs
}

func validateStatus(svc, old *corev1.Service) field.ErrorList {
	errs := rules.ObjectMetaUpdate(&svc.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	path := field.NewPath("status", "loadBalancer", "ingress")
	if !isLoadBalancer(svc) {
		if len(svc.Status.LoadBalancer.Ingress) > 0 {
			errs = append(errs, field.Forbidden(path, "may only be used when `spec.type` is 'LoadBalancer'"))
		}
		return errs
	}
	var existing []string
	for _, ingress := range old.Status.LoadBalancer.Ingress {
		existing = append(existing, ingress.IP)
	}
	for i, ingress := range svc.Status.LoadBalancer.Ingress {
		path := path.Index(i)
		if ingress.IP != "" {
			errs = append(errs, rules.IP(ingress.IP, path.Child("ip"), existing)...)
		}
		switch mode := path.Child("ipMode"); {
		case ingress.IPMode == nil && ingress.IP != "":
			errs = append(errs, field.Required(mode, "must be specified when `ip` is set"))
		case ingress.IPMode != nil && ingress.IP == "":
			errs = append(errs, field.Forbidden(mode, "may not be specified when `ip` is not set"))
		case ingress.IPMode != nil:
			errs = append(errs, rules.Enum(*ingress.IPMode, mode, corev1.LoadBalancerIPModeProxy, corev1.LoadBalancerIPModeVIP)...)
		}
		if host := path.Child("hostname"); ingress.Hostname != "" {
			errs = append(errs, rules.Invalid(ingress.Hostname, host, validation.IsDNS1123Subdomain(ingress.Hostname))...)
			if netutils.ParseIPSloppy(ingress.Hostname) != nil {
				errs = append(errs, field.Invalid(host, ingress.Hostname, "must be a DNS name, not an IP address"))
			}
		}
	}
	return errs
}
