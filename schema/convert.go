package schema

import (
	"encoding/json"
	"slices"
	"strings"

	kjson "sigs.k8s.io/json"

	"espalier.dev/api"
)

// NewStructural converts a schema to a Structural. It returns nil for nil. The error is
// [ConversionErrors] if the schema has keywords that a CRD may not use in an OpenAPI
// schema. Check reports whether the schema is structural.
//
// The result shares slices and pointers with s: change neither afterwards.
func NewStructural(s *api.JSONSchemaProps) (*Structural, error) {
	if s == nil {
		return nil, nil
	}
	var c converter
	out := &Structural{}
	c.structural(out, s)
	if c.failed {
		return nil, conversionErrors(s)
	}
	return out, nil
}

// StructuralPart is NewStructural without the error: it ignores the keywords for which
// NewStructural fails. It returns nil for nil.
//
// The result shares slices and pointers with s: change neither afterwards.
func StructuralPart(s *api.JSONSchemaProps) *Structural {
	if s == nil {
		return nil
	}
	out := &Structural{}
	new(converter).structural(out, s)
	return out
}

// converter only records that something failed. A second walk determines what and
// where, so that valid schemas do not pay for paths.
type converter struct {
	failed bool
}

func (c *converter) structural(dst *Structural, s *api.JSONSchemaProps) {
	c.failed = c.failed || hasUnsupported(s)
	c.generic(&dst.Generic, s)
	c.extensions(&dst.Extensions, s)
	dst.XValidations = s.XValidations
	if hasValueValidation(s) {
		dst.ValueValidation = &ValueValidation{}
		c.valueValidation(dst.ValueValidation, s)
	}
	if items := s.Items; items != nil && items.Schema != nil {
		dst.Items = &Structural{}
		c.structural(dst.Items, items.Schema)
	}
	if len(s.Properties) > 0 {
		dst.Properties = c.properties(s.Properties)
	}
	if ap := s.AdditionalProperties; ap != nil {
		if ap.Schema == nil {
			dst.AdditionalProperties = &StructuralOrBool{Bool: ap.Allows}
		} else {
			dst.AdditionalProperties = &StructuralOrBool{Bool: true, Structural: &Structural{}}
			c.structural(dst.AdditionalProperties.Structural, ap.Schema)
		}
	}
}

// properties is separate from structural to keep the loop's copy of a schema, which is
// large, on the stack. In structural it would escape.
func (c *converter) properties(props map[string]api.JSONSchemaProps) map[string]*Structural {
	out := make(map[string]*Structural, len(props))
	fields := make([]Structural, len(props)) // one allocation: they have the same lifetime
	for name, prop := range props {
		f := &fields[len(out)]
		c.structural(f, &prop)
		out[name] = f
	}
	return out
}

func (c *converter) nested(dst *NestedValueValidation, s *api.JSONSchemaProps) {
	c.failed = c.failed || hasUnsupported(s)
	c.generic(&dst.ForbiddenGenerics, s)
	c.extensions(&dst.ForbiddenExtensions, s)
	dst.XValidations = s.XValidations
	c.valueValidation(&dst.ValueValidation, s)
	if items := s.Items; items != nil && items.Schema != nil {
		dst.Items = &NestedValueValidation{}
		c.nested(dst.Items, items.Schema)
	}
	if s.Properties != nil {
		// An empty map is kept: a branch with an empty map does not have the exact form
		// that int-or-string allows.
		dst.Properties = c.nestedProperties(s.Properties)
	}
	if ap := s.AdditionalProperties; ap != nil {
		if ap.Schema == nil {
			dst.AdditionalProperties = &NestedOrBool{Bool: ap.Allows}
		} else {
			dst.AdditionalProperties = &NestedOrBool{Bool: true, Nested: &NestedValueValidation{}}
			c.nested(dst.AdditionalProperties.Nested, ap.Schema)
		}
	}
}

