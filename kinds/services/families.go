package services

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"espalier.dev/kinds/rules"
)

const unchangeable = "may not change once set"

// clusterIPs validates the cluster IPs, the IP families and their policy, each alone and
// together.
func clusterIPs(svc, old *corev1.Service) (errs field.ErrorList) {
	if isExternalName(svc) {
		// They have to be empty: validateType.
		return nil
	}
	spec, path := &svc.Spec, field.NewPath("spec")
	ips, families := path.Child("clusterIPs"), path.Child("ipFamilies")
	switch {
	case spec.ClusterIP != "" && len(spec.ClusterIPs) == 0:
		errs = append(errs, field.Required(ips, ""))
	case spec.ClusterIP != "" && spec.ClusterIPs[0] != spec.ClusterIP:
		errs = append(errs, field.Invalid(ips, spec.ClusterIPs, "first value must match `clusterIP`"))
	case spec.ClusterIP == "" && len(spec.ClusterIPs) > 0:
		errs = append(errs, field.Invalid(ips, spec.ClusterIPs, "must be empty when `clusterIP` is not specified"))
	}
	seen := map[corev1.IPFamily]bool{}
	for i, family := range spec.IPFamilies {
		errs = append(errs, rules.Enum(family, families.Index(i), corev1.IPv4Protocol, corev1.IPv6Protocol)...)
		if seen[family] {
			errs = append(errs, field.Duplicate(families.Index(i), family))
		}
		seen[family] = true
	}
	if spec.IPFamilyPolicy != nil {
		errs = append(errs, rules.Enum(*spec.IPFamilyPolicy, path.Child("ipFamilyPolicy"),
			corev1.IPFamilyPolicyPreferDualStack, corev1.IPFamilyPolicyRequireDualStack, corev1.IPFamilyPolicySingleStack)...)
	}
	invalid := wellFormed(spec.ClusterIPs, old, ips)
	errs = append(errs, invalid...)
	if len(spec.ClusterIPs) > 2 {
		errs = append(errs, field.Invalid(ips, spec.ClusterIPs, "may only hold up to 2 values"))
	}
	if len(invalid) > 0 {
		return errs
	}
	if len(spec.ClusterIPs) > 1 {
		dual, err := netutils.IsDualStackIPStrings(spec.ClusterIPs)
		if err != nil {
			errs = append(errs, field.InternalError(ips, fmt.Errorf("failed to check for dual stack with error:%v", err)))
		}
		if !dual {
			errs = append(errs, field.Invalid(ips, spec.ClusterIPs, "may specify no more than one IP for each IP family"))
		}
	}
	if isHeadless(svc) {
		return errs
	}
	for i := range min(len(spec.ClusterIPs), len(spec.IPFamilies)) {
		family, ip := spec.IPFamilies[i], spec.ClusterIPs[i]
		if known := family == corev1.IPv4Protocol || family == corev1.IPv6Protocol; known && family != familyOf(ip) {
			errs = append(errs, field.Invalid(ips.Index(i), ip,
				fmt.Sprintf("expected an %s value as indicated by `ipFamilies[%d]`", family, i)))
		}
	}
	return errs
}

// wellFormed validates that cluster IPs are IPs, or None alone.
func wellFormed(ips []string, old *corev1.Service, path *field.Path) (errs field.ErrorList) {
	var existing []string
	if old != nil {
		existing = old.Spec.ClusterIPs
	}
	for i, ip := range ips {
		if i > 0 || ip != corev1.ClusterIPNone {
			errs = append(errs, rules.IP(ip, path.Index(i), existing)...)
		} else if len(ips) > 1 {
			errs = append(errs, field.Invalid(path, ips, "'None' must be the first and only value"))
		}
	}
	return errs
}

func familyOf(ip string) corev1.IPFamily {
	if netutils.IsIPv6String(ip) {
		return corev1.IPv6Protocol
	}
	return corev1.IPv4Protocol
}

// clusterIPsUpdate validates a change of cluster IPs: the first one stays, a second one may be
// added and removed.
func clusterIPsUpdate(svc, old *corev1.Service) (errs field.ErrorList) {
	if isExternalName(svc) || isExternalName(old) || isHeadless(svc) && isHeadless(old) {
		return nil
	}
	path := field.NewPath("spec", "clusterIPs")
	ips, before := svc.Spec.ClusterIPs, old.Spec.ClusterIPs
	changed := func(i int) {
		if ips[i] != before[i] {
			errs = append(errs, field.Invalid(path.Index(i), ips, unchangeable))
		}
	}
	switch {
	case len(ips) == len(before):
		for i := range ips {
			changed(i)
		}
	case len(ips) < len(before):
		if len(ips) == 0 {
			errs = append(errs, field.Invalid(path.Index(0), ips, "primary clusterIP can not be unset"))
		} else {
			changed(0)
		}
		if len(ips) == 1 && value(svc.Spec.IPFamilyPolicy) != corev1.IPFamilyPolicySingleStack {
			errs = append(errs, field.Invalid(field.NewPath("spec", "ipFamilyPolicy"), svc.Spec.IPFamilyPolicy,
				"must be set to 'SingleStack' when releasing the secondary clusterIP"))
		}
	case len(before) > 0:
		changed(0)
	}
	return errs
}

// familiesUpdate validates a change of IP families, as clusterIPsUpdate does for IPs.
func familiesUpdate(svc, old *corev1.Service) (errs field.ErrorList) {
	if isExternalName(svc) || isExternalName(old) || isHeadless(svc) || isHeadless(old) {
		return nil
	}
	first := field.NewPath("spec", "ipFamilies").Index(0)
	families, before := svc.Spec.IPFamilies, old.Spec.IPFamilies
	switch {
	case len(families) == len(before):
		for i := range families {
			if families[i] != before[i] {
				errs = append(errs, field.Invalid(first, families, unchangeable))
			}
		}
		return errs
	case len(families) < len(before) && len(svc.Spec.ClusterIPs) == 0:
		errs = append(errs, field.Invalid(first, families, "primary ipFamily can not be unset"))
	}
	if len(families) > 0 && len(before) > 0 && families[0] != before[0] {
		// Kube-apiserver shows the IPs here.
		errs = append(errs, field.Invalid(first, svc.Spec.ClusterIPs, unchangeable))
	}
	if len(families) < len(before) && len(families) == 1 && value(svc.Spec.IPFamilyPolicy) != corev1.IPFamilyPolicySingleStack {
		errs = append(errs, field.Invalid(field.NewPath("spec", "ipFamilyPolicy"), svc.Spec.IPFamilyPolicy,
			"must be set to 'SingleStack' when releasing the secondary ipFamily"))
	}
	return errs
}
