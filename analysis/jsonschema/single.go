package jsonschema

import "slices"

// single rewrites a schema, and all schemas in it, so that no type is a list of types: null and
// other types become alternatives of anyOf.
func single(s Schema) Schema {
	for _, name := range []string{"items", "additionalProperties", "not", "if", "then"} {
		if inner, ok := s[name].(Schema); ok {
			s[name] = single(inner)
		}
	}
	for _, name := range []string{"properties", "definitions"} {
		all, _ := s[name].(Schema)
		for key, inner := range all {
			all[key] = single(inner.(Schema))
		}
	}
	for _, name := range []string{"allOf", "anyOf", "oneOf"} {
		all, _ := s[name].([]any)
		for i, inner := range all {
			all[i] = single(inner.(Schema))
		}
	}
	types, ok := s["type"].([]any)
	if !ok {
		return s
	}
	others := slices.DeleteFunc(slices.Clone(types), func(t any) bool { return t == "null" })
	s["type"] = others[0]
	if len(others) > 1 {
		delete(s, "type")
		var choices []any
		for _, t := range others {
			choices = append(choices, Schema{"type": t})
		}
		if s["anyOf"] == nil {
			s["anyOf"] = choices
		} else {
			all, _ := s["allOf"].([]any)
			s["allOf"] = append(slices.Clone(all), Schema{"anyOf": choices})
		}
	}
	if len(others) == len(types) {
		return s
	}
	if values, ok := s["enum"].([]any); ok {
		s["enum"] = slices.DeleteFunc(slices.Clone(values), func(v any) bool { return v == nil })
	}
	return s.around(Schema{"anyOf": []any{s, Schema{"type": "null"}}})
}

// around moves what editors show to out, a schema around s.
func (s Schema) around(out Schema) Schema {
	for _, name := range []string{"description", "default"} {
		if v, ok := s[name]; ok {
			out[name] = v
			delete(s, name)
		}
	}
	return out
}