func (c *converter) nestedProperties(props map[string]api.JSONSchemaProps) map[string]*NestedValueValidation {
	out := make(map[string]*NestedValueValidation, len(props))
	fields := make([]NestedValueValidation, len(props))
	for name, prop := range props {
		f := &fields[len(out)]
		c.nested(f, &prop)
		out[name] = f
	}
	return out
}

// hasUnsupported reports whether s has a keyword that conversionErrors would report,
// apart from invalid JSON.
func hasUnsupported(s *api.JSONSchemaProps) bool {
	return s.ID != "" || s.Schema != "" || s.Ref != nil && *s.Ref != "" ||
		len(s.PatternProperties) > 0 || len(s.Dependencies) > 0 || s.AdditionalItems != nil || len(s.Definitions) > 0 ||
		s.Items != nil && len(s.Items.JSONSchemas) > 0 ||
		len(s.Type) > 1 ||
		s.XPreserveUnknownFields != nil && !*s.XPreserveUnknownFields
}

func (c *converter) generic(dst *Generic, s *api.JSONSchemaProps) {
	dst.Description = s.Description
	dst.Type = s.Type.Single()
	dst.Title = s.Title
	dst.Nullable = s.Nullable
	dst.ReadOnly = s.ReadOnly
	dst.ExternalDocs = s.ExternalDocs
	if s.Default != nil {
		dst.Default = &JSON{Value: c.decode(s.Default.Raw)}
	}
	if s.Example != nil {
		dst.Example = &JSON{Value: c.decode(s.Example.Raw)}
	}
}

func (c *converter) extensions(dst *Extensions, s *api.JSONSchemaProps) {
	dst.XPreserveUnknownFields = s.XPreserveUnknownFields != nil && *s.XPreserveUnknownFields
	dst.XEmbeddedResource = s.XEmbeddedResource
	dst.XIntOrString = s.XIntOrString
	dst.XListMapKeys = s.XListMapKeys
	dst.XListType = s.XListType
	dst.XMapType = s.XMapType
	dst.XUnions = s.XUnions
}

// hasValueValidation reports whether s has any keyword of ValueValidation. Most
// schemas have none, and a ValueValidation is large.
func hasValueValidation(s *api.JSONSchemaProps) bool {
	return s.Format != "" || s.Pattern != "" ||
		s.Maximum != nil || s.ExclusiveMaximum || s.Minimum != nil || s.ExclusiveMinimum ||
		s.MaxLength != nil || s.MinLength != nil ||
		s.MaxItems != nil || s.MinItems != nil || s.UniqueItems ||
		s.MultipleOf != nil || len(s.Enum) > 0 ||
		s.MaxProperties != nil || s.MinProperties != nil || s.Required != nil ||
		len(s.AllOf) > 0 || len(s.OneOf) > 0 || len(s.AnyOf) > 0 || s.Not != nil
}

func (c *converter) valueValidation(dst *ValueValidation, s *api.JSONSchemaProps) {
	dst.Format = s.Format
	dst.Maximum = s.Maximum
	dst.ExclusiveMaximum = s.ExclusiveMaximum
	dst.Minimum = s.Minimum
	dst.ExclusiveMinimum = s.ExclusiveMinimum
	dst.MaxLength = s.MaxLength
	dst.MinLength = s.MinLength
	dst.Pattern = s.Pattern
	dst.MaxItems = s.MaxItems
	dst.MinItems = s.MinItems
	dst.UniqueItems = s.UniqueItems
	dst.MultipleOf = s.MultipleOf
	dst.MaxProperties = s.MaxProperties
	dst.MinProperties = s.MinProperties
	dst.Required = s.Required
	if len(s.Enum) > 0 {
		dst.Enum = make([]JSON, len(s.Enum))
		for i := range s.Enum {
			dst.Enum[i].Value = c.decode(s.Enum[i].Raw)
		}
	}
	dst.AllOf = c.junctor(s.AllOf)
	dst.OneOf = c.junctor(s.OneOf)
	dst.AnyOf = c.junctor(s.AnyOf)
	if s.Not != nil {
		dst.Not = &NestedValueValidation{}
		c.nested(dst.Not, s.Not)
	}
}

