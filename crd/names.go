package crd

import (
	"strings"

	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/api"
)

// validateNames checks names as far as they are there.
func validateNames(n *api.CustomResourceDefinitionNames, path *field.Path) (errs field.ErrorList) {
	label := func(name, value string) {
		if problems := utilvalidation.IsDNS1035Label(value); value != "" && len(problems) > 0 {
			errs = append(errs, field.Invalid(path.Child(name), value, strings.Join(problems, ",")))
		}
	}
	kind := func(name, value string) {
		if problems := utilvalidation.IsDNS1035Label(strings.ToLower(value)); value != "" && len(problems) > 0 {
			errs = append(errs, field.Invalid(path.Child(name), value, "may have mixed case, but should otherwise match: "+strings.Join(problems, ",")))
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
