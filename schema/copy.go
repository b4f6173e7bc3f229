package schema

import (
	"maps"
	"slices"

	"espalier.dev/api"
	"espalier.dev/internal/jsonx"
)

// DeepCopy returns a copy that shares nothing with s. It returns nil for nil.
func (s *Structural) DeepCopy() *Structural {
	if s == nil {
		return nil
	}
	out := *s
	out.Items = s.Items.DeepCopy()
	out.Properties = copyMap(s.Properties, (*Structural).DeepCopy)
	if s.AdditionalProperties != nil {
		out.AdditionalProperties = &StructuralOrBool{
			Structural: s.AdditionalProperties.Structural.DeepCopy(),
			Bool:       s.AdditionalProperties.Bool,
		}
	}
	out.Generic = s.Generic.deepCopy()
	out.Extensions = s.Extensions.deepCopy()
	out.ValidationExtensions = s.ValidationExtensions.deepCopy()
	if s.ValueValidation != nil {
		v := s.ValueValidation.deepCopy()
		out.ValueValidation = &v
	}
	return &out
}

func (g Generic) deepCopy() Generic {
	g.Default = g.Default.deepCopy()
	g.Example = g.Example.deepCopy()
	g.ExternalDocs = copyPointer(g.ExternalDocs)
	return g
}

func (x Extensions) deepCopy() Extensions {
	x.XListMapKeys = slices.Clone(x.XListMapKeys)
	x.XListType = copyPointer(x.XListType)
	x.XMapType = copyPointer(x.XMapType)
	x.XUnions = copySlice(x.XUnions, func(u api.Union) api.Union {
		u.Fields = maps.Clone(u.Fields)
		return u
	})
	return x
}

func (x ValidationExtensions) deepCopy() ValidationExtensions {
	x.XValidations = copySlice(x.XValidations, func(r api.ValidationRule) api.ValidationRule {
		r.Reason = copyPointer(r.Reason)
		r.OptionalOldSelf = copyPointer(r.OptionalOldSelf)
		return r
	})
	return x
}

func (v ValueValidation) deepCopy() ValueValidation {
	v.Maximum = copyPointer(v.Maximum)
	v.Minimum = copyPointer(v.Minimum)
	v.MaxLength = copyPointer(v.MaxLength)
	v.MinLength = copyPointer(v.MinLength)
	v.MaxItems = copyPointer(v.MaxItems)
	v.MinItems = copyPointer(v.MinItems)
	v.MultipleOf = copyPointer(v.MultipleOf)
	v.MaxProperties = copyPointer(v.MaxProperties)
	v.MinProperties = copyPointer(v.MinProperties)
	v.Required = slices.Clone(v.Required)
	v.Enum = copySlice(v.Enum, func(j JSON) JSON { return *j.deepCopy() })
	v.AllOf = copySlice(v.AllOf, NestedValueValidation.deepCopy)
	v.OneOf = copySlice(v.OneOf, NestedValueValidation.deepCopy)
	v.AnyOf = copySlice(v.AnyOf, NestedValueValidation.deepCopy)
	v.Not = v.Not.deepCopyPointer()
	return v
}

func (n NestedValueValidation) deepCopy() NestedValueValidation {
	n.ValueValidation = n.ValueValidation.deepCopy()
	n.ValidationExtensions = n.ValidationExtensions.deepCopy()
	n.Items = n.Items.deepCopyPointer()
	n.Properties = copyMap(n.Properties, (*NestedValueValidation).deepCopyPointer)
	if n.AdditionalProperties != nil {
		n.AdditionalProperties = &NestedOrBool{
			Nested: n.AdditionalProperties.Nested.deepCopyPointer(),
			Bool:   n.AdditionalProperties.Bool,
		}
	}
	n.ForbiddenGenerics = n.ForbiddenGenerics.deepCopy()
	n.ForbiddenExtensions = n.ForbiddenExtensions.deepCopy()
	return n
}

func (n *NestedValueValidation) deepCopyPointer() *NestedValueValidation {
	if n == nil {
		return nil
	}
	out := n.deepCopy()
	return &out
}

func (j *JSON) deepCopy() *JSON {
	if j == nil {
		return nil
	}
	return &JSON{Value: jsonx.Copy(j.Value)}
}

// The helpers distinguish nil from empty, so that a copy is deeply equal.

func copyPointer[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}

func copySlice[T any](s []T, f func(T) T) []T {
	if s == nil {
		return nil
	}
	out := make([]T, len(s))
	for i, v := range s {
		out[i] = f(v)
	}
	return out
}

func copyMap[T any](m map[string]T, f func(T) T) map[string]T {
	if m == nil {
		return nil
	}
	out := make(map[string]T, len(m))
	for k, v := range m {
		out[k] = f(v)
	}
	return out
}
