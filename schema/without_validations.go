package schema

// WithoutValueValidations returns a copy of s without value validations: only types,
// fields and items are left. Every value that s accepts, the result accepts too. It
// returns nil for nil.
//
// x-kubernetes-validations is dropped as well. additionalProperties: false is kept,
// because it is not a ValueValidation. The implied apiVersion, kind and metadata of an
// embedded resource are structure and become explicit, as in the documents' example of a
// RawExtension.
func (s *Structural) WithoutValueValidations() *Structural {
	out := s.DeepCopy()
	for _, s := range out.All() {
		s.ValueValidation = nil
		s.XValidations = nil
		if !s.XEmbeddedResource {
			continue
		}
		if s.Properties == nil {
			s.Properties = map[string]*Structural{}
		}
		for name, implied := range embeddedResourceFields() {
			if s.Properties[name] == nil {
				s.Properties[name] = implied
			} else {
				addShape(s.Properties[name], implied)
			}
		}
	}
	return out
}

// addShape adds the types, fields and items of implied that s does not specify. It does
// not change s if s has a different type or is a map.
func addShape(s, implied *Structural) {
	if s.Type == "" && !s.XIntOrString {
		s.Type = implied.Type
	}
	if s.Type != implied.Type {
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
				addShape(s.Properties[name], field)
			}
		}
	}
	if s.AdditionalProperties == nil && s.Properties == nil {
		s.AdditionalProperties = implied.AdditionalProperties
	}
	if s.Items == nil {
		s.Items = implied.Items
	}
}
