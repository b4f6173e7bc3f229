package fix

import (
	"strings"

	"espalier.dev/internal/jsonx"
)

// maxInlined limits the number of schemas after references are replaced by their
// definitions. Forty definitions that each refer to the next one twice would expand to
// 10^12 schemas.
const maxInlined = 10000

// inlined returns a draft-4 schema with its references replaced by their definitions. A
// reference that cannot be replaced stays.
func inlined(root node) node {
	in := &inliner{definitions: schemas(root["definitions"]), open: map[string]bool{}}
	out := in.schema(jsonx.CopyObject(root))
	delete(out, "definitions")
	return out
}

type inliner struct {
	definitions map[string]node
	// open holds the definitions that are being expanded, to detect cycles.
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
		// Keywords next to a reference have no effect.
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
