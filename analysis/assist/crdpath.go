package assist

import (
	"strconv"

	"espalier.dev/schema"
)

// schemaSpot is a place in a schema of a CRD document.
type schemaSpot struct {
	// version is the index of the version, or -1 if the schema is that of all versions.
	version int
	// at leads from the root of the document to the innermost schema around the place.
	at schema.Path
	// path leads there from the root of the schema.
	path schema.SchemaPath
	// rest leads from the innermost schema to the place: a keyword, and what is below it.
	rest schema.Path
}

// spotOf returns the place in a schema that a path of a CRD document leads to.
func spotOf(path schema.Path) (spot schemaSpot, ok bool) {
	n := 0
	names := func(keys ...string) bool {
		if len(path) < n+len(keys) {
			return false
		}
		for i, key := range keys {
			if step := path[n+i]; step.Kind == schema.Index || step.Key != key {
				return false
			}
		}
		n += len(keys)
		return true
	}
	switch {
	case !names("spec"):
		return spot, false
	case names("validation", "openAPIV3Schema"), names("validation", "jsonSchema"):
		spot.version = -1
	case names("versions") && len(path) > n && path[n].Kind == schema.Index:
		spot.version = path[n].Index
		if n++; !names("schema", "openAPIV3Schema") {
			return spot, false
		}
	default:
		return spot, false
	}
	for {
		step, steps := subschema(path[n:])
		if steps == 0 {
			break
		}
		spot.path = append(spot.path, step)
		n += steps
	}
	spot.at, spot.rest = path[:n:n], path[n:]
	return spot, true
}

// subschema returns the step to the schema that a path begins with, and its length in the path.
func subschema(path schema.Path) (schema.SchemaStep, int) {
	if len(path) == 0 || path[0].Kind == schema.Index {
		return schema.SchemaStep{}, 0
	}
	step := schema.SchemaStep{Keyword: path[0].Key}
	switch step.Keyword {
	case "properties", "patternProperties", "definitions", "dependencies":
		if len(path) > 1 && path[1].Kind != schema.Index {
			step.Form, step.Name = schema.StepNamed, path[1].Key
			return step, 2
		}
	case "allOf", "anyOf", "oneOf":
		if len(path) > 1 && path[1].Kind == schema.Index {
			step.Form, step.Index = schema.StepIndexed, path[1].Index
			return step, 2
		}
	case "items":
		if len(path) > 1 && path[1].Kind == schema.Index {
			step.Form, step.Index = schema.StepIndexed, path[1].Index
			return step, 2
		}
		return step, 1
	case "additionalProperties", "additionalItems", "not":
		return step, 1
	}
	return schema.SchemaStep{}, 0
}

// withoutNesting returns a path of a CRD document that leads to the same type without going through
// schemas in schemas: the schema of CustomResourceDefinition describes these to a limited depth.
func withoutNesting(path schema.Path) schema.Path {
	spot, ok := spotOf(path)
	if !ok || len(spot.path) == 0 {
		return path
	}
	var out schema.Path
	for _, step := range path {
		if out = append(out, step); step.Key == "openAPIV3Schema" || step.Key == "jsonSchema" {
			break
		}
	}
	return append(out, spot.rest...)
}

// pointerToSchema returns the pointer to the schema of a version in a v1 CRD.
func pointerToSchema(version int) string {
	return "/spec/versions/" + strconv.Itoa(version) + "/schema/openAPIV3Schema"
}
