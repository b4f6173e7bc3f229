package schema

import (
	"reflect"
	"slices"
)

// WeakenForOpenAPIV2 returns a copy of s without what OpenAPI v2 cannot say, or
// what kubectl cannot read in it. Publish s.Unfold(sem).WeakenForOpenAPIV2(sem) as
// v2. The result is weaker: it takes whatever s takes. Nil gives nil.
//
//   - Logical operators are dropped. As the documents have it, so is pattern, and a type
//     that only an allOf states is kept.
//   - v2 has no nullable. A type would reject null, so a nullable value has none, and
//     it is no longer required, because kubectl takes a null for an absent field.
//   - kubectl takes a value with properties for an object without other fields, and
//     a value without a type, or of type object, for one with nothing known about
//     it. So there are no properties or items where null or unknown fields are
//     allowed.
//   - kubectl wants an array to have items; without them it has no type.
func (s *Structural) WeakenForOpenAPIV2(sem Semantics) *Structural {
	out := s.DeepCopy()
	for _, s := range out.All() {
		if v := s.ValueValidation; v != nil {
			if s.Type == "" && sem.UnfoldsAsDocumented() {
				s.Type = typeInAllOf(v)
			}
			v.AllOf, v.OneOf, v.AnyOf, v.Not = nil, nil, nil, nil
			if !sem.PublishesPatternInV2() {
				v.Pattern = ""
			}
		}
		if s.Nullable {
			s.Type, s.Nullable = "", false
			s.Items, s.Properties = nil, nil
		}
		if s.XPreserveUnknownFields {
			s.Items, s.Properties = nil, nil
		}
		if s.Type == "array" && s.Items == nil || s.Type == "object" && s.XPreserveUnknownFields {
			s.Type = ""
		}
		v := s.ValueValidation
		if v == nil {
			continue
		}
		if ap := s.AdditionalProperties; ap != nil && ap.Structural != nil && ap.Structural.Nullable {
			v.Required = nil
		}
		v.Required = slices.DeleteFunc(v.Required, func(name string) bool {
			return s.Properties[name] != nil && s.Properties[name].Nullable
		})
		if len(v.Required) == 0 {
			v.Required = nil
		}
		if reflect.DeepEqual(*v, ValueValidation{}) {
			s.ValueValidation = nil
		}
	}
	return out
}

// typeInAllOf is the type that some schema under allOf states.
func typeInAllOf(v *ValueValidation) string {
	for i := range v.AllOf {
		if g := &v.AllOf[i].ForbiddenGenerics; g.Type != "" && !g.Nullable {
			return g.Type
		}
	}
	return ""
}
