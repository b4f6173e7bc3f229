package services

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// addressManager is the label of the IPAddresses that the allocator has created.
const addressManager = "ipallocator.k8s.io"

// NewAddress returns the IPAddress of a cluster IP of a service.
func NewAddress(ip netip.Addr, namespace, name string) *networkingv1.IPAddress {
	return &networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{Name: ip.String(), Labels: map[string]string{
			networkingv1.LabelIPAddressFamily: string(family(ip)),
			networkingv1.LabelManagedBy:       addressManager,
		}},
		Spec: networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: namespace, Name: name}},
	}
}

func family(ip netip.Addr) corev1.IPFamily {
	if ip.Is4() {
		return corev1.IPv4Protocol
	}
	return corev1.IPv6Protocol
}

// IsAllocated reports whether an IPAddress is one that the allocator has created.
func IsAllocated(a *networkingv1.IPAddress) bool {
	return a.Labels[networkingv1.LabelManagedBy] == addressManager
}

// IsLabeled reports whether an IPAddress has the labels of one that the allocator has created.
func IsLabeled(a *networkingv1.IPAddress) bool {
	ip, err := netip.ParseAddr(a.Name)
	return err == nil && IsAllocated(a) && a.Labels[networkingv1.LabelIPAddressFamily] == string(family(ip))
}

// ParentService returns the service that an IPAddress belongs to. It reports false if its parent is
// something else.
func ParentService(a *networkingv1.IPAddress) (namespace, name string, ok bool) {
	p := a.Spec.ParentRef
	if p == nil || p.Group != "" || p.Resource != "services" {
		return "", "", false
	}
	return p.Namespace, p.Name, true
}

// Prefixes returns the ranges of a ServiceCIDR, or none if IPs must not be allocated from it.
func Prefixes(c *networkingv1.ServiceCIDR) (prefixes []netip.Prefix) {
	// As in kube-apiserver, a range without a condition is ready: a controller may not run.
	ready := meta.FindStatusCondition(c.Status.Conditions, networkingv1.ServiceCIDRConditionReady)
	if c.DeletionTimestamp != nil || ready != nil && ready.Status != metav1.ConditionTrue {
		return nil
	}
	for _, text := range c.Spec.CIDRs {
		if p, err := netip.ParsePrefix(text); err == nil && !slices.Contains(prefixes, p.Masked()) {
			prefixes = append(prefixes, p.Masked())
		}
	}
	return prefixes
}
