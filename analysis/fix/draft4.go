package fix

import (
	"strings"

	"espalier.dev/internal/jsonx"
)

// maxInlined bounds how many schemas there are when references are replaced by what
// they refer to: forty definitions that each name the next one twice would be a million
// million.
const maxInlined = 10000

// inlined returns a schema of draft 4 with definitions in place of the references to
// them. A reference that cannot be replaced stays.
func inlined(root node) node {
	in := &inliner{definitions: schemas(root["definitions"]), open: map[string]bool{}}
	out := in.schema(jsonx.CopyObject(root))
	delete(out, "definitions")
	return out
}

type inliner struct {
	definitions map[string]node
	// open are the definitions around the schema at hand: one that leads back to itself
	// has no end.
	open  map[string]bool
	count int
}

// schema replaces the references in s and below.
func (in *inliner) schema(s node) node {
	in.count++
	if ref, ok := s["$ref"].(string); ok {
		name, local := strings.CutPrefix(ref, "#/definitions/")
		def := in.definitions[name]
		if !local || def == nil || in.open[name] || in.count > maxInlined {
			return node{"$ref": ref}
		}
		// Whatever stands beside a reference does not count.
		in.open[name] = true
		defer delete(in.open, name)
		return in.schema(jsonx.CopyObject(def))
	}
	for _, k := range sortedKeys(s) {
		switch k {
		case "properties", "patternProperties":
			m, _ := s[k].(map[string]any)
			for _, name := range sortedKeys(m) {
				if sub := schemaOf(m[name]); sub != nil {
					m[name] = in.schema(sub)
				}
			}
		case "items", "additionalItems", "additionalProperties", "not":
			if sub := schemaOf(s[k]); sub != nil {
				s[k] = in.schema(sub)
			}
			in.list(s[k])
		case "allOf", "anyOf", "oneOf":
			in.list(s[k])
		}
	}
	return s
}

func (in *inliner) list(v any) {
	list, _ := v.([]any)
	for i := range list {
		if sub := schemaOf(list[i]); sub != nil {
			list[i] = in.schema(sub)
		}
	}
}
