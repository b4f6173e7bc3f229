package explain

import (
	"maps"
	"slices"
	"strings"

	"espalier.dev/crd"
	"espalier.dev/internal/nearest"
	"espalier.dev/schema"
)

// DescribeAt explains the value of an object at a path. Other than a path of Describe, it has an
// index for each list and a key for each map on the way.
//
// The error is an [*UnknownFieldError] if the schema specifies no such value. The Doc then explains
// the value that lacks it, whose UnknownFields say what happens to it.
func DescribeAt(v *crd.Version, path schema.Path) (*Doc, error) {
	doc, at, err := start(v)
	if err != nil {
		return nil, err
	}
	for _, step := range path {
		next, found := at.into(step)
		if !found {
			err = at.unknown(step)
			break
		}
		at = next
	}
	w := &walker{semantics: v.Definition().Semantics()}
	doc.Field = w.describe(at, 1)
	return doc, err
}

// DescribeSchema explains a schema by itself: the name, the path and the schemas around it are
// unknown.
func DescribeSchema(s *schema.Structural, sem schema.Semantics) *Field {
	w := &walker{semantics: sem}
	f := w.describe(place{fates: newFates(s, schema.PruningOn, "nothing preserves them")}, 0)
	f.UnknownFields = nil // it depends on the schemas around it
	return f
}

// into returns the place of a part of the value, and reports whether the schema specifies it.
func (p place) into(step schema.Step) (place, bool) {
	s := p.schema()
	if step.Kind == schema.Index {
		if s.Items == nil {
			return p, false
		}
		return p.items(), true
	}
	if _, ok := s.Properties[step.Key]; ok {
		return p.field(step.Key), true
	}
	if ap := s.AdditionalProperties; ap != nil && ap.Structural != nil {
		return p.values(), true
	}
	return p, false
}

// unknown returns the error about a part of the value that the schema does not specify.
func (p place) unknown(step schema.Step) *UnknownFieldError {
	s := p.schema()
	e := &UnknownFieldError{Path: p.path, Name: step.Key, Type: typeName(s), Known: slices.Sorted(maps.Keys(s.Properties))}
	if step.Kind == schema.Index {
		e.Name = strings.TrimPrefix(schema.Path{step}.String(), ".")
	} else {
		e.Nearest = nearest.Name(step.Key, slices.Values(e.Known))
	}
	e.Preserved = !p.fates[0].at.Prunes() || s.AdditionalProperties != nil && s.AdditionalProperties.Bool
	return e
}
