package schema

import (
	"maps"
	"reflect"
	"slices"

	"espalier.dev/api"
)

// Unfold returns a copy of s in which the x-kubernetes-* extensions are also expressed
// in plain OpenAPI, for clients that do not support them. The extensions are kept. The
// result is published as OpenAPI v3; it need not be structural. Unfold is idempotent.
// It returns nil for nil.
//
//   - x-kubernetes-int-or-string becomes an anyOf of the two types.
//   - x-kubernetes-embedded-resource specifies apiVersion, kind and metadata, and
//     requires the first two.
//   - x-kubernetes-unions becomes a oneOf of the members and an enum of the
//     discriminator's values. The sketch in the documents has no more than that, and
//     would accept a discriminator that names another member. Such objects are rejected,
//     so an anyOf pairs each member with its value.
//
// Where the schema already has a keyword, the two are combined with allOf.
func (s *Structural) Unfold(sem Semantics) *Structural {
	out := s.DeepCopy()
	for _, s := range out.All() {
		if s.XIntOrString {
			unfoldIntOrString(s, sem)
		}
		if sem.KnowsUnions() {
			for _, u := range s.XUnions {
				unfoldUnion(s, u)
			}
		}
		if s.XEmbeddedResource && sem.UnfoldsAsDocumented() {
			unfoldEmbeddedResource(s)
		}
	}
	return out
}

// intOrStringBranches returns the branches of the anyOf that is equivalent to
// int-or-string.
func intOrStringBranches() []NestedValueValidation {
	return []NestedValueValidation{
		{ForbiddenGenerics: Generic{Type: "integer"}},
		{ForbiddenGenerics: Generic{Type: "string"}},
	}
}

func unfoldIntOrString(s *Structural, sem Semantics) {
	either := intOrStringBranches()
	v := s.ValueValidation
	switch {
	case v == nil:
		s.ValueValidation = &ValueValidation{AnyOf: either}
	case isIntOrString(v.AnyOf),
		len(v.AllOf) > 0 && isIntOrString(v.AllOf[0].AnyOf),
		sem.AcceptsIntOrStringOneOf() && isIntOrString(v.OneOf):
		// The author has already expressed it.
	case len(v.AnyOf) == 0:
		v.AnyOf = either
	case sem.UnfoldsAsDocumented():
		s.ValueValidation = &ValueValidation{AllOf: []NestedValueValidation{
			{ValueValidation: ValueValidation{AnyOf: either}},
			{ValueValidation: *v},
		}}
	default:
		v.AllOf = slices.Insert(v.AllOf, 0, NestedValueValidation{ValueValidation: ValueValidation{AnyOf: either}})
	}
}

func unfoldUnion(s *Structural, u api.Union) {
	if len(u.Fields) == 0 {
		return
	}
	members := slices.Sorted(maps.Keys(u.Fields))
	exactlyOne := make([]NestedValueValidation, 0, len(members))
	agreeing := make([]NestedValueValidation, 0, len(members))
	values := make([]JSON, 0, len(members))
	for _, m := range members {
		value := JSON{Value: u.Fields[m]}
		exactlyOne = append(exactlyOne, NestedValueValidation{ValueValidation: ValueValidation{Required: []string{m}}})
		agreeing = append(agreeing, NestedValueValidation{
			ValueValidation: ValueValidation{Required: []string{m}},
			Properties: map[string]*NestedValueValidation{
				u.Discriminator: {ValueValidation: ValueValidation{Enum: []JSON{value}}},
			},
		})
		if !slices.Contains(values, value) {
			values = append(values, value)
		}
	}

	v := s.valueValidation()
	if !v.says(func(v *ValueValidation) bool { return reflect.DeepEqual(v.OneOf, exactlyOne) }) {
		if len(v.OneOf) == 0 {
			v.OneOf = exactlyOne
		} else {
			v.AllOf = append(v.AllOf, NestedValueValidation{ValueValidation: ValueValidation{OneOf: exactlyOne}})
		}
	}
	if u.Discriminator == "" {
		return
	}
	if !v.says(func(v *ValueValidation) bool { return reflect.DeepEqual(v.AnyOf, agreeing) }) {
		if len(v.AnyOf) == 0 {
			v.AnyOf = agreeing
		} else {
			v.AllOf = append(v.AllOf, NestedValueValidation{ValueValidation: ValueValidation{AnyOf: agreeing}})
		}
	}
	if s.Properties == nil {
		s.Properties = map[string]*Structural{}
	}
	d := s.Properties[u.Discriminator]
	if d == nil {
		d = &Structural{Generic: Generic{Type: "string"}}
		s.Properties[u.Discriminator] = d
	}
	andEnum(d.valueValidation(), values)
}

