package crd

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/api"
)

// nameIn returns the function that validates the name of a CRD, which its spec
// determines.
func nameIn(spec *formSpec) validation.ValidateNameFunc {
	return func(name string, prefix bool) []string {
		problems := validation.NameIsDNSSubdomain(name, prefix)
		if name != spec.names.Plural+"."+spec.group {
			problems = append(problems, `must be spec.names.plural+"."+spec.group`)
		}
		return problems
	}
}

// validateGroup validates the API group.
func validateGroup(group string, path *field.Path) field.ErrorList {
	if group == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	if problems := utilvalidation.IsDNS1123Subdomain(group); len(problems) > 0 {
		return field.ErrorList{field.Invalid(path, group, strings.Join(problems, ","))}
	}
	if !strings.Contains(group, ".") {
		return field.ErrorList{field.Invalid(path, group, "should be a domain with at least one dot")}
	}
	return nil
}

// validateScope validates the scope of the resource.
func validateScope(scope api.ResourceScope, path *field.Path) field.ErrorList {
	return validateEnum(path, string(scope), string(api.ClusterScoped), string(api.NamespaceScoped))
}

// validateRequiredNames checks that the required names are set.
func validateRequiredNames(n *api.CustomResourceDefinitionNames, path *field.Path) (errs field.ErrorList) {
	for _, required := range [...]struct{ name, value string }{
		{"plural", n.Plural}, {"singular", n.Singular}, {"kind", n.Kind}, {"listKind", n.ListKind},
	} {
		if required.value == "" {
			errs = append(errs, field.Required(path.Child(required.name), ""))
		}
	}
	return errs
}

// validateNames validates the names that are set.
func validateNames(n *api.CustomResourceDefinitionNames, path *field.Path) (errs field.ErrorList) {
	label := func(name, value string) {
		if problems := utilvalidation.IsDNS1035Label(value); value != "" && len(problems) > 0 {
			errs = append(errs, field.Invalid(path.Child(name), value, strings.Join(problems, ",")))
		}
	}
	kind := func(name, value string) {
		if problems := utilvalidation.IsDNS1035Label(strings.ToLower(value)); value != "" && len(problems) > 0 {
			errs = append(errs, field.Invalid(path.Child(name), value,
				"may have mixed case, but should otherwise match: "+strings.Join(problems, ",")))
		}
	}
	labels := func(name string, values []string) {
		for i, value := range values {
			if problems := utilvalidation.IsDNS1035Label(value); len(problems) > 0 {
				errs = append(errs, field.Invalid(path.Child(name).Index(i), value, strings.Join(problems, ",")))
			}
		}
	}
	label("plural", n.Plural)
	label("singular", n.Singular)
	kind("kind", n.Kind)
	kind("listKind", n.ListKind)
	labels("shortNames", n.ShortNames)
	if n.Kind != "" && n.Kind == n.ListKind {
		errs = append(errs, field.Invalid(path.Child("listKind"), n.ListKind, "kind and listKind may not be the same"))
	}
	labels("categories", n.Categories)
	return errs
}
