package fix

import (
	"hash/fnv"
	"math/rand"
)

// random generates schemas and objects from a small set of names and values, so that
// schemas and objects often have the same fields.
type random struct{ *rand.Rand }

func (r random) one(in int) bool { return r.Intn(in) == 0 }

func pick[T any](r random, from ...T) T { return from[r.Intn(len(from))] }

func (r random) name() string { return pick(r, "a", "b", "c") }

// schema returns a schema with types, fields and maps at arbitrary positions.
func (r random) schema(depth int, nested bool) node {
	s := node{}
	if !r.one(3) {
		s["type"] = pick(r, "object", "object", "object", "string", "integer", "number", "boolean", "array")
	}
	if r.one(8) {
		s["nullable"] = true
	}
	if r.one(8) {
		s["description"] = "a description"
	}
	switch r.Intn(12) {
	case 0:
		s["minLength"] = int64(r.Intn(3))
	case 1:
		s["maximum"] = int64(r.Intn(3))
	case 2:
		s["enum"] = []any{r.scalar(), r.scalar()}
	case 3:
		s["required"] = []any{r.name()}
	case 4:
		s["maxProperties"] = int64(1 + r.Intn(2))
	case 5:
		if s["type"] == "integer" {
			s["format"] = "int32"
		}
	case 6:
		s["x-kubernetes-preserve-unknown-fields"] = true
	}
	if depth <= 0 {
		return s
	}
	if t := s["type"]; (t == "object" || t == nil) && !r.one(4) {
		props := node{}
		for range 1 + r.Intn(2) {
			props[r.name()] = r.schema(depth-1, nested)
		}
		s["properties"] = props
	}
	if t := s["type"]; t == "array" || t == nil && r.one(6) {
		s["items"] = r.schema(depth-1, nested)
	}
	if t := s["type"]; (t == "object" || t == nil) && s["properties"] == nil && r.one(3) {
		s["additionalProperties"] = r.schema(depth-1, nested)
	} else if s["properties"] != nil && r.one(20) {
		s["additionalProperties"] = pick[any](r, true, false, r.schema(depth-1, nested))
	}
	for _, operator := range []string{"allOf", "anyOf", "oneOf"} {
		if r.one(4) {
			var branches []any
			for range 1 + r.Intn(3) {
				branches = append(branches, r.schema(depth-1, true))
			}
			s[operator] = branches
		}
	}
	if r.one(8) {
		s["not"] = r.schema(depth-1, true)
	}
	if r.one(15) {
		delete(s, "type")
		s[pick(r, "anyOf", "oneOf")] = []any{node{"type": "string"}, node{"type": "integer"}}
	}
	return s
}

// draft4 returns a draft-4 schema, with references and keywords that OpenAPI lacks.
func (r random) draft4(depth int) node {
	s := r.schema(depth, false)
	eachSchema(s, r.age)
	s["type"] = "object"
	delete(s, "$ref")
	s["definitions"] = node{"one": r.plain(), "two": node{"properties": node{"a": node{"$ref": "#/definitions/one"}}}}
	return s
}

// plain returns a schema of keywords that draft 4 and OpenAPI share.
func (r random) plain() node {
	s := r.schema(1, false)
	eachSchema(s, withoutExtensions)
	return s
}

func withoutExtensions(s node) {
	delete(s, "nullable")
	delete(s, preserve)
}

// eachSchema visits the subschemas of s, and then s.
func eachSchema(s node, visit func(node)) {
	for _, keyword := range sortedKeys(s) {
		switch sub := s[keyword].(type) {
		case node:
			if keyword != "properties" {
				eachSchema(sub, visit)
				continue
			}
			for _, name := range sortedKeys(sub) {
				eachSchema(sub[name].(node), visit)
			}
		case []any:
			for i := range sub {
				if n := schemaOf(sub[i]); n != nil {
					eachSchema(n, visit)
				}
			}
		}
	}
	visit(s)
}

// age adds draft-4 keywords to a schema.
func (r random) age(s node) {
	withoutExtensions(s)
	switch r.Intn(12) {
	case 0:
		clear(s)
		s["$ref"] = pick(r, "#/definitions/one", "#/definitions/two")
	case 1:
		s["type"] = []any{pick(r, "object", "string", "array"), pick(r, "integer", "null")}
	case 2:
		s["patternProperties"] = node{pick(r, "^a", "b", "d"): r.plain()}
	case 3:
		s["dependencies"] = node{"a": []any{"b"}}
	case 4:
		s["items"] = []any{r.plain(), r.plain()}
		s["additionalItems"] = pick[any](r, true, false, r.plain())
	case 5:
		if s["properties"] != nil {
			s["additionalProperties"] = false
		}
	case 6:
		s["uniqueItems"] = true
	}
}

func (r random) scalar() any {
	return pick[any](r, "", "x", "xyz", int64(0), int64(1), int64(7), int64(120), 1.5, true, false, nil)
}

// value returns an arbitrary value.
func (r random) value(depth int) any {
	switch k := r.Intn(6); {
	case k < 3 && depth > 0:
		return r.object(depth)
	case k == 3 && depth > 0:
		list := []any{}
		for range r.Intn(3) {
			list = append(list, r.value(depth-1))
		}
		return list
	}
	return r.scalar()
}

func (r random) object(depth int) map[string]any {
	obj := map[string]any{}
	for _, name := range []string{"a", "b", "c", "d"} {
		if r.one(2) {
			obj[name] = r.value(depth - 1)
		}
	}
	return obj
}

// of returns a value that a schema may accept: it follows one branch of each logical
// operator.
func (r random) of(s node, depth int) any {
	if enum, ok := s["enum"].([]any); ok && r.one(2) {
		return pick(r, enum...)
	}
	for _, operator := range []string{"allOf", "anyOf", "oneOf"} {
		if branches := schemaList(s[operator]); len(branches) > 0 && r.one(2) {
			return r.of(pick(r, branches...), depth)
		}
	}
	switch typ, null := statedType(s); {
	case null && r.one(8):
		return nil
	case r.one(20):
		return r.value(depth)
	case typ == "object" || s["properties"] != nil:
		obj := map[string]any{}
		fields := schemas(s["properties"])
		for _, name := range sortedKeys(fields) {
			if !r.one(3) {
				obj[name] = r.of(fields[name], depth-1)
			}
		}
		required, _ := s["required"].([]any)
		for _, name := range required {
			name := name.(string)
			if f := fields[name]; f != nil {
				obj[name] = r.of(f, depth-1)
			} else {
				obj[name] = r.value(depth - 1)
			}
		}
		if values := schemaOf(s["additionalProperties"]); values != nil {
			obj[r.name()] = r.of(values, depth-1)
		} else if r.one(4) {
			obj["d"] = r.value(depth - 1)
		}
		return obj
	case typ == "array" || s["items"] != nil:
		list := []any{}
		if items := schemaOf(s["items"]); items != nil {
			for range r.Intn(3) {
				list = append(list, r.of(items, depth-1))
			}
		}
		return list
	case typ == "string" || typ == intOrString:
		return pick(r, "", "x", "xyz")
	case typ == "integer":
		return pick(r, int64(0), int64(1), int64(7))
	case typ == "number":
		return pick[any](r, int64(1), 1.5)
	case typ == "boolean":
		return r.one(2)
	}
	return r.value(depth)
}

// newRandom returns a generator that is seeded by the name.
func newRandom(name string) random {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	return random{rand.New(rand.NewSource(int64(h.Sum64())))}
}