// andEnum restricts an enum to values.
func andEnum(v *ValueValidation, values []JSON) {
	if len(v.Enum) == 0 {
		v.Enum = values
		return
	}
	var both []JSON
	for _, e := range v.Enum {
		if slices.ContainsFunc(values, func(x JSON) bool { return reflect.DeepEqual(e, x) }) {
			both = append(both, e)
		}
	}
	if len(both) > 0 {
		v.Enum = both
		return
	}
	// An empty enum cannot be represented.
	enum := NestedValueValidation{ValueValidation: ValueValidation{Enum: values}}
	if !v.says(func(v *ValueValidation) bool { return reflect.DeepEqual(v.Enum, values) }) {
		v.AllOf = append(v.AllOf, enum)
	}
}

// says reports whether v, or one of the schemas in its allOf, satisfies f.
func (v *ValueValidation) says(f func(*ValueValidation) bool) bool {
	if f(v) {
		return true
	}
	return slices.ContainsFunc(v.AllOf, func(n NestedValueValidation) bool { return f(&n.ValueValidation) })
}

// valueValidation returns the ValueValidation of s for changing it.
func (s *Structural) valueValidation() *ValueValidation {
	if s.ValueValidation == nil {
		s.ValueValidation = &ValueValidation{}
	}
	return s.ValueValidation
}

func unfoldEmbeddedResource(s *Structural) {
	if s.Properties == nil {
		s.Properties = map[string]*Structural{}
	}
	for name, implied := range embeddedResourceFields() {
		if s.Properties[name] == nil {
			s.Properties[name] = implied
		} else {
			andSchema(s.Properties[name], implied)
		}
	}
	v := s.valueValidation()
	for _, name := range []string{"kind", "apiVersion"} {
		if !slices.Contains(v.Required, name) {
			v.Required = append(v.Required, name)
		}
	}
}

// andSchema adds the requirements of implied to s. A keyword that s already has is
// combined through allOf, together with its type, as the documents show. The author's
// type, fields and descriptions stay where they are. A map stays a map: fields are not
// added beside additionalProperties.
func andSchema(s, implied *Structural) {
	contradicts := s.Type != "" && s.Type != implied.Type || s.XIntOrString
	switch {
	case implied.ValueValidation == nil && !contradicts:
		s.Type = implied.Type
	case s.ValueValidation == nil && !contradicts:
		s.Type = implied.Type
		s.ValueValidation = implied.ValueValidation
	case reflect.DeepEqual(s.ValueValidation, implied.ValueValidation) && !contradicts:
		s.Type = implied.Type
	default:
		said := NestedValueValidation{ForbiddenGenerics: Generic{Type: implied.Type}}
		if implied.ValueValidation != nil {
			said.ValueValidation = *implied.ValueValidation
		}
		v := s.valueValidation()
		if slices.ContainsFunc(v.AllOf, func(n NestedValueValidation) bool { return reflect.DeepEqual(n, said) }) {
			break
		}
		all := []NestedValueValidation{said}
		if !reflect.DeepEqual(*v, ValueValidation{}) {
			all = append(all, NestedValueValidation{ValueValidation: *v})
		}
		s.ValueValidation = &ValueValidation{AllOf: all}
	}
	if contradicts {
		return
	}
	if implied.Properties != nil && s.AdditionalProperties == nil {
		if s.Properties == nil {
			s.Properties = make(map[string]*Structural, len(implied.Properties))
		}
		for name, field := range implied.Properties {
			if s.Properties[name] == nil {
				s.Properties[name] = field
			} else {
				andSchema(s.Properties[name], field)
			}
		}
	}
	if ap := implied.AdditionalProperties; ap != nil && s.Properties == nil {
		switch {
		case s.AdditionalProperties == nil:
			s.AdditionalProperties = ap
		case s.AdditionalProperties.Structural != nil:
			andSchema(s.AdditionalProperties.Structural, ap.Structural)
		}
	}
	if implied.Items != nil {
		if s.Items == nil {
			s.Items = implied.Items
		} else {
			andSchema(s.Items, implied.Items)
		}
	}
}
