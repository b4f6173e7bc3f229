package networking

import (
	"reflect"

	corev1 "k8s.io/api/core/v1"
	v1 "k8s.io/api/networking/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"espalier.dev/kinds/rules"
)

func defaultPolicy(p *v1.NetworkPolicy) {
	if len(p.Spec.PolicyTypes) == 0 {
		p.Spec.PolicyTypes = []v1.PolicyType{v1.PolicyTypeIngress}
		if len(p.Spec.Egress) > 0 {
			p.Spec.PolicyTypes = append(p.Spec.PolicyTypes, v1.PolicyTypeEgress)
		}
	}
	for i := range p.Spec.Ingress {
		defaultProtocols(p.Spec.Ingress[i].Ports)
	}
	for i := range p.Spec.Egress {
		defaultProtocols(p.Spec.Egress[i].Ports)
	}
}

func defaultProtocols(ports []v1.NetworkPolicyPort) {
	for i := range ports {
		rules.SetDefaultPointer(&ports[i].Protocol, corev1.ProtocolTCP)
	}
}

// equalPolicies reports whether the rules of policies are equal. In contrast to other kinds, an
// empty list is not equal to none.
func equalPolicies(a, b *v1.NetworkPolicy) bool { return reflect.DeepEqual(a.Spec, b.Spec) }

// block is an IP block of a policy and its path.
type block struct {
	*v1.IPBlock
	path *field.Path
}

// blocks returns all IP blocks of a policy.
func blocks(p *v1.NetworkPolicy) (found []block) {
	add := func(peers []v1.NetworkPolicyPeer, path *field.Path) {
		for i, peer := range peers {
			if peer.IPBlock != nil {
				found = append(found, block{peer.IPBlock, path.Index(i).Child("ipBlock")})
			}
		}
	}
	for i, r := range p.Spec.Ingress {
		add(r.From, field.NewPath("spec", "ingress").Index(i).Child("from"))
	}
	for i, r := range p.Spec.Egress {
		add(r.To, field.NewPath("spec", "egress").Index(i).Child("to"))
	}
	return found
}

func policyWarnings(obj, _ *v1.NetworkPolicy) (warnings []string) {
	for _, b := range blocks(obj) {
		warnings = append(warnings, validation.GetWarningsForCIDR(b.path.Child("cidr"), b.CIDR)...)
		for i, except := range b.Except {
			warnings = append(warnings, validation.GetWarningsForCIDR(b.path.Child("except").Index(i), except)...)
		}
	}
	return warnings
}

func validatePolicy(obj, old *v1.NetworkPolicy) (errs field.ErrorList) {
	meta, path := field.NewPath("metadata"), field.NewPath("spec")
	var c policyCheck
	if old == nil {
		errs = rules.ObjectMeta(&obj.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, meta)
	} else {
		errs = rules.ObjectMetaUpdate(&obj.ObjectMeta, &old.ObjectMeta, meta)
		c.options.AllowInvalidLabelValueInSelector = len(metavalidation.ValidateLabelSelector(&old.Spec.PodSelector, c.options, nil)) > 0
		for _, b := range blocks(old) {
			c.cidrs = append(append(c.cidrs, b.CIDR), b.Except...)
		}
	}
	errs = append(errs, metavalidation.ValidateLabelSelector(&obj.Spec.PodSelector, c.options, path.Child("podSelector"))...)
	for i, r := range obj.Spec.Ingress {
		path := path.Child("ingress").Index(i)
		errs = append(errs, validatePorts(r.Ports, path.Child("ports"))...)
		errs = append(errs, c.peers(r.From, path.Child("from"))...)
	}
	for i, r := range obj.Spec.Egress {
		path := path.Child("egress").Index(i)
		errs = append(errs, validatePorts(r.Ports, path.Child("ports"))...)
		errs = append(errs, c.peers(r.To, path.Child("to"))...)
	}
	types := path.Child("policyTypes")
	if len(obj.Spec.PolicyTypes) > 2 {
		return append(errs, field.Invalid(types, obj.Spec.PolicyTypes, "may not specify more than two policyTypes"))
	}
	for i, t := range obj.Spec.PolicyTypes {
		errs = append(errs, rules.Enum(t, types.Index(i), v1.PolicyTypeIngress, v1.PolicyTypeEgress)...)
	}
	return errs
}

func validatePorts(ports []v1.NetworkPolicyPort, path *field.Path) (errs field.ErrorList) {
	for i, p := range ports {
		path := path.Index(i)
		if p.Protocol != nil {
			errs = append(errs, rules.Enum(*p.Protocol, path.Child("protocol"), corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP)...)
		}
		end := path.Child("endPort")
		switch {
		case p.Port == nil:
			if p.EndPort != nil {
				errs = append(errs, field.Invalid(end, *p.EndPort, "may not be specified when `port` is not specified"))
			}
		case p.Port.Type == intstr.Int:
			errs = append(errs, rules.Port(p.Port.IntVal, path.Child("port"))...)
			if p.EndPort != nil {
				if *p.EndPort < p.Port.IntVal {
					errs = append(errs, field.Invalid(end, p.Port.IntVal, "must be greater than or equal to `port`"))
				}
				errs = append(errs, rules.Port(*p.EndPort, end)...)
			}
		default:
			if p.EndPort != nil {
				errs = append(errs, field.Invalid(end, *p.EndPort, "may not be specified when `port` is non-numeric"))
			}
			errs = append(errs, rules.Invalid(p.Port.StrVal, path.Child("port"), validation.IsValidPortName(p.Port.StrVal))...)
		}
	}
	return errs
}

// policyCheck checks peers. It tolerates what the stored policy has.
type policyCheck struct {
	options metavalidation.LabelSelectorValidationOptions
	cidrs   []string
}

func (c policyCheck) peers(peers []v1.NetworkPolicyPeer, path *field.Path) (errs field.ErrorList) {
	for i, p := range peers {
		path := path.Index(i)
		errs = append(errs, metavalidation.ValidateLabelSelector(p.PodSelector, c.options, path.Child("podSelector"))...)
		errs = append(errs, metavalidation.ValidateLabelSelector(p.NamespaceSelector, c.options, path.Child("namespaceSelector"))...)
		if p.IPBlock != nil {
			errs = append(errs, c.ipBlock(*p.IPBlock, path.Child("ipBlock"))...)
		}
		selects := p.PodSelector != nil || p.NamespaceSelector != nil
		switch {
		case !selects && p.IPBlock == nil:
			errs = append(errs, field.Required(path, "must specify a peer"))
		case selects && p.IPBlock != nil:
			errs = append(errs, field.Forbidden(path, "may not specify both ipBlock and another peer"))
		}
	}
	return errs
}

func (c policyCheck) ipBlock(b v1.IPBlock, path *field.Path) field.ErrorList {
	if b.CIDR == "" {
		return field.ErrorList{field.Required(path.Child("cidr"), "")}
	}
	errs := rules.CIDR(b.CIDR, path.Child("cidr"), c.cidrs)
	_, outer, err := netutils.ParseCIDRSloppy(b.CIDR)
	if err != nil {
		return errs
	}
	for i, text := range b.Except {
		path := path.Child("except").Index(i)
		errs = append(errs, rules.CIDR(text, path, c.cidrs)...)
		_, except, err := netutils.ParseCIDRSloppy(text)
		if err != nil {
			continue
		}
		outerSize, _ := outer.Mask.Size()
		size, _ := except.Mask.Size()
		if !outer.Contains(except.IP) || outerSize >= size {
			errs = append(errs, field.Invalid(path, text, "must be a strict subset of `cidr`"))
		}
	}
	return errs
}
