package sample

import (
	"maps"
	"slices"

	"espalier.dev/schema"
)

// maxOptional limits the optional fields of a minimal sample.
const maxOptional = 5

// begin adds optional fields to a minimal object whose spec is missing or empty. Without a
// spec in the schema, it uses the object itself. It reports whether it has added something.
func (g *generator) begin(root *schema.Structural, obj schema.Object) bool {
	if spec := root.Properties["spec"]; spec != nil {
		if present, ok := obj["spec"].(map[string]any); obj["spec"] != nil && (!ok || len(present) > 0) {
			return false
		}
		value := g.some(spec, needs(root.ValueValidation, nil).fields["spec"])
		if empty(value) {
			return false
		}
		obj["spec"] = value
		return true
	}
	rest := *root
	rest.Properties = maps.Clone(root.Properties)
	for _, name := range []string{"apiVersion", "kind", "metadata", "status"} {
		delete(rest.Properties, name)
	}
	for name := range obj {
		if rest.Properties[name] != nil {
			return false
		}
	}
	fields, _ := g.some(&rest, nil).(map[string]any)
	maps.Copy(obj, fields)
	return len(fields) > 0
}

// some generates a value with its required fields or, if there are none, with some of the
// others.
func (g *generator) some(s *schema.Structural, nested nestedList) any {
	value := g.value(s, nested, 0)
	if !empty(value) || g.made > maxValues {
		return value
	}
	n := needs(s.ValueValidation, nested)
	switch value := value.(type) {
	case map[string]any:
		for _, field := range optional(s, n) {
			if part := g.some(s.Properties[field], n.fields[field]); part != nil {
				value[field] = part
			}
		}
	case []any:
		if s.Items != nil && n.maxItems > 0 {
			return append(value, g.some(s.Items, n.items))
		}
	}
	return value
}

// optional returns the fields of an object to begin with: those without a default before
// others, and a few scalars or else one collection.
func optional(s *schema.Structural, n *need) []string {
	var plain, scalars, collections []string
	for _, field := range slices.Sorted(maps.Keys(s.Properties)) {
		prop := s.Properties[field]
		isCollection := prop.Type == "object" || prop.Type == "array"
		switch defaulted := prop.Default != nil && prop.Default.Value != nil; {
		case n.excluded[field]:
		case !isCollection && !defaulted:
			plain = append(plain, field)
		case !isCollection:
			scalars = append(scalars, field)
		default:
			collections = append(collections, field)
		}
	}
	most := int(min(n.maxProps, maxOptional))
	switch {
	case len(plain) > 0:
		return plain[:min(len(plain), most)]
	case len(collections) > 0:
		return collections[:min(1, most)]
	}
	return scalars[:min(len(scalars), most)]
}

// empty reports whether a value has no content.
func empty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return false
}
