package rules

import (
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apiserver/pkg/cel/common"

	"espalier.dev/api"
	"espalier.dev/schema"
)

// view adapts a schema to Kubernetes' CEL packages, which derive types and values from
// it. It precomputes what they request on every field access.
type view struct {
	s          *schema.Structural
	items      *view
	props      map[string]common.Schema
	additional *viewOrBool
	enum       []any
	format     string
	// hasRules is true if there are rules here or below.
	hasRules bool
	// resource is the view of the same object as a resource, if it is one.
	resource *view
}

// viewOrBool adapts additionalProperties.
type viewOrBool struct {
	values *view
	allows bool
}

var (
	_ common.Schema       = (*view)(nil)
	_ common.SchemaOrBool = (*viewOrBool)(nil)
)

// newView returns the view of s and of all schemas below it outside of logical
// operators. It shares s.
func newView(s *schema.Structural, isRoot bool) *view {
	if s == nil {
		return nil
	}
	v := &view{s: s, items: newView(s.Items, false), hasRules: len(s.XValidations) > 0}
	v.hasRules = v.hasRules || v.items != nil && v.items.hasRules
	if s.Properties != nil {
		v.props = make(map[string]common.Schema, len(s.Properties))
		for name, prop := range s.Properties {
			p := newView(prop, false)
			v.props[name] = p
			v.hasRules = v.hasRules || p.hasRules
		}
	}
	if ap := s.AdditionalProperties; ap != nil {
		v.additional = &viewOrBool{values: newView(ap.Structural, false), allows: ap.Bool}
		v.hasRules = v.hasRules || v.values() != nil && v.values().hasRules
	}
	if s.ValueValidation != nil {
		v.format = s.ValueValidation.Format
		for _, e := range s.ValueValidation.Enum {
			v.enum = append(v.enum, e.Value)
		}
	}
	if isRoot || s.XEmbeddedResource {
		v.resource = v.asResource()
	}
	return v
}

// prop returns the view of a property, or nil.
func (v *view) prop(name string) *view {
	p, _ := v.props[name].(*view)
	return p
}

// values returns the view of the values of a map, or nil.
func (v *view) values() *view {
	if v.additional == nil {
		return nil
	}
	return v.additional.values
}

// asResource returns v with the fields that every resource has.
func (v *view) asResource() *view {
	isType := func(v *view, typ string) bool { return v != nil && v.s.Type == typ }
	meta := v.prop("metadata")
	if isType(v.prop("kind"), "string") && isType(v.prop("apiVersion"), "string") && isType(meta, "object") &&
		isType(meta.prop("name"), "string") && isType(meta.prop("generateName"), "string") {
		return v
	}
	// Items are omitted, because they have no meaning for an object.
	out := &view{s: v.s, additional: v.additional, enum: v.enum, format: v.format}
	out.props = make(map[string]common.Schema, len(v.props)+3)
	for name, prop := range v.props {
		out.props[name] = prop
	}
	var name, generateName *view
	if meta != nil {
		name, generateName = meta.prop("name"), meta.prop("generateName")
	}
	text := &view{s: &schema.Structural{Generic: schema.Generic{Type: "string"}}}
	out.props["kind"], out.props["apiVersion"] = text, text
	const longest = int64(validation.DNS1123SubdomainMaxLength)
	out.props["metadata"] = &view{
		s: &schema.Structural{Generic: schema.Generic{Type: "object"}},
		props: map[string]common.Schema{
			"name": name.atMost(longest),
			// The generated name is at least one character longer.
			"generateName": generateName.atMost(longest - 1),
		},
	}
	out.resource = out
	return out
}

// atMost returns the view of a string with a length of at most max, and at most that of
// v.
func (v *view) atMost(max int64) *view {
	if v != nil {
		if l := v.MaxLength(); l != nil && *l < max {
			max = *l
		}
	}
	return &view{s: &schema.Structural{
		Generic:         schema.Generic{Type: "string"},
		ValueValidation: &schema.ValueValidation{MaxLength: &max},
	}}
}

