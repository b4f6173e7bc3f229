package openapi

import (
	"slices"

	"k8s.io/kube-openapi/pkg/validation/spec"

	"espalier.dev/api"
	"espalier.dev/crd"
	"espalier.dev/schema"
)

// published returns the schema of a version as it is published in v3. It returns nil if
// there is no schema, or if it is not structural: publishing it would mislead clients.
func published(v *crd.Version) (*schema.Structural, error) {
	// v.Structural() is not used: it ignores errors that prevent a schema from being
	// published.
	props, s, err := v.Converted()
	if err != nil || s == nil || schema.AnySubschema(props, hasUnknownType) {
		return nil, err
	}
	sem := v.Definition().Semantics()
	if slices.ContainsFunc(schema.Check(s, sem), func(f schema.Finding) bool { return f.Refused }) {
		return nil, nil
	}
	return s.Unfold(sem), nil
}

// hasUnknownType reports whether a schema has a type that OpenAPI does not have.
func hasUnknownType(s *api.JSONSchemaProps) bool {
	return slices.ContainsFunc(s.Type, func(t string) bool {
		switch t {
		case "", "array", "boolean", "integer", "number", "object", "string":
			return false
		}
		return true
	})
}

// writer converts structural schemas to OpenAPI schemas.
type writer struct {
	semantics schema.Semantics
	defaults  bool // whether defaults are written
}

func (w writer) structural(s *schema.Structural) *spec.Schema {
	if s == nil {
		return nil
	}
	out := &spec.Schema{}
	if s.Items != nil {
		out.Items = &spec.SchemaOrArray{Schema: w.structural(s.Items)}
	}
	if s.Properties != nil {
		out.Properties = make(map[string]spec.Schema, len(s.Properties))
		for name, prop := range s.Properties {
			out.Properties[name] = *w.structural(prop)
		}
	}
	if ap := s.AdditionalProperties; ap != nil {
		out.AdditionalProperties = &spec.SchemaOrBool{Allows: ap.Bool, Schema: w.structural(ap.Structural)}
	}
	w.generic(&s.Generic, out)
	w.extensions(&s.Extensions, out)
	if s.ValueValidation != nil {
		w.valueValidation(s.ValueValidation, out)
	}
	w.rules(&s.ValidationExtensions, out)
	return out
}

func (w writer) generic(g *schema.Generic, out *spec.Schema) {
	if g.Type != "" {
		out.Type = spec.StringOrArray{g.Type}
	}
	out.Nullable = g.Nullable
	out.Description = g.Description
	out.Title = g.Title
	if w.semantics.KnowsReadOnly() {
		out.ReadOnly = g.ReadOnly
	}
	if g.Default != nil && w.defaults {
		out.Default = g.Default.Value
	}
	if g.Example != nil {
		out.Example = g.Example.Value
	}
	if d := g.ExternalDocs; d != nil {
		out.ExternalDocs = &spec.ExternalDocumentation{Description: d.Description, URL: d.URL}
	}
}

func (w writer) extensions(x *schema.Extensions, out *spec.Schema) {
	for name, set := range map[string]bool{
		"x-kubernetes-preserve-unknown-fields": x.XPreserveUnknownFields,
		"x-kubernetes-embedded-resource":       x.XEmbeddedResource,
		"x-kubernetes-int-or-string":           x.XIntOrString,
	} {
		if set {
			out.AddExtension(name, true)
		}
	}
	if len(x.XListMapKeys) > 0 {
		keys := make([]any, len(x.XListMapKeys))
		for i, key := range x.XListMapKeys {
			keys[i] = key
		}
		out.AddExtension("x-kubernetes-list-map-keys", keys)
	}
	if x.XListType != nil {
		out.AddExtension("x-kubernetes-list-type", *x.XListType)
	}
	if x.XMapType != nil {
		out.AddExtension("x-kubernetes-map-type", *x.XMapType)
	}
	if len(x.XUnions) > 0 && w.semantics.KnowsUnions() {
		out.AddExtension("x-kubernetes-unions", x.XUnions)
	}
}

func (w writer) rules(x *schema.ValidationExtensions, out *spec.Schema) {
	if len(x.XValidations) > 0 {
		out.AddExtension("x-kubernetes-validations", x.XValidations)
	}
}

func (w writer) valueValidation(v *schema.ValueValidation, out *spec.Schema) {
	out.Format = v.Format
	out.Maximum = v.Maximum
	out.ExclusiveMaximum = v.ExclusiveMaximum
	out.Minimum = v.Minimum
	out.ExclusiveMinimum = v.ExclusiveMinimum
	out.MaxLength = v.MaxLength
	out.MinLength = v.MinLength
	out.Pattern = v.Pattern
	out.MaxItems = v.MaxItems
	out.MinItems = v.MinItems
	out.UniqueItems = v.UniqueItems
	out.MultipleOf = v.MultipleOf
	out.MaxProperties = v.MaxProperties
	out.MinProperties = v.MinProperties
	out.Required = slices.Clone(v.Required)
	for _, e := range v.Enum {
		out.Enum = append(out.Enum, e.Value)
	}
	out.AllOf = w.branches(v.AllOf)
	out.AnyOf = w.branches(v.AnyOf)
	out.OneOf = w.branches(v.OneOf)
	if v.Not != nil {
		out.Not = w.nested(v.Not)
	}
}

func (w writer) branches(branches []schema.NestedValueValidation) (out []spec.Schema) {
	for i := range branches {
		out = append(out, *w.nested(&branches[i]))
	}
	return out
}

func (w writer) nested(v *schema.NestedValueValidation) *spec.Schema {
	out := &spec.Schema{}
	w.valueValidation(&v.ValueValidation, out)
	w.rules(&v.ValidationExtensions, out)
	if v.Items != nil {
		out.Items = &spec.SchemaOrArray{Schema: w.nested(v.Items)}
	}
	if v.Properties != nil {
		out.Properties = make(map[string]spec.Schema, len(v.Properties))
		for name, prop := range v.Properties {
			out.Properties[name] = *w.nested(prop)
		}
	}
	// Structural schemas have no generics here, except for the two types of
	// int-or-string.
	w.generic(&v.ForbiddenGenerics, out)
	w.extensions(&v.ForbiddenExtensions, out)
	return out
}
