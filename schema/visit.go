package schema

// visit calls f for s and for every schema below it that is not under a junctor:
// those of items, properties and additionalProperties. f runs before the schemas
// below are visited, may change s, and is then followed into what it put there.
func (s *Structural) visit(f func(*Structural)) {
	if s == nil {
		return
	}
	f(s)
	s.Items.visit(f)
	for _, prop := range s.Properties {
		prop.visit(f)
	}
	if s.AdditionalProperties != nil {
		s.AdditionalProperties.Structural.visit(f)
	}
}