// WithTypeAndObjectMeta returns the view of a resource.
func (v *view) WithTypeAndObjectMeta() common.Schema {
	if v.resource != nil {
		return v.resource
	}
	return v.asResource()
}

// Schema returns the view of the values, if there is a schema for them.
func (v *viewOrBool) Schema() common.Schema {
	if v.values == nil {
		return nil
	}
	return v.values
}

// Allows returns the boolean.
func (v *viewOrBool) Allows() bool { return v.allows }

// Items returns the view of the items, if there are any.
func (v *view) Items() common.Schema {
	if v.items == nil {
		return nil
	}
	return v.items
}

// AdditionalProperties returns the view of additionalProperties, if it is there.
func (v *view) AdditionalProperties() common.SchemaOrBool {
	if v.additional == nil {
		return nil
	}
	return v.additional
}

// checks returns the value validations, which may be none.
func (v *view) checks() *schema.ValueValidation {
	if v.s.ValueValidation == nil {
		return &schema.ValueValidation{}
	}
	return v.s.ValueValidation
}

// Default returns the default, or nil.
func (v *view) Default() any {
	if v.s.Default == nil {
		return nil
	}
	return v.s.Default.Value
}

// The remaining methods return the keywords of the schema.

func (v *view) Type() string                         { return v.s.Type }
func (v *view) Properties() map[string]common.Schema { return v.props }
func (v *view) Nullable() bool                       { return v.s.Nullable }
func (v *view) Enum() []any                          { return v.enum }
func (v *view) Format() string                       { return v.format }
func (v *view) Pattern() string                      { return v.checks().Pattern }
func (v *view) Minimum() *float64                    { return v.checks().Minimum }
func (v *view) IsExclusiveMinimum() bool             { return v.checks().ExclusiveMinimum }
func (v *view) Maximum() *float64                    { return v.checks().Maximum }
func (v *view) IsExclusiveMaximum() bool             { return v.checks().ExclusiveMaximum }
func (v *view) MultipleOf() *float64                 { return v.checks().MultipleOf }
func (v *view) MinItems() *int64                     { return v.checks().MinItems }
func (v *view) MaxItems() *int64                     { return v.checks().MaxItems }
func (v *view) MinLength() *int64                    { return v.checks().MinLength }
func (v *view) MaxLength() *int64                    { return v.checks().MaxLength }
func (v *view) MinProperties() *int64                { return v.checks().MinProperties }
func (v *view) MaxProperties() *int64                { return v.checks().MaxProperties }
func (v *view) Required() []string                   { return v.checks().Required }
func (v *view) UniqueItems() bool                    { return v.checks().UniqueItems }
func (v *view) IsXIntOrString() bool                 { return v.s.XIntOrString }
func (v *view) IsXEmbeddedResource() bool            { return v.s.XEmbeddedResource }
func (v *view) IsXPreserveUnknownFields() bool       { return v.s.XPreserveUnknownFields }
func (v *view) XListMapKeys() []string               { return v.s.XListMapKeys }
func (v *view) XListType() string                    { return textOf(v.s.XListType) }
func (v *view) XMapType() string                     { return textOf(v.s.XMapType) }

func textOf(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// Logical operators do not affect types and values.

func (v *view) AllOf() []common.Schema { return nil }
func (v *view) OneOf() []common.Schema { return nil }
func (v *view) AnyOf() []common.Schema { return nil }
func (v *view) Not() common.Schema     { return nil }

// XValidations returns the rules.
func (v *view) XValidations() []common.ValidationRule {
	var list []common.ValidationRule
	for i := range v.s.XValidations {
		list = append(list, ruleView{&v.s.XValidations[i]})
	}
	return list
}

// ruleView adapts a rule.
type ruleView struct{ r *api.ValidationRule }

func (v ruleView) Rule() string              { return v.r.Rule }
func (v ruleView) Message() string           { return v.r.Message }
func (v ruleView) MessageExpression() string { return v.r.MessageExpression }
func (v ruleView) FieldPath() string         { return v.r.FieldPath }
