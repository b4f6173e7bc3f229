package services

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// DefaultOnRead sets the fields of a stored service that an older version of Kubernetes did not
// know.
func (a *Allocator) DefaultOnRead(svc *corev1.Service) {
	spec := &svc.Spec
	syncClusterIPs(svc, nil)
	if isExternalName(svc) {
		spec.InternalTrafficPolicy = nil
		return
	}
	if len(spec.IPFamilies) > 0 {
		return
	}
	switch {
	case spec.ClusterIP == corev1.ClusterIPNone && len(spec.Selector) == 0:
		spec.IPFamilyPolicy = new(corev1.IPFamilyPolicyRequireDualStack)
		spec.IPFamilies = []corev1.IPFamily{a.families[0], other(a.families[0])}
	case spec.ClusterIP == corev1.ClusterIPNone:
		spec.IPFamilyPolicy = new(corev1.IPFamilyPolicySingleStack)
		spec.IPFamilies = []corev1.IPFamily{a.families[0]}
	default:
		spec.IPFamilies = []corev1.IPFamily{}
		for _, ip := range spec.ClusterIPs {
			spec.IPFamilies = append(spec.IPFamilies, familyOf(ip))
		}
		switch len(spec.IPFamilies) {
		case 1:
			spec.IPFamilyPolicy = new(corev1.IPFamilyPolicySingleStack)
		case 2:
			spec.IPFamilyPolicy = new(corev1.IPFamilyPolicyRequireDualStack)
		}
	}
}

func other(family corev1.IPFamily) corev1.IPFamily {
	if family == corev1.IPv4Protocol {
		return corev1.IPv6Protocol
	}
	return corev1.IPv4Protocol
}

// syncClusterIPs sets clusterIPs for clients that only know clusterIP.
func syncClusterIPs(svc, old *corev1.Service) {
	spec := &svc.Spec
	if old == nil {
		if spec.ClusterIP != "" && len(spec.ClusterIPs) == 0 {
			spec.ClusterIPs = []string{spec.ClusterIP}
		}
		return
	}
	before := &old.Spec
	if len(before.ClusterIPs) > 0 && len(spec.ClusterIPs) == 0 && before.ClusterIP == spec.ClusterIP {
		spec.ClusterIPs = slices.Clone(before.ClusterIPs)
	}
	if before.ClusterIP == spec.ClusterIP || !slices.Equal(before.ClusterIPs, spec.ClusterIPs) {
		return
	}
	if before.ClusterIP != "" && spec.ClusterIP == "" {
		spec.ClusterIPs = nil
	} else {
		spec.ClusterIPs = []string{spec.ClusterIP}
	}
}

// unchangedDualStack reports whether a service that prefers two families keeps what it has. It
// is not changed when the server's families change.
func unchangedDualStack(svc, old *corev1.Service) bool {
	for _, s := range []*corev1.Service{svc, old} {
		if policy := s.Spec.IPFamilyPolicy; policy != nil && *policy != corev1.IPFamilyPolicyPreferDualStack {
			return false
		}
	}
	return slices.Equal(svc.Spec.ClusterIPs, old.Spec.ClusterIPs) && slices.Equal(svc.Spec.IPFamilies, old.Spec.IPFamilies)
}

