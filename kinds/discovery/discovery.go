// Package discovery has the rules of the kinds of the group discovery.k8s.io.
package discovery

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"espalier.dev/kinds/kind"
	"espalier.dev/kinds/rules"
)

const (
	maxEndpoints = 1000
	maxAddresses = 100
	maxPorts     = 20000
	maxTopology  = 16
	maxHints     = 8
)

// Rules returns the rules of the kinds by the plural names of their resources.
func Rules() map[string]kind.Rules {
	return map[string]kind.Rules{"endpointslices": {
		Default: kind.On(func(s *discoveryv1.EndpointSlice) {
			for i := range s.Ports {
				rules.SetDefaultPointer(&s.Ports[i].Name, "")
				rules.SetDefaultPointer(&s.Ports[i].Protocol, corev1.ProtocolTCP)
			}
		}),
		Main: kind.Write{
			Prepare:  kind.Change(prepare),
			Validate: kind.Check(validate),
			Warnings: kind.Warn(warnings),
		},
	}}
}

func prepare(s, old *discoveryv1.EndpointSlice) {
	if old == nil {
		s.Generation = 1
		dropTopology(s, nil)
		return
	}
	if !sameContent(s, old) || !apiequality.Semantic.DeepEqual(s.Labels, old.Labels) {
		s.Generation = old.Generation + 1
	}
	if !apiequality.Semantic.DeepEqual(s.Endpoints, old.Endpoints) {
		dropTopology(s, old.Endpoints)
	}
}

// sameContent reports whether two slices are equal but for their metadata.
func sameContent(s, old *discoveryv1.EndpointSlice) bool {
	a, b := *s, *old
	a.ObjectMeta, b.ObjectMeta = metav1.ObjectMeta{}, metav1.ObjectMeta{}
	a.TypeMeta, b.TypeMeta = metav1.TypeMeta{}, metav1.TypeMeta{}
	return apiequality.Semantic.DeepEqual(&a, &b)
}

// dropTopology drops the deprecated topology. The name of the node in it is kept, if the stored
// slice has it there.
func dropTopology(s *discoveryv1.EndpointSlice, old []discoveryv1.Endpoint) {
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		name := e.DeprecatedTopology[corev1.LabelHostname]
		known := name != "" && slices.ContainsFunc(old,
			func(o discoveryv1.Endpoint) bool { return o.DeprecatedTopology[corev1.LabelHostname] == name })
		if e.NodeName == nil && known && len(apivalidation.NameIsDNSSubdomain(name, false)) == 0 {
			e.NodeName = &name
		}
		e.DeprecatedTopology = nil
	}
}