func (c *converter) junctor(branches []api.JSONSchemaProps) []NestedValueValidation {
	if len(branches) == 0 {
		return nil
	}
	out := make([]NestedValueValidation, len(branches))
	for i := range branches {
		c.nested(&out[i], &branches[i])
	}
	return out
}

func (c *converter) decode(raw []byte) any {
	v, err := decodeJSON(raw)
	c.failed = c.failed || err != nil
	return v
}

// decodeJSON decodes a JSON value. No bytes mean null.
func decodeJSON(raw []byte) (any, error) {
	if v, ok := decodeSimple(raw); ok {
		return v, nil
	}
	var v any
	err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &v)
	return v, err
}

// decodeSimple decodes the values that most enums and defaults consist of, and returns
// false for all others. It avoids the cost of a decoder.
func decodeSimple(raw []byte) (any, bool) {
	if len(raw) == 0 {
		return nil, true
	}
	switch raw[0] {
	case '"':
		n := len(raw) - 1
		if n < 1 || raw[n] != '"' {
			return nil, false
		}
		for _, b := range raw[1:n] {
			if b < ' ' || b > '~' || b == '"' || b == '\\' {
				return nil, false
			}
		}
		return string(raw[1:n]), true
	case 't':
		return true, string(raw) == "true"
	case 'f':
		return false, string(raw) == "false"
	case 'n':
		return nil, string(raw) == "null"
	case '0':
		return int64(0), len(raw) == 1
	case '1', '2', '3', '4', '5', '6', '7', '8', '9':
		if len(raw) > 18 { // could be beyond int64
			return nil, false
		}
		var i int64
		for _, b := range raw {
			if b < '0' || b > '9' {
				return nil, false
			}
			i = i*10 + int64(b-'0')
		}
		return i, true
	}
	return nil, false
}

// ToJSONSchemaProps converts the schema to the form that a CRD has. Nothing is lost:
// NewStructural of the result equals s. It returns nil for nil.
//
// The result shares slices and pointers with s: change neither afterwards.
func (s *Structural) ToJSONSchemaProps() *api.JSONSchemaProps {
	if s == nil {
		return nil
	}
	out := &api.JSONSchemaProps{}
	s.fill(out)
	return out
}

func (s *Structural) fill(dst *api.JSONSchemaProps) {
	if s == nil {
		return
	}
	s.Generic.fill(dst)
	s.Extensions.fill(dst)
	dst.XValidations = s.XValidations
	if s.ValueValidation != nil {
		s.ValueValidation.fill(dst)
	}
	if s.Items != nil {
		dst.Items = &api.JSONSchemaPropsOrArray{Schema: s.Items.ToJSONSchemaProps()}
	}
	if len(s.Properties) > 0 {
		dst.Properties = make(map[string]api.JSONSchemaProps, len(s.Properties))
		for name, f := range s.Properties {
			var prop api.JSONSchemaProps
			f.fill(&prop)
			dst.Properties[name] = prop
		}
	}
	if ap := s.AdditionalProperties; ap != nil {
		dst.AdditionalProperties = &api.JSONSchemaPropsOrBool{
			Allows: ap.Bool || ap.Structural != nil,
			Schema: ap.Structural.ToJSONSchemaProps(),
		}
	}
}

func (v *NestedValueValidation) toJSONSchemaProps() *api.JSONSchemaProps {
	if v == nil {
		return nil
	}
	out := &api.JSONSchemaProps{}
	v.fill(out)
	return out
}

func (v *NestedValueValidation) fill(dst *api.JSONSchemaProps) {
	if v == nil {
		return
	}
	v.ForbiddenGenerics.fill(dst)
	v.ForbiddenExtensions.fill(dst)
	v.ValueValidation.fill(dst)
	dst.XValidations = v.XValidations
	if v.Items != nil {
		dst.Items = &api.JSONSchemaPropsOrArray{Schema: v.Items.toJSONSchemaProps()}
	}
	if v.Properties != nil {
		dst.Properties = make(map[string]api.JSONSchemaProps, len(v.Properties))
		for name, f := range v.Properties {
			var prop api.JSONSchemaProps
			f.fill(&prop)
			dst.Properties[name] = prop
		}
	}
	if ap := v.AdditionalProperties; ap != nil {
		dst.AdditionalProperties = &api.JSONSchemaPropsOrBool{
			Allows: ap.Bool || ap.Nested != nil,
			Schema: ap.Nested.toJSONSchemaProps(),
		}
	}
}

