package lint

import (
	"math"
	"reflect"

	"espalier.dev/api"
	"espalier.dev/schema"
)

// acceptedAlike reports whether the validation of a v1 CRD certainly has the same errors in
// both semantics, without validating it. The semantics differ in which schemas are structural,
// in unions, in how they validate defaults, and in what depends on preserveUnknownFields and on
// missing schemas.
func (d *definition) acceptedAlike() bool {
	if !d.prunes() || len(d.schemas) != len(d.v1.Spec.Versions) {
		return false
	}
	if _, ok := d.meta().Annotations[api.JSONSchemaAnnotation]; ok {
		return false
	}
	for _, s := range d.schemas {
		if s.structural == nil || len(s.check(schema.KEP)) > 0 || len(s.check(schema.Kubernetes)) > 0 {
			return false
		}
		for path, part := range s.structural.All() {
			if part.XEmbeddedResource || len(part.XUnions) > 0 {
				return false
			}
			if part.Default == nil || part.Default.Value == nil {
				continue
			}
			if len(path) == 0 || schema.IsMetaField(path[0].Name) || !hasPlainDefault(part) {
				return false
			}
		}
	}
	return true
}

// hasPlainDefault reports whether the default of a schema is a scalar or an empty object that
// satisfies the schema in both semantics. It returns false for validations that it does not
// know.
func hasPlainDefault(s *schema.Structural) bool {
	v := schema.ValueValidation{}
	if s.ValueValidation != nil {
		v = *s.ValueValidation
	}
	if reflect.DeepEqual(v.AnyOf, intOrStringTypes) {
		v.AnyOf = nil
	}
	if len(v.Enum) > 0 {
		found := false
		for _, e := range v.Enum {
			found = found || reflect.DeepEqual(e.Value, s.Default.Value)
		}
		if !found {
			return false
		}
		v.Enum = nil
	}
	switch value := s.Default.Value.(type) {
	case string:
		return (s.Type == "string" || s.XIntOrString) && reflect.ValueOf(v).IsZero()
	case map[string]any:
		return s.Type == "object" && len(value) == 0 && reflect.ValueOf(v).IsZero()
	case bool:
		return s.Type == "boolean" && reflect.ValueOf(v).IsZero()
	case int64:
		if s.Type != "integer" && !s.XIntOrString || value < math.MinInt32 || value > math.MaxInt32 {
			return false
		}
		n := float64(value)
		if v.Minimum != nil && (n < *v.Minimum || n == *v.Minimum && v.ExclusiveMinimum) ||
			v.Maximum != nil && (n > *v.Maximum || n == *v.Maximum && v.ExclusiveMaximum) {
			return false
		}
		v.Minimum, v.ExclusiveMinimum, v.Maximum, v.ExclusiveMaximum = nil, false, nil, false
		if v.Format == "int32" || v.Format == "int64" {
			v.Format = ""
		}
		return reflect.ValueOf(v).IsZero()
	}
	return false
}

// intOrStringTypes are the types that int-or-string is often written with.
var intOrStringTypes = []schema.NestedValueValidation{
	{ForbiddenGenerics: schema.Generic{Type: "integer"}},
	{ForbiddenGenerics: schema.Generic{Type: "string"}},
}
