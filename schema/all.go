package schema

import (
	"iter"
	"maps"
	"slices"
)

// All iterates over s and the schemas below it that are not under a logical operator:
// those of items, properties and additionalProperties. A schema comes before the
// schemas below it, properties come in the order of their names. A nil s has none.
//
// The path leads from s to the schema. It is valid until the next iteration: clone it
// to keep it. The loop may change the schema that it is given, and then continues
// with what the schema holds after the change.
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

// Any reports whether has holds for s or a schema below it, as All finds them.
func (s *Structural) Any(has func(*Structural) bool) bool {
	for _, sub := range s.All() {
		if has(sub) {
			return true
		}
	}
	return false
}
