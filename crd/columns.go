package crd

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/api"
)

// validateColumns validates the printer columns.
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

// validateSimplePath validates a non-empty path in dot notation.
func validateSimplePath(s string, path *field.Path) field.ErrorList {
	if s[0] != '.' {
		return field.ErrorList{field.Invalid(path, s, "must be a simple json path starting with .")}
	}
	return nil
}