func validate(s, old *discoveryv1.EndpointSlice) field.ErrorList {
	kindPath := field.NewPath("addressType")
	errs := rules.ObjectMeta(&s.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	errs = append(errs, rules.RequiredEnum(s.AddressType, kindPath, discoveryv1.AddressTypeFQDN,
		discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6)...)
	errs = append(errs, validatePorts(s.Ports, field.NewPath("ports"))...)
	invalid := validateEndpoints(s.Endpoints, s.AddressType, field.NewPath("endpoints"))
	// Stored endpoints stay valid.
	if len(invalid) > 0 && (old == nil || !apiequality.Semantic.DeepEqual(old.Endpoints, s.Endpoints)) {
		errs = append(errs, invalid...)
	}
	if old != nil {
		errs = append(errs, rules.Immutable(s.AddressType, old.AddressType, kindPath)...)
	}
	return errs
}

func validatePorts(ports []discoveryv1.EndpointPort, path *field.Path) (errs field.ErrorList) {
	if len(ports) > maxPorts {
		return field.ErrorList{field.TooMany(path, len(ports), maxPorts)}
	}
	names := map[string]bool{}
	for i, port := range ports {
		at, name := path.Index(i), *port.Name
		if name != "" {
			errs = append(errs, rules.Label(name, at.Child("name"))...)
		}
		if names[name] {
			errs = append(errs, field.Duplicate(at.Child("name"), name))
		}
		names[name] = true
		if port.Protocol == nil {
			errs = append(errs, field.Required(at.Child("protocol"), ""))
		} else {
			errs = append(errs, rules.Enum(*port.Protocol, at.Child("protocol"),
				corev1.ProtocolSCTP, corev1.ProtocolTCP, corev1.ProtocolUDP)...)
		}
		if port.AppProtocol != nil {
			errs = append(errs, rules.QualifiedName(*port.AppProtocol, at.Child("appProtocol"))...)
		}
	}
	return errs
}

func validateEndpoints(list []discoveryv1.Endpoint, addressType discoveryv1.AddressType, path *field.Path) (errs field.ErrorList) {
	if len(list) > maxEndpoints {
		return field.ErrorList{field.TooMany(path, len(list), maxEndpoints)}
	}
	for i, e := range list {
		at := path.Index(i)
		addresses, topology := at.Child("addresses"), at.Child("deprecatedTopology")
		if len(e.Addresses) == 0 {
			errs = append(errs, field.Required(addresses, "must contain at least 1 address"))
		} else if len(e.Addresses) > maxAddresses {
			errs = append(errs, field.TooMany(addresses, len(e.Addresses), maxAddresses))
		}
		for j, address := range e.Addresses {
			errs = append(errs, validateAddress(address, addressType, addresses, addresses.Index(j))...)
		}
		if e.NodeName != nil {
			errs = append(errs, rules.Invalid(*e.NodeName, at.Child("nodeName"), apivalidation.NameIsDNSSubdomain(*e.NodeName, false))...)
		}
		if len(e.DeprecatedTopology) > maxTopology {
			errs = append(errs, field.TooMany(topology, len(e.DeprecatedTopology), maxTopology))
		}
		errs = append(errs, metav1validation.ValidateLabels(e.DeprecatedTopology, topology)...)
		if e.Hostname != nil {
			errs = append(errs, rules.Label(*e.Hostname, at.Child("hostname"))...)
		}
		if e.Hints != nil {
			errs = append(errs, validateHints(e.Hints, at.Child("hints"))...)
		}
	}
	return errs
}

// validateAddress validates an address of a known type. Kube-apiserver reports the wrong family
// for the list, and not for the address.
func validateAddress(address string, addressType discoveryv1.AddressType, list, path *field.Path) (errs field.ErrorList) {
	switch addressType {
	case discoveryv1.AddressTypeFQDN:
		return validation.IsFullyQualifiedDomainName(path, address)
	case discoveryv1.AddressTypeIPv4:
		if errs := rules.IP(address, path, nil); len(errs) > 0 {
			return errs
		}
		if !netutils.IsIPv4String(address) {
			errs = append(errs, field.Invalid(list, address, "must be an IPv4 address"))
		}
	case discoveryv1.AddressTypeIPv6:
		if errs := validation.IsValidIP(path, address); len(errs) > 0 {
			return errs
		}
		if !netutils.IsIPv6String(address) {
			errs = append(errs, field.Invalid(list, address, "must be an IPv6 address"))
		}
	default:
		return nil
	}
	return append(errs, rules.EndpointIP(address, path)...)
}

func validateHints(hints *discoveryv1.EndpointHints, path *field.Path) (errs field.ErrorList) {
	zones, nodes := path.Child("forZones"), path.Child("forNodes")
	if len(hints.ForZones) > maxHints {
		return field.ErrorList{field.TooMany(zones, len(hints.ForZones), maxHints)}
	}
	for i, zone := range hints.ForZones {
		at := zones.Index(i).Child("name")
		if slices.Contains(hints.ForZones[:i], zone) {
			errs = append(errs, field.Duplicate(at, zone.Name))
		}
		errs = append(errs, rules.Invalid(zone.Name, at, validation.IsValidLabelValue(zone.Name))...)
	}
	if len(hints.ForNodes) > maxHints {
		return append(errs, field.TooMany(nodes, len(hints.ForNodes), maxHints))
	}
	for i, node := range hints.ForNodes {
		at := nodes.Index(i).Child("name")
		if slices.Contains(hints.ForNodes[:i], node) {
			errs = append(errs, field.Duplicate(at, node.Name))
		}
		errs = append(errs, rules.Invalid(node.Name, at, apivalidation.NameIsDNSSubdomain(node.Name, false))...)
	}
	return errs
}

func warnings(s, old *discoveryv1.EndpointSlice) (out []string) {
	if old == nil && s.AddressType == discoveryv1.AddressTypeFQDN {
		out = append(out, "spec.addressType: FQDN endpoints are deprecated")
	}
	switch s.Labels[discoveryv1.LabelManagedBy] {
	case "endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io":
		return out
	}
	for i, e := range s.Endpoints {
		for j, address := range e.Addresses {
			if netutils.ParseIPSloppy(address) != nil {
				out = append(out, validation.GetWarningsForIP(field.NewPath("endpoints").Index(i).Child("addresses").Index(j), address)...)
			}
		}
	}
	return out
}
