package networking

import (
	"slices"

	v1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"espalier.dev/kinds/rules"
)

// ipAddressName checks the name of an IPAddress: the address in its canonical form.
func ipAddressName(name string, _ bool) (messages []string) {
	for _, err := range validation.IsValidIP(nil, name) {
		messages = append(messages, err.Detail)
	}
	return messages
}

func validateIPAddress(obj, old *v1.IPAddress) field.ErrorList {
	errs := rules.ObjectMeta(&obj.ObjectMeta, false, ipAddressName, field.NewPath("metadata"))
	path := field.NewPath("spec", "parentRef")
	errs = append(errs, validateParent(obj.Spec.ParentRef, path)...)
	if old != nil {
		errs = append(errs, rules.ObjectMetaUpdate(&obj.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))...)
		errs = append(errs, rules.Immutable(obj.Spec.ParentRef, old.Spec.ParentRef, path)...)
	}
	return errs
}

func validateParent(ref *v1.ParentReference, path *field.Path) (errs field.ErrorList) {
	if ref == nil {
		return field.ErrorList{field.Required(path, "")}
	}
	if ref.Group != "" {
		errs = append(errs, rules.Subdomain(ref.Group, path.Child("group"))...)
	}
	errs = append(errs, requiredSegment(ref.Resource, path.Child("resource"))...)
	errs = append(errs, requiredSegment(ref.Name, path.Child("name"))...)
	if ref.Namespace != "" {
		errs = append(errs, rules.Invalid(ref.Namespace, path.Child("namespace"), content.IsPathSegmentName(ref.Namespace))...)
	}
	return errs
}

func validateServiceCIDR(obj, old *v1.ServiceCIDR) (errs field.ErrorList) {
	path := field.NewPath("spec", "cidrs")
	if old == nil {
		errs = rules.ObjectMeta(&obj.ObjectMeta, false, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
		return append(errs, validateCIDRs(obj.Spec, path)...)
	}
	errs = rules.ObjectMetaUpdate(&obj.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	now, before := obj.Spec.CIDRs, old.Spec.CIDRs
	single := len(before) == 1 && len(now) == 2
	if len(now) != len(before) && !single {
		return append(errs, field.Invalid(path, now, apivalidation.FieldImmutableErrorMsg))
	}
	for i, cidr := range before {
		errs = append(errs, rules.Immutable(now[i], cidr, path.Index(i))...)
	}
	if single {
		// A range of the other IP family may be added.
		errs = append(errs, validateCIDRs(obj.Spec, path)...)
	}
	return errs
}

func validateCIDRs(spec v1.ServiceCIDRSpec, path *field.Path) (errs field.ErrorList) {
	switch {
	case len(spec.CIDRs) == 0:
		return field.ErrorList{field.Required(path, "at least one CIDR required")}
	case len(spec.CIDRs) > 2:
		return field.ErrorList{field.Invalid(path, rules.Internal(spec), "may only hold up to 2 values")}
	}
	var families []netutils.IPFamily
	for i, cidr := range spec.CIDRs {
		errs = append(errs, validation.IsValidCIDR(path.Index(i), cidr)...)
		family := netutils.IPFamilyOfCIDRString(cidr)
		if family != netutils.IPFamilyUnknown && slices.Contains(families, family) {
			errs = append(errs, field.Invalid(path, spec.CIDRs,
				"may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"))
		}
		families = append(families, family)
	}
	return errs
}

func validateServiceCIDRStatus(obj, old *v1.ServiceCIDR) field.ErrorList {
	return rules.ObjectMetaUpdate(&obj.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
}
