package impact_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
)

// generator generates schemas, changes of schemas, and objects, as JSON trees. Names and values
// come from small pools, so that one schema often specifies fields that another one lacks.
type generator struct {
	*rand.Rand
	// rules reports whether schemas have CEL rules, which are slow to compile.
	rules bool
	// unions reports whether schemas have x-kubernetes-unions.
	unions bool
	// preserve reports whether all objects keep unknown fields, so that many have some.
	preserve bool
}

type tree = map[string]any

func pick[T any](g *generator, from ...T) T { return from[g.IntN(len(from))] }

func (g *generator) chance(percent int) bool { return g.IntN(100) < percent }

func (g *generator) name() string { return pick(g, "a", "b", "c", "d") }

func (g *generator) text() string {
	return pick(g, "", "a", "b", "ab", "abc", "abcdef", "é", "2020-01-02", "1.2.3.4", "x/y")
}

func (g *generator) float() float64 { return float64(g.IntN(24)-6) / 2 }

// value returns any JSON value.
func (g *generator) value(depth int) any {
	switch n := g.IntN(8); {
	case n == 0:
		return nil
	case n == 1:
		return g.chance(50)
	case n == 2:
		return g.IntN(14) - 3
	case n == 3:
		return g.float()
	case n == 4 || depth == 0:
		return g.text()
	case n == 5:
		list := make([]any, g.IntN(3))
		for i := range list {
			list[i] = g.value(depth - 1)
		}
		return list
	}
	obj := tree{}
	for range g.IntN(4) {
		obj[g.name()] = g.value(depth - 1)
	}
	return obj
}

// schema returns a structural schema.
func (g *generator) schema(depth int) tree {
	types := []string{"string", "integer", "number", "boolean", "intOrString", "any", "string", "integer"}
	if depth > 0 {
		types = append(types, "object", "object", "object", "map", "array", "array", "resource", "object", "object")
	}
	s := tree{}
	switch t := pick(g, types...); t {
	case "intOrString":
		s["x-kubernetes-int-or-string"] = true
	case "any":
		s["x-kubernetes-preserve-unknown-fields"] = true
		if g.chance(40) {
			s["type"] = "object"
		}
		if depth > 0 && g.chance(40) {
			s["type"], s["properties"] = "object", g.properties(depth-1)
		}
	case "object":
		s["type"], s["properties"] = "object", g.properties(depth-1)
		if g.chance(10) {
			s["x-kubernetes-preserve-unknown-fields"] = true
		}
	case "map":
		s["type"] = "object"
		s["additionalProperties"] = g.schema(depth - 1)
		if g.chance(20) {
			s["additionalProperties"] = g.chance(80)
		}
	case "array":
		s["type"], s["items"] = "array", g.schema(depth-1)
		if g.chance(40) {
			g.listType(s, depth)
		}
	case "resource":
		s["type"], s["x-kubernetes-embedded-resource"] = "object", true
		s["properties"] = g.properties(depth - 1)
		if g.chance(50) {
			s["x-kubernetes-preserve-unknown-fields"] = true
		}
	default:
		s["type"] = t
	}
	for range g.IntN(3) {
		g.condition(s, depth)
	}
	if g.chance(15) {
		s["nullable"] = true
	}
	if g.chance(15) {
		s["default"] = g.object(s)
	}
	return s
}

func (g *generator) properties(depth int) tree {
	props := tree{}
	for range 1 + g.IntN(3) {
		props[g.name()] = g.schema(depth)
	}
	return props
}

func (g *generator) listType(s tree, depth int) {
	s["x-kubernetes-list-type"] = pick(g, "atomic", "set", "map")
	switch s["x-kubernetes-list-type"] {
	case "set":
		s["items"] = tree{"type": pick(g, "string", "integer")}
	case "map":
		items := tree{"type": "object", "properties": g.properties(max(depth-1, 0))}
		key := g.name()
		items["properties"].(tree)[key] = tree{"type": pick(g, "string", "integer")}
		items["required"] = []any{key}
		s["items"], s["x-kubernetes-list-map-keys"] = items, []any{key}
	}
}