// initFamilies sets ipFamilyPolicy and ipFamilies, and validates that the server has the
// families.
func (a *Allocator) initFamilies(svc, old *corev1.Service) (errs field.ErrorList) {
	spec := &svc.Spec
	if isExternalName(svc) || old != nil && unchangedDualStack(svc, old) {
		return nil
	}
	headless := spec.ClusterIP == corev1.ClusterIPNone && len(spec.Selector) == 0
	if spec.IPFamilyPolicy == nil {
		switch {
		case old != nil && old.Spec.IPFamilyPolicy != nil:
			spec.IPFamilyPolicy = new(*old.Spec.IPFamilyPolicy)
		case headless:
			spec.IPFamilyPolicy = new(corev1.IPFamilyPolicyRequireDualStack)
		default:
			spec.IPFamilyPolicy = new(corev1.IPFamilyPolicySingleStack)
		}
	}
	if errs := clusterIPs(svc, old); len(errs) > 0 {
		return errs
	}
	errs = append(a.changeFamilies(svc, old), a.inferFamilies(svc)...)
	if len(errs) > 0 {
		return errs
	}
	single := *spec.IPFamilyPolicy == corev1.IPFamilyPolicySingleStack
	if !headless {
		// Endpoints of headless services without a selector may have any family.
		if *spec.IPFamilyPolicy == corev1.IPFamilyPolicyRequireDualStack && len(a.families) < 2 {
			errs = append(errs, field.Invalid(field.NewPath("spec", "ipFamilyPolicy"), spec.IPFamilyPolicy,
				"this cluster is not configured for dual-stack services"))
		}
		for i, family := range spec.IPFamilies {
			if !slices.Contains(a.families, family) {
				errs = append(errs, field.Invalid(field.NewPath("spec", "ipFamilies").Index(i), family, "not configured on this cluster"))
			}
		}
		if len(errs) > 0 {
			return errs
		}
	}
	if len(spec.IPFamilies) == 0 {
		spec.IPFamilies = []corev1.IPFamily{a.families[0]}
	}
	if !single && len(spec.IPFamilies) == 1 && (headless || len(a.families) == 2) {
		spec.IPFamilies = append(slices.Clone(spec.IPFamilies), other(spec.IPFamilies[0]))
	}
	return nil
}

// changeFamilies drops the second IP and family of a service that has become single-stack, and
// rejects policies that do not fit the numbers of IPs and families.
func (a *Allocator) changeFamilies(svc, old *corev1.Service) (errs field.ErrorList) {
	spec := &svc.Spec
	reject := func(message string) {
		errs = append(errs, field.Invalid(field.NewPath("spec", "ipFamilyPolicy"), spec.IPFamilyPolicy, message))
	}
	single := *spec.IPFamilyPolicy == corev1.IPFamilyPolicySingleStack
	switch {
	case old != nil && single:
		if slices.Equal(old.Spec.ClusterIPs, spec.ClusterIPs) && len(spec.ClusterIPs) > 1 {
			spec.ClusterIPs = spec.ClusterIPs[:1]
		}
		if slices.Equal(old.Spec.IPFamilies, spec.IPFamilies) && len(spec.IPFamilies) > 1 {
			spec.IPFamilies = spec.IPFamilies[:1]
		}
	case old != nil:
		if n := len(spec.ClusterIPs); n > 0 && n < len(old.Spec.ClusterIPs) {
			reject("must be 'SingleStack' to release the secondary cluster IP")
		}
		if n := len(spec.IPFamilies); n > 0 && n < len(old.Spec.IPFamilies) {
			reject("must be 'SingleStack' to release the secondary IP family")
		}
	}
	if single && len(spec.ClusterIPs) == 2 {
		reject("must be 'RequireDualStack' or 'PreferDualStack' when multiple cluster IPs are specified")
	}
	if single && len(spec.IPFamilies) == 2 {
		reject("must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified")
	}
	return errs
}

// inferFamilies adds the families of requested IPs.
func (a *Allocator) inferFamilies(svc *corev1.Service) (errs field.ErrorList) {
	spec := &svc.Spec
	for i, ip := range spec.ClusterIPs {
		if ip == corev1.ClusterIPNone {
			break
		}
		if i < len(spec.IPFamilies) {
			continue
		}
		if family := familyOf(ip); slices.Contains(a.families, family) {
			spec.IPFamilies = append(slices.Clone(spec.IPFamilies), family)
		} else {
			errs = append(errs, field.Invalid(field.NewPath("spec", "clusterIPs").Index(i), spec.ClusterIPs,
				fmt.Sprintf("%s is not configured on this cluster", family)))
		}
	}
	return errs
}
