package columns

import (
	"strconv"
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
)

func ingressColumns() []column {
	return []column{
		name(),
		text("Class", "The name of the IngressClass resource that should be used for additional configuration",
			func(i *networkingv1.Ingress) any {
				return orElse(i.Spec.IngressClassName, none)
			}),
		text("Hosts", "Hosts that incoming requests are matched against before the ingress rule", func(i *networkingv1.Ingress) any {
			return hosts(i.Spec.Rules)
		}),
		text("Address", "Address is a list containing ingress points for the load-balancer", func(i *networkingv1.Ingress) any {
			return strings.Join(balancers(i.Status.LoadBalancer.Ingress, func(i networkingv1.IngressLoadBalancerIngress) (string, string) {
				return i.IP, i.Hostname
			}), ",")
		}),
		text("Ports", "Ports of TLS configurations that open", func(i *networkingv1.Ingress) any {
			if len(i.Spec.TLS) == 0 {
				return "80"
			}
			return "80, 443"
		}),
		age(),
	}
}

// hosts returns the first hosts of rules. The number of the others counts rules without a host
// too.
func hosts(rules []networkingv1.IngressRule) string {
	const limit = 3
	var out []string
	for _, r := range rules {
		if len(out) == limit {
			return few(out, ",", limit, len(rules))
		}
		if r.Host != "" {
			out = append(out, r.Host)
		}
	}
	return or(strings.Join(out, ","), "*")
}

func ingressClassColumns() []column {
	return []column{
		nameWith(marked(networkingv1.AnnotationIsDefaultIngressClass)),
		text("Controller", "Controller that is responsible for handling this class",
			func(c *networkingv1.IngressClass) any { return c.Spec.Controller }),
		text("Parameters", "A reference to a resource with additional parameters", func(c *networkingv1.IngressClass) any {
			p := c.Spec.Parameters
			switch {
			case p == nil:
				return none
			case p.APIGroup == nil:
				return p.Kind + "/" + p.Name
			}
			return p.Kind + "." + *p.APIGroup + "/" + p.Name
		}),
		age(),
	}
}

func networkPolicyColumns() []column {
	return []column{
		name(),
		text("Pod-Selector", networkingv1.NetworkPolicySpec{}.SwaggerDoc()["podSelector"], func(p *networkingv1.NetworkPolicy) any {
			return metav1.FormatLabelSelector(&p.Spec.PodSelector)
		}),
		age(),
	}
}

func serviceCIDRColumns() []column {
	return []column{
		name(),
		text("CIDRs", networkingv1.ServiceCIDRSpec{}.SwaggerDoc()["cidrs"],
			func(c *networkingv1.ServiceCIDR) any { return strings.Join(c.Spec.CIDRs, ",") }),
		age(),
	}
}

func ipAddressColumns() []column {
	return []column{
		name(),
		text("ParentRef", networkingv1.IPAddressSpec{}.SwaggerDoc()["parentRef"], func(a *networkingv1.IPAddress) any {
			p := a.Spec.ParentRef
			if p == nil {
				return none
			}
			path := []string{strings.ToLower(runtimeschema.GroupResource{Group: p.Group, Resource: p.Resource}.String())}
			if p.Namespace != "" {
				path = append(path, p.Namespace)
			}
			return strings.Join(append(path, p.Name), "/")
		}),
	}
}

func endpointSliceColumns() []column {
	const limit = 3
	doc := discoveryv1.EndpointSlice{}.SwaggerDoc()
	return []column{
		name(),
		text("AddressType", doc["addressType"], func(s *discoveryv1.EndpointSlice) any { return string(s.AddressType) }),
		text("Ports", doc["ports"], func(s *discoveryv1.EndpointSlice) any {
			ports := make([]string, len(s.Ports))
			for i, p := range s.Ports {
				if ports[i] = orElse(p.Name, "*"); p.Port != nil {
					ports[i] = strconv.Itoa(int(*p.Port))
				}
			}
			return or(few(ports, ",", limit, len(ports)), unset)
		}),
		text("Endpoints", doc["endpoints"], func(s *discoveryv1.EndpointSlice) any {
			var addresses []string
			for _, e := range s.Endpoints {
				addresses = append(addresses, e.Addresses...)
			}
			return or(few(addresses, ",", limit, len(addresses)), unset)
		}),
		age(),
	}
}
