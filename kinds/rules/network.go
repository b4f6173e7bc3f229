package rules

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"
)

// Port validates the number of a port.
func Port(port int32, path *field.Path) field.ErrorList {
	return Invalid(port, path, validation.IsValidPortNum(int(port)))
}

// PortOrName validates the number or the name of a port.
func PortOrName(port intstr.IntOrString, path *field.Path) field.ErrorList {
	switch port.Type {
	case intstr.Int:
		return Invalid(port.IntValue(), path, validation.IsValidPortNum(port.IntValue()))
	case intstr.String:
		return Invalid(port.StrVal, path, validation.IsValidPortName(port.StrVal))
	default:
		return field.ErrorList{field.InternalError(path, fmt.Errorf("unknown type: %v", port.Type))}
	}
}

// IP validates an IP address. Existing values are valid, even if they have a form that is no
// longer accepted.
func IP(ip string, path *field.Path, existing []string) field.ErrorList {
	return validation.IsValidIPForLegacyField(path, ip, true, existing)
}

// CIDR validates a range of IP addresses. Existing values are valid.
func CIDR(cidr string, path *field.Path, existing []string) field.ErrorList {
	return validation.IsValidCIDRForLegacyField(path, cidr, true, existing)
}

// EndpointIP validates that traffic can be sent to an IP address.
func EndpointIP(address string, path *field.Path) (errs field.ErrorList) {
	ip := netutils.ParseIPSloppy(address)
	if ip == nil {
		return field.ErrorList{field.Invalid(path, address, "must be a valid IP address")}
	}
	for _, unusable := range []struct {
		is      bool
		message string
	}{
		{ip.IsUnspecified(), fmt.Sprintf("may not be unspecified (%v)", address)},
		{ip.IsLoopback(), "may not be in the loopback range (127.0.0.0/8, ::1/128)"},
		{ip.IsLinkLocalUnicast(), "may not be in the link-local range (169.254.0.0/16, fe80::/10)"},
		{ip.IsLinkLocalMulticast(), "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"},
	} {
		if unusable.is {
			errs = append(errs, field.Invalid(path, address, unusable.message))
		}
	}
	return errs
}
