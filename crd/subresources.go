package crd

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/api"
)

// hasStatus reports whether the status subresource is enabled.
func hasStatus(s *api.CustomResourceSubresources) bool { return s != nil && s.Status != nil }

// anyStatus reports whether some version has a status subresource.
func (s *formSpec) anyStatus() bool {
	return hasStatus(s.common.subresources) || s.hasPerVersion(func(p *formParts) bool { return hasStatus(p.subresources) })
}

// validateSubresources validates the paths of the scale subresource.
func validateSubresources(s *api.CustomResourceSubresources, path *field.Path) (errs field.ErrorList) {
	if s == nil || s.Scale == nil {
		return nil
	}
	check := func(name, value, problem string, prefixes ...string) {
		at := path.Child("scale." + name)
		if e := validateSimplePath(value, at); len(e) > 0 {
			errs = append(errs, e...)
		} else if !slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(value, p) }) {
			errs = append(errs, field.Invalid(at, value, problem))
		}
	}
	required := func(name, value, problem, prefix string) {
		if value == "" {
			errs = append(errs, field.Required(path.Child("scale."+name), ""))
			return
		}
		check(name, value, problem, prefix)
	}
	required("specReplicasPath", s.Scale.SpecReplicasPath, "should be a json path under .spec", ".spec.")
	required("statusReplicasPath", s.Scale.StatusReplicasPath, "should be a json path under .status", ".status.")
	if p := s.Scale.LabelSelectorPath; p != nil && *p != "" {
		check("labelSelectorPath", *p, "should be a json path under either .spec or .status", ".spec.", ".status.")
	}
	return errs
}