// condition sets a validation keyword for the schema's type.
func (g *generator) condition(s tree, depth int) {
	general := []string{"enum", "allOf", "anyOf", "oneOf", "not", "nullable"}
	if g.rules {
		general = append(general, "rule", "rule")
	}
	var own []string
	switch s["type"] {
	case "string":
		own = []string{"maxLength", "minLength", "pattern", "format"}
	case "integer", "number":
		own = []string{"maximum", "minimum", "multipleOf", "format"}
	case "array":
		own = []string{"maxItems", "minItems"}
	case "object":
		own = []string{"maxProperties", "minProperties", "required", "required"}
		if g.unions {
			own = append(own, "union")
		}
	case nil:
		own = []string{"maximum", "minimum", "maxLength", "pattern"}
	}
	if len(own) > 0 && g.chance(70) {
		g.keyword(s, pick(g, own...), depth)
		return
	}
	g.keyword(s, pick(g, general...), depth)
}

func (g *generator) keyword(s tree, k string, depth int) {
	switch k {
	case "maxLength", "maxItems", "maxProperties":
		s[k] = 1 + g.IntN(5)
	case "minLength", "minItems", "minProperties":
		s[k] = g.IntN(3)
	case "maximum", "minimum":
		s[k] = g.IntN(12) - 2
		if s["type"] != "integer" && g.chance(40) {
			s[k] = g.float()
		}
		exclusive := map[string]string{"maximum": "exclusiveMaximum", "minimum": "exclusiveMinimum"}[k]
		if delete(s, exclusive); g.chance(30) {
			s[exclusive] = true
		}
	case "multipleOf":
		s[k] = pick[any](g, 1, 2, 3, 4, 6, 0.5)
	case "pattern":
		s[k] = pick(g, "^a", "b", "^[a-z]*$", "c$")
	case "format":
		s[k] = pick(g, "date", "ipv4", "byte", "password", "unheard-of", "int32", "int64", "float", "double")
	case "enum":
		values := []any{}
		for range 1 + g.IntN(4) {
			values = append(values, g.bare(s))
		}
		s[k] = values
	case "required":
		names := []any{}
		for _, name := range slices.Sorted(maps.Keys(props(s))) {
			if g.chance(40) {
				names = append(names, name)
			}
		}
		s[k] = names
	case "nullable":
		s[k] = true
	case "allOf", "anyOf", "oneOf":
		branches := make([]any, 1+g.IntN(3))
		for i := range branches {
			branches[i] = g.branch(s, 2)
		}
		s[k] = branches
	case "not":
		s[k] = g.branch(s, 2)
	case "rule":
		s["x-kubernetes-validations"] = []any{tree{"rule": g.rule(s), "message": "no"}}
	case "union":
		fields := tree{}
		for _, name := range slices.Sorted(maps.Keys(props(s))) {
			fields[name] = "is-" + name
		}
		s["x-kubernetes-unions"] = []any{tree{"fields": fields}}
	}
}

func props(s tree) tree {
	p, _ := s["properties"].(tree)
	return p
}

