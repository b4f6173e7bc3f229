package crd

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/api"
)

// deprecationProblems says what is wrong with the deprecation warning of a version.
func deprecationProblems(v *formVersion) (problems []string) {
	if v.deprecationWarning == nil {
		return nil
	}
	if !v.deprecated {
		return []string{"can only be set for deprecated versions"}
	}
	text := *v.deprecationWarning
	if len(text) > 256 {
		problems = append(problems, "must be <= 256 characters long")
	}
	if text == "" {
		problems = append(problems, "must not be an empty string")
	}
	for i, r := range text {
		// What is printable is no control character.
		if !unicode.IsPrint(r) {
			problems = append(problems, fmt.Sprintf("must only contain printable UTF-8 characters; non-printable character found at index %d", i))
			break
		}
	}
	if !utf8.ValidString(text) {
		problems = append(problems, "must only contain printable UTF-8 characters")
	}
	return problems
}

// validateColumns checks the columns of a table.
func validateColumns(columns []api.CustomResourceColumnDefinition, path *field.Path) (errs field.ErrorList) {
	types := []string{"boolean", "date", "integer", "number", "string"}
	formats := []string{"byte", "date", "date-time", "double", "float", "int32", "int64", "password"}
	oneOf := func(values []string) string { return "must be one of " + strings.Join(values, ",") }
	for i := range columns {
		c, at := &columns[i], path.Index(i)
		if c.Name == "" {
			errs = append(errs, field.Required(at.Child("name"), ""))
		}
		if c.Type == "" {
			errs = append(errs, field.Required(at.Child("type"), oneOf(types)))
		} else if !slices.Contains(types, c.Type) {
			errs = append(errs, field.Invalid(at.Child("type"), c.Type, oneOf(types)))
		}
		if c.Format != "" && !slices.Contains(formats, c.Format) {
			errs = append(errs, field.Invalid(at.Child("format"), c.Format, oneOf(formats)))
		}
		if c.JSONPath == "" {
			errs = append(errs, field.Required(at.Child("JSONPath"), ""))
		} else {
			errs = append(errs, validateSimplePath(c.JSONPath, at.Child("JSONPath"))...)
		}
	}
	return errs
}

// hasStatus says whether the status subresource is on.
func hasStatus(s *api.CustomResourceSubresources) bool { return s != nil && s.Status != nil }

// validateSubresources checks the paths of a scale.
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

// validateSimplePath checks a path in dot notation, which is not empty.
func validateSimplePath(s string, path *field.Path) field.ErrorList {
	if s[0] != '.' {
		return field.ErrorList{field.Invalid(path, s, "must be a simple json path starting with .")}
	}
	return nil
}
