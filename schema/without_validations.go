package schema

// WithoutValueValidations returns the value-validation-less form: a copy of s
// without any condition on values, only types, fields and items. Whatever
// satisfies s satisfies it. Nil gives nil.
//
// x-kubernetes-validations is dropped with the rest. additionalProperties: false
// stays: it is no ValueValidation, whatever it means. What an embedded resource
// implies about its apiVersion, kind and metadata is structure and is written
// out, as the documents' example of a RawExtension has it.
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

// addShape adds to s the types, fields and items of implied that s has nothing
// about. Where s has another type, or is a map, it is left as it is.
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
	if implied.AdditionalProperties != nil && s.AdditionalProperties == nil && s.Properties == nil {
		s.AdditionalProperties = implied.AdditionalProperties
	}
	if s.Items == nil {
		s.Items = implied.Items
	}
}
