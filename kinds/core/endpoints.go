package core

import (
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/kinds/kind"
	"espalier.dev/kinds/rules"
)

func endpoints() kind.Rules {
	return kind.Rules{
		CreateOnUpdate: true,
		Default: kind.On(func(e *corev1.Endpoints) {
			for i := range e.Subsets {
				for j := range e.Subsets[i].Ports {
					rules.SetDefault(&e.Subsets[i].Ports[j].Protocol, corev1.ProtocolTCP)
				}
			}
		}),
		Main: kind.Write{
			Validate: kind.Check(validateEndpoints),
			Warnings: kind.Warn(func(e, _ *corev1.Endpoints) []string { return endpointsWarnings(e) }),
		},
	}
}

func validateEndpoints(e, old *corev1.Endpoints) (errs field.ErrorList) {
	if old != nil {
		errs = rules.ObjectMetaUpdate(&e.ObjectMeta, &old.ObjectMeta, metadata())
	}
	errs = append(errs, rules.ObjectMeta(&e.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, metadata())...)
	var invalid field.ErrorList
	for i, subset := range e.Subsets {
		path := field.NewPath("subsets").Index(i)
		if len(subset.Addresses) == 0 && len(subset.NotReadyAddresses) == 0 {
			invalid = append(invalid, field.Required(path, "must specify `addresses` or `notReadyAddresses`"))
		}
		for j, address := range subset.Addresses {
			invalid = append(invalid, endpointAddress(address, path.Child("addresses").Index(j))...)
		}
		for j, address := range subset.NotReadyAddresses {
			invalid = append(invalid, endpointAddress(address, path.Child("notReadyAddresses").Index(j))...)
		}
		for j, port := range subset.Ports {
			invalid = append(invalid, endpointPort(port, len(subset.Ports) > 1, path.Child("ports").Index(j))...)
		}
	}
	// Stored subsets stay valid.
	if len(invalid) > 0 && old != nil && apiequality.Semantic.DeepEqual(old.Subsets, e.Subsets) {
		return errs
	}
	return append(errs, invalid...)
}

func endpointAddress(address corev1.EndpointAddress, path *field.Path) field.ErrorList {
	errs := rules.IP(address.IP, path.Child("ip"), nil)
	if address.Hostname != "" {
		errs = append(errs, rules.Label(address.Hostname, path.Child("hostname"))...)
	}
	if address.NodeName != nil {
		errs = append(errs, rules.Invalid(*address.NodeName, path.Child("nodeName"),
			apivalidation.NameIsDNSSubdomain(*address.NodeName, false))...)
	}
	return append(errs, rules.EndpointIP(address.IP, path.Child("ip"))...)
}

func endpointPort(port corev1.EndpointPort, nameRequired bool, path *field.Path) (errs field.ErrorList) {
	if port.Name != "" {
		errs = append(errs, rules.Label(port.Name, path.Child("name"))...)
	} else if nameRequired {
		errs = append(errs, field.Required(path.Child("name"), ""))
	}
	errs = append(errs, rules.Port(port.Port, path.Child("port"))...)
	errs = append(errs, rules.RequiredEnum(port.Protocol, path.Child("protocol"),
		corev1.ProtocolSCTP, corev1.ProtocolTCP, corev1.ProtocolUDP)...)
	if port.AppProtocol != nil {
		errs = append(errs, rules.QualifiedName(*port.AppProtocol, path.Child("appProtocol"))...)
	}
	return errs
}

func endpointsWarnings(e *corev1.Endpoints) (out []string) {
	if e.Labels["endpoints.kubernetes.io/managed-by"] == "endpoint-controller" {
		return nil
	}
	for i, subset := range e.Subsets {
		path := field.NewPath("subsets").Index(i)
		for j, address := range subset.Addresses {
			out = append(out, validation.GetWarningsForIP(path.Child("addresses").Index(j).Child("ip"), address.IP)...)
		}
		for j, address := range subset.NotReadyAddresses {
			out = append(out, validation.GetWarningsForIP(path.Child("notReadyAddresses").Index(j).Child("ip"), address.IP)...)
		}
	}
	return out
}
