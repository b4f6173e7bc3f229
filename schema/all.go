package schema

import (
	"iter"
	"maps"
	"slices"
)

// All iterates over s and its subschemas under items, properties and
// additionalProperties, but not under logical operators. A schema comes before its
// subschemas, and properties are sorted by name. A nil s yields nothing.
//
// The path leads from s to the schema. It is valid until the next iteration: clone it to
// keep it. The loop body may change the schema it receives; All then continues with the
// changed schema.
func (s *Structural) All() iter.Seq2[SchemaPath, *Structural] {
	return func(yield func(SchemaPath, *Structural) bool) {
		s.all(nil, yield)
	}
}

func (s *Structural) all(path SchemaPath, yield func(SchemaPath, *Structural) bool) bool {
	if s == nil {
		return true
	}
	if !yield(path, s) || !s.Items.all(append(path, keyword("items")), yield) {
		return false
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		if !s.Properties[name].all(append(path, named("properties", name)), yield) {
			return false
		}
	}
	return s.AdditionalProperties == nil || s.AdditionalProperties.Structural.all(append(path, keyword("additionalProperties")), yield)
}

// Any reports whether has returns true for s or for one of the schemas that All visits.
func (s *Structural) Any(has func(*Structural) bool) bool {
	for _, sub := range s.All() {
		if has(sub) {
			return true
		}
	}
	return false
}