// branch returns a branch of a logical operator of s: conditions on the value and its parts.
func (g *generator) branch(s tree, depth int) tree {
	b := tree{}
	if names := slices.Sorted(maps.Keys(props(s))); len(names) > 0 && depth > 0 && g.chance(80) {
		name := pick(g, names...)
		if g.chance(50) {
			b["required"] = []any{name}
		}
		if g.chance(60) {
			b["properties"] = tree{name: g.branch(props(s)[name].(tree), depth-1)}
		}
		return b
	}
	if items, ok := s["items"].(tree); ok && depth > 0 && g.chance(50) {
		b["items"] = g.branch(items, depth-1)
		return b
	}
	scratch := tree{"type": s["type"]}
	switch s["type"] {
	case "string":
		g.keyword(scratch, pick(g, "maxLength", "minLength", "pattern", "enum"), 0)
	case "integer", "number":
		g.keyword(scratch, pick(g, "maximum", "minimum", "enum"), 0)
	case "array":
		g.keyword(scratch, pick(g, "maxItems", "minItems"), 0)
	case "object":
		g.keyword(scratch, pick(g, "maxProperties", "minProperties"), 0)
	default:
		scratch["enum"] = []any{g.value(1), g.value(0)}
	}
	delete(scratch, "type")
	if depth > 0 && g.chance(15) {
		g.keyword(scratch, pick(g, "anyOf", "not", "allOf"), 0)
	}
	return scratch
}

// rule returns a rule that compiles for s.
func (g *generator) rule(s tree) string {
	switch s["type"] {
	case "string":
		return pick(g, "self != 'abc'", "size(self) < 4", "self.startsWith('a')")
	case "integer":
		return pick(g, "self != 3", "self % 2 == 0", "self / 2 < 3")
	case "array":
		return pick(g, "size(self) < 3", "size(self) != 1")
	case "object":
		if names := slices.Sorted(maps.Keys(props(s))); len(names) > 0 {
			name := pick(g, names...)
			switch p := props(s)[name].(tree); p["type"] {
			case "integer":
				return fmt.Sprintf(pick(g, "!has(self.%[1]s) || self.%[1]s / 2 < 3", "has(self.%[1]s)"), name)
			case "string":
				return fmt.Sprintf(pick(g, "!has(self.%[1]s) || self.%[1]s != 'ab'", "has(self.%[1]s) && size(self.%[1]s) < 5",
					"!has(self.%[1]s)||self.%[1]s != \"ab\"", "!has(oldSelf.%[1]s) || has(self.%[1]s)"), name)
			}
			return fmt.Sprintf(pick(g, "has(self.%s)", "!has(self.%s)"), name)
		}
		if s["additionalProperties"] != nil {
			return "size(self) != 2"
		}
	}
	return "true"
}

// bare returns a value of the schema's type, ignoring the other keywords.
func (g *generator) bare(s tree) any {
	switch s["type"] {
	case "string":
		return g.text()
	case "integer":
		return g.IntN(14) - 3
	case "number":
		return g.float()
	case "boolean":
		return g.chance(50)
	case "array":
		return []any{g.value(0)}
	case "object":
		return tree{g.name(): g.value(0)}
	}
	if s["x-kubernetes-int-or-string"] == true {
		return pick[any](g, g.IntN(14)-3, g.text())
	}
	return g.value(2)
}

// object returns a value that follows the structure of the schema, with some values that
// violate it.
func (g *generator) object(s tree) any {
	if g.chance(12) && s["nullable"] == true || g.chance(5) {
		return nil
	}
	if enum, ok := s["enum"].([]any); ok && g.chance(90) {
		return pick(g, enum...)
	}
	switch s["type"] {
	case "array":
		items, _ := s["items"].(tree)
		list := make([]any, g.IntN(4))
		for i := range list {
			list[i] = g.object(items)
		}
		return list
	case "object":
		obj := tree{}
		if s["x-kubernetes-embedded-resource"] == true {
			obj["apiVersion"], obj["kind"], obj["metadata"] = "v1", "Embedded", tree{"name": "x", "labels": tree{"a": "b"}}
		}
		required, _ := s["required"].([]any)
		for _, name := range slices.Sorted(maps.Keys(props(s))) {
			p := props(s)[name]
			if g.chance(65) || slices.Contains(required, any(name)) && g.chance(90) {
				obj[name] = g.object(p.(tree))
			}
		}
		switch ap := s["additionalProperties"].(type) {
		case tree:
			for range g.IntN(4) {
				obj[g.name()] = g.object(ap)
			}
		case bool:
			for range g.IntN(3) {
				obj[g.name()] = g.value(2)
			}
		}
		if g.chance(10) || g.preserve && g.chance(40) || s["x-kubernetes-preserve-unknown-fields"] == true && g.chance(80) {
			for range 1 + g.IntN(2) {
				if name := g.name(); obj[name] == nil {
					obj[name] = g.value(2)
				}
			}
		}
		return obj
	}
	return g.bare(s)
}