func (g *Generic) fill(dst *api.JSONSchemaProps) {
	dst.Description = g.Description
	if g.Type != "" {
		dst.Type = api.StringOrArray{g.Type}
	}
	dst.Title = g.Title
	dst.Nullable = g.Nullable
	dst.ReadOnly = g.ReadOnly
	dst.ExternalDocs = g.ExternalDocs
	dst.Default = g.Default.toAPI()
	dst.Example = g.Example.toAPI()
}

func (x *Extensions) fill(dst *api.JSONSchemaProps) {
	if x.XPreserveUnknownFields {
		yes := true
		dst.XPreserveUnknownFields = &yes
	}
	dst.XEmbeddedResource = x.XEmbeddedResource
	dst.XIntOrString = x.XIntOrString
	dst.XListMapKeys = x.XListMapKeys
	dst.XListType = x.XListType
	dst.XMapType = x.XMapType
	dst.XUnions = x.XUnions
}

func (v *ValueValidation) fill(dst *api.JSONSchemaProps) {
	dst.Format = v.Format
	dst.Maximum = v.Maximum
	dst.ExclusiveMaximum = v.ExclusiveMaximum
	dst.Minimum = v.Minimum
	dst.ExclusiveMinimum = v.ExclusiveMinimum
	dst.MaxLength = v.MaxLength
	dst.MinLength = v.MinLength
	dst.Pattern = v.Pattern
	dst.MaxItems = v.MaxItems
	dst.MinItems = v.MinItems
	dst.UniqueItems = v.UniqueItems
	dst.MultipleOf = v.MultipleOf
	dst.MaxProperties = v.MaxProperties
	dst.MinProperties = v.MinProperties
	dst.Required = v.Required
	if len(v.Enum) > 0 {
		dst.Enum = make([]api.JSON, len(v.Enum))
		for i := range v.Enum {
			dst.Enum[i] = *v.Enum[i].toAPI()
		}
	}
	dst.AllOf = fillJunctor(v.AllOf)
	dst.OneOf = fillJunctor(v.OneOf)
	dst.AnyOf = fillJunctor(v.AnyOf)
	dst.Not = v.Not.toJSONSchemaProps()
}

func fillJunctor(branches []NestedValueValidation) []api.JSONSchemaProps {
	if len(branches) == 0 {
		return nil
	}
	out := make([]api.JSONSchemaProps, len(branches))
	for i := range branches {
		branches[i].fill(&out[i])
	}
	return out
}

// toAPI encodes the value. Null becomes no bytes.
func (j *JSON) toAPI() *api.JSON {
	if j == nil {
		return nil
	}
	if j.Value == nil {
		return &api.JSON{}
	}
	return &api.JSON{Raw: appendJSON(nil, j.Value)}
}

// appendJSON encodes a JSON value so that decoding returns the same Go value: unlike
// with encoding/json, 1.0 does not become an integer.
func appendJSON(b []byte, v any) []byte {
	switch v := v.(type) {
	case []any:
		b = append(b, '[')
		for i, e := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendJSON(b, e)
		}
		return append(b, ']')
	case map[string]any:
		keys := make([]string, 0, len(v))
		for k := range v {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		b = append(b, '{')
		for i, k := range keys {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendJSON(b, k)
			b = append(b, ':')
			b = appendJSON(b, v[k])
		}
		return append(b, '}')
	}
	raw, err := json.Marshal(v)
	if err != nil { // not of a value that was decoded from JSON
		return append(b, "null"...)
	}
	b = append(b, raw...)
	if _, ok := v.(float64); ok && !strings.ContainsAny(string(raw), ".eE") {
		b = append(b, ".0"...)
	}
	return b
}
