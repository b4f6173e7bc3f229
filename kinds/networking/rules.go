// Package networking has the rules of ingresses, network policies and the IP addresses of services.
package networking

import (
	v1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"espalier.dev/kinds/kind"
	"espalier.dev/kinds/rules"
)

// Rules returns the rules of the kinds of networking.k8s.io, by resource.
func Rules() map[string]kind.Rules {
	return map[string]kind.Rules{
		"ingresses": {
			Main: kind.Write{
				Prepare: kind.Change(func(obj, old *v1.Ingress) {
					obj.Status = v1.IngressStatus{}
					if old != nil {
						obj.Status = old.Status
					}
					rules.Generation(obj, old, old != nil && equality.Semantic.DeepEqual(obj.Spec, old.Spec))
				}),
				Validate: kind.Check(validateIngress),
				Warnings: kind.Warn(ingressWarnings),
				Reset:    []string{"status"},
			},
			Status: &kind.Write{
				Prepare:  kind.Change(func(obj, old *v1.Ingress) { obj.Spec = old.Spec }),
				Validate: kind.Check(validateIngressStatus),
				Warnings: kind.Warn(ingressStatusWarnings),
				Reset:    []string{"spec"},
			},
		},
		"ingressclasses": {
			Default: kind.On(defaultIngressClass),
			Main: kind.Write{
				Prepare: kind.Change(func(obj, old *v1.IngressClass) {
					rules.Generation(obj, old, old != nil && equality.Semantic.DeepEqual(obj.Spec, old.Spec))
				}),
				Validate: kind.Check(validateIngressClass),
			},
		},
		"networkpolicies": {
			Default: kind.On(defaultPolicy),
			Main: kind.Write{
				Prepare: kind.Change(func(obj, old *v1.NetworkPolicy) {
					rules.Generation(obj, old, old != nil && equalPolicies(obj, old))
				}),
				Validate: kind.Check(validatePolicy),
				Warnings: kind.Warn(policyWarnings),
			},
		},
		"ipaddresses": {
			KeepsPrefix: true,
			Main:        kind.Write{Validate: kind.Check(validateIPAddress)},
		},
		"servicecidrs": {
			Main: kind.Write{
				Prepare: kind.Change(func(obj, old *v1.ServiceCIDR) {
					obj.Status = v1.ServiceCIDRStatus{}
					if old != nil {
						obj.Status = old.Status
					}
				}),
				Validate: kind.Check(validateServiceCIDR),
				Reset:    []string{"status"},
			},
			Status: &kind.Write{
				Prepare: kind.Change(func(obj, old *v1.ServiceCIDR) {
					obj.Spec = old.Spec
					metav1.ResetObjectMetaForStatus(obj, old)
				}),
				Validate: kind.Check(validateServiceCIDRStatus),
				Reset:    []string{"metadata", "spec"},
			},
		},
	}
}
