package sample

import (
	"slices"

	"espalier.dev/schema"
)

// at returns the value at a path.
func at(v any, path schema.Path) (any, bool) {
	for _, s := range path {
		switch x := v.(type) {
		case map[string]any:
			child, ok := x[s.Key]
			if !ok || s.Kind == schema.Index {
				return nil, false
			}
			v = child
		case []any:
			if s.Kind != schema.Index || s.Index >= len(x) {
				return nil, false
			}
			v = x[s.Index]
		default:
			return nil, false
		}
	}
	return v, true
}

// put sets the value at a path, whose parent must exist. An index may be one past the end.
func put(obj schema.Object, path schema.Path, v any) bool {
	if len(path) == 0 {
		return false
	}
	last := path[len(path)-1]
	parent, ok := at(obj, path[:len(path)-1])
	if !ok {
		return false
	}
	switch x := parent.(type) {
	case map[string]any:
		if last.Kind == schema.Index {
			return false
		}
		x[last.Key] = v
		return true
	case []any:
		if last.Kind != schema.Index || last.Index > len(x) {
			return false
		}
		if last.Index < len(x) {
			x[last.Index] = v
			return true
		}
		return put(obj, path[:len(path)-1], append(slices.Clip(x), v))
	}
	return false
}

// remove removes the value at a path.
func remove(obj schema.Object, path schema.Path) bool {
	if len(path) == 0 {
		return false
	}
	last := path[len(path)-1]
	parent, ok := at(obj, path[:len(path)-1])
	if !ok {
		return false
	}
	switch x := parent.(type) {
	case map[string]any:
		if _, ok := x[last.Key]; !ok {
			return false
		}
		delete(x, last.Key)
		return true
	case []any:
		if last.Kind != schema.Index || last.Index >= len(x) {
			return false
		}
		return put(obj, path[:len(path)-1], slices.Delete(slices.Clone(x), last.Index, last.Index+1))
	}
	return false
}

// schemaAt returns the schema of the value at a path, or nil if there is none.
func schemaAt(s *schema.Structural, path schema.Path) *schema.Structural {
	for _, step := range path {
		if s == nil {
			return nil
		}
		s = part(s, step)
	}
	return s
}

// part returns the schema of a part of a value of s.
func part(s *schema.Structural, step schema.Step) *schema.Structural {
	if step.Kind == schema.Index {
		return s.Items
	}
	if prop, ok := s.Properties[step.Key]; ok {
		return prop
	}
	if ap := s.AdditionalProperties; ap != nil {
		return ap.Structural
	}
	return nil
}

// join appends steps to a path without changing its backing array.
func join(path schema.Path, steps ...schema.Step) schema.Path {
	return append(slices.Clip(path), steps...)
}

func field(name string) schema.Step { return schema.Step{Key: name} }
func index(i int) schema.Step       { return schema.Step{Index: i, Kind: schema.Index} }
