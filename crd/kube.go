package crd

import (
	"encoding/json"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	openapierrors "k8s.io/kube-openapi/pkg/validation/errors"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"

	"espalier.dev/internal/rx"
	"espalier.dev/schema"
)

// kubeErrors validates a default with the library that kube-apiserver uses, because
// kube-apiserver validates defaults differently from objects: unknown formats affect
// the type, int-or-string is ignored, and so is additionalProperties under logical
// operators.
func kubeErrors(s *schema.Structural, v any, at *field.Path) (errs field.ErrorList) {
	result := validate.NewSchemaValidator(openAPISchema(s), nil, "", strfmt.Default).Validate(v)
	for _, err := range result.Errors {
		bad, ok := err.(*openapierrors.Validation)
		if !ok {
			errs = append(errs, field.Invalid(at, "", err.Error()))
			continue
		}
		path := at
		if bad.Name != "" && bad.Name != "." {
			path = at.Child(strings.TrimPrefix(bad.Name, "."))
		}
		value := bad.Value
		if value == nil {
			value = ""
		}
		count := func(n any) int {
			i, _ := n.(int64)
			return int(i)
		}
		switch bad.Code() {
		case openapierrors.RequiredFailCode:
			errs = append(errs, field.Required(path, ""))
		case openapierrors.EnumFailCode:
			errs = append(errs, field.NotSupported(path, bad.Value, texts(bad.Values)))
		case openapierrors.TooLongFailCode:
			errs = append(errs, field.TooLong(path, "", count(bad.Valid)))
		case openapierrors.MaxItemsFailCode, openapierrors.TooManyPropertiesCode:
			errs = append(errs, field.TooMany(path, count(bad.Value), count(bad.Valid)))
		case openapierrors.InvalidTypeCode:
			errs = append(errs, field.TypeInvalid(path, value, err.Error()))
		default:
			errs = append(errs, field.Invalid(path, value, err.Error()))
		}
	}
	return errs
}

// texts returns strings unchanged and all other values as JSON.
func texts(values []any) []string {
	out := make([]string, len(values))
	for i, v := range values {
		s, ok := v.(string)
		if !ok {
			text, _ := json.Marshal(v)
			s = string(text)
		}
		out[i] = s
	}
	return out
}

// openAPISchema converts s to the type of the library.
func openAPISchema(s *schema.Structural) *spec.Schema {
	if s == nil {
		return nil
	}
	out := &spec.Schema{}
	out.Nullable = s.Nullable
	if s.Type != "" {
		out.Type = spec.StringOrArray{s.Type}
	}
	if s.Items != nil {
		out.Items = &spec.SchemaOrArray{Schema: openAPISchema(s.Items)}
	}
	if s.Properties != nil {
		out.Properties = make(map[string]spec.Schema, len(s.Properties))
		for name, prop := range s.Properties {
			out.Properties[name] = *openAPISchema(prop)
		}
	}
	if ap := s.AdditionalProperties; ap != nil {
		out.AdditionalProperties = &spec.SchemaOrBool{Allows: ap.Bool, Schema: openAPISchema(ap.Structural)}
	}
	if s.ValueValidation != nil {
		addConditions(out, s.ValueValidation)
	}
	return out
}

func addConditions(out *spec.Schema, v *schema.ValueValidation) {
	// Only malicious patterns have that many groups; a message may omit them.
	out.Pattern = rx.Uncaptured(v.Pattern, 1000)
	out.Format, out.Required, out.UniqueItems = v.Format, v.Required, v.UniqueItems
	out.Maximum, out.ExclusiveMaximum = v.Maximum, v.ExclusiveMaximum
	out.Minimum, out.ExclusiveMinimum = v.Minimum, v.ExclusiveMinimum
	out.MaxLength, out.MinLength = v.MaxLength, v.MinLength
	out.MaxItems, out.MinItems = v.MaxItems, v.MinItems
	out.MaxProperties, out.MinProperties = v.MaxProperties, v.MinProperties
	out.MultipleOf = v.MultipleOf
	for i := range v.Enum {
		out.Enum = append(out.Enum, v.Enum[i].Value)
	}
	branches := func(list []schema.NestedValueValidation) (schemas []spec.Schema) {
		for i := range list {
			schemas = append(schemas, *nestedSchema(&list[i]))
		}
		return schemas
	}
	out.AllOf, out.AnyOf, out.OneOf = branches(v.AllOf), branches(v.AnyOf), branches(v.OneOf)
	out.Not = nestedSchema(v.Not)
}

func nestedSchema(v *schema.NestedValueValidation) *spec.Schema {
	if v == nil {
		return nil
	}
	out := &spec.Schema{}
	// Only branches of int-or-string have a type here.
	if t := v.ForbiddenGenerics.Type; t != "" {
		out.Type = spec.StringOrArray{t}
	}
	out.Nullable = v.ForbiddenGenerics.Nullable
	if v.Items != nil {
		out.Items = &spec.SchemaOrArray{Schema: nestedSchema(v.Items)}
	}
	if v.Properties != nil {
		out.Properties = make(map[string]spec.Schema, len(v.Properties))
		for name, prop := range v.Properties {
			out.Properties[name] = *nestedSchema(prop)
		}
	}
	addConditions(out, &v.ValueValidation)
	return out
}
