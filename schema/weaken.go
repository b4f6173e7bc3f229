package schema

import "slices"

// WeakenForOpenAPIV2 returns a copy of s without what OpenAPI v2 cannot express or
// kubectl cannot handle. Publish s.Unfold(sem).WeakenForOpenAPIV2(sem) as v2. The
// result is weaker: it accepts every value that s accepts. It is nil for nil.
//
//   - Logical operators are dropped. In the documents' semantics, so is pattern, and a
//     type that only an allOf has is kept.
//   - v2 has no nullable, and a type would reject null. So a nullable value has no type,
//     and it is not required, because kubectl treats null as absent.
//   - kubectl assumes that a value with properties has no other fields, and that nothing
//     is known about a value without a type or of type object. So properties and items
//     are dropped where null or unknown fields are allowed.
//   - kubectl expects an array to have items. An array without items has no type.
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
	}
	return out
}

// typeInAllOf returns the type that one of the schemas under allOf has.
func typeInAllOf(v *ValueValidation) string {
	for i := range v.AllOf {
		if g := &v.AllOf[i].ForbiddenGenerics; g.Type != "" && !g.Nullable {
			return g.Type
		}
	}
	return ""
}