// nodes lists the schemas outside of logical operators in s, itself first.
func nodes(s tree) []tree {
	all := []tree{s}
	for _, name := range slices.Sorted(maps.Keys(props(s))) {
		all = append(all, nodes(props(s)[name].(tree))...)
	}
	for _, k := range []string{"items", "additionalProperties"} {
		if part, ok := s[k].(tree); ok {
			all = append(all, nodes(part)...)
		}
	}
	return all
}

// mutate changes a schema in one place.
func (g *generator) mutate(root tree) {
	all := nodes(root)
	s := all[g.IntN(len(all))]
	isRoot := g.IntN(len(all)) < 0
	switch g.IntN(16) {
	case 0, 1: // A property goes.
		if names := slices.Sorted(maps.Keys(props(s))); len(names) > 1 {
			name := pick(g, names...)
			delete(props(s), name)
			if required, ok := s["required"].([]any); ok && g.chance(60) {
				s["required"] = slices.DeleteFunc(required, func(x any) bool { return x == any(name) })
			}
		}
	case 2: // A property comes, or is replaced.
		if props(s) != nil {
			props(s)[g.name()] = g.schema(1)
		}
	case 3: // A keyword goes.
		keys := slices.DeleteFunc(slices.Sorted(maps.Keys(s)), func(k string) bool { return k == "type" || k == "properties" || k == "items" })
		if len(keys) > 0 {
			delete(s, pick(g, keys...))
		}
	case 4, 5, 6, 7: // A condition comes or changes.
		g.condition(s, 1)
	case 8: // A default comes or changes.
		s["default"] = g.object(s)
	case 9:
		if delete(s, "nullable"); g.chance(50) {
			s["nullable"] = true
		}
	case 10:
		if s["type"] == "object" || s["type"] == nil {
			delete(s, "x-kubernetes-preserve-unknown-fields")
			if g.chance(50) {
				s["x-kubernetes-preserve-unknown-fields"] = true
			}
		}
	case 11: // Fields become a map, or a map fields.
		if s["type"] == "object" && s["additionalProperties"] != nil {
			delete(s, "additionalProperties")
			s["properties"] = g.properties(1)
		} else if props(s) != nil && !isRoot {
			delete(s, "properties")
			delete(s, "required")
			s["additionalProperties"] = g.schema(1)
			if g.chance(20) {
				s["additionalProperties"] = true
			}
		}
	case 12: // Another type, with or without what was said about the old one.
		if s["type"] != "object" || g.chance(30) {
			s["type"] = pick(g, "string", "integer", "number", "boolean")
		}
		if s["type"] == "string" && g.chance(40) {
			delete(s, "type")
			s["x-kubernetes-int-or-string"] = true
		}
	case 13: // A list or map type.
		if s["type"] == "array" {
			g.listType(s, 1)
		} else if s["type"] == "object" {
			s["x-kubernetes-map-type"] = pick(g, "atomic", "granular")
		}
	case 14:
		if s["type"] == "object" && props(s) != nil {
			if s["x-kubernetes-embedded-resource"] == true {
				delete(s, "x-kubernetes-embedded-resource")
			} else {
				s["x-kubernetes-embedded-resource"] = true
			}
		}
	case 15: // A whole new schema.
		clear(s)
		maps.Copy(s, g.schema(1))
	}
}

// clone copies a tree through JSON.
func clone(s tree) tree {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	var out tree
	if err := json.Unmarshal(text, &out); err != nil {
		panic(err)
	}
	return out
}
