package oracle

// A breaker makes a schema non-structural, or nearly so.
type breaker func(g *gen, s map[string]any)

// coreBreakers work on a schema outside of logical operators.
var coreBreakers = []breaker{
	func(_ *gen, s map[string]any) { delete(s, "type") },
	func(g *gen, s map[string]any) {
		s["type"] = pick(g, []any{"object", "array", "string", "integer", "number", "boolean", "null", "nonsense"})
	},
	func(_ *gen, s map[string]any) { s["x-kubernetes-embedded-resource"] = true },
	func(_ *gen, s map[string]any) { s["x-kubernetes-int-or-string"] = true },
	func(_ *gen, s map[string]any) { s["x-kubernetes-preserve-unknown-fields"] = true },
	func(_ *gen, s map[string]any) { s["x-kubernetes-preserve-unknown-fields"] = false },
	func(_ *gen, s map[string]any) { delete(s, "items") },
	func(_ *gen, s map[string]any) { delete(s, "properties") },
	func(g *gen, s map[string]any) { s["additionalProperties"] = g.boolOrSchema() },
	func(g *gen, s map[string]any) { s["pattern"] = pick(g, badRegex) },
	func(g *gen, s map[string]any) { g.setProperty(s, "metadata", g.brokenMetadata()) },
	func(g *gen, s map[string]any) { g.setProperty(s, "kind", g.schema(5)) },
	func(g *gen, s map[string]any) { g.setProperty(s, "apiVersion", g.schema(5)) },
	func(g *gen, s map[string]any) { g.setProperty(s, g.name(), g.schema(4)) },
	func(g *gen, s map[string]any) { g.logicalOperators(s, 2) },
	func(_ *gen, s map[string]any) {
		s["oneOf"] = list(object("type", "integer"), object("type", "string"))
	},
	func(g *gen, s map[string]any) {
		s["anyOf"] = list(object("type", "integer"), object("type", "string"))
		if g.chance(50) {
			s["anyOf"] = list(object("type", "string"), object("type", "integer"))
		}
		if g.chance(50) {
			s["allOf"] = list(object("anyOf", s["anyOf"], "maximum", int64(3)))
		}
		if g.chance(30) {
			s["x-kubernetes-int-or-string"] = true
		}
	},
	func(_ *gen, s map[string]any) { s["x-kubernetes-validations"] = list(object("rule", "self == self")) },
	func(g *gen, s map[string]any) { g.unsupported(s) },
}

// clauseBreakers work on a schema inside of a logical operator.
var clauseBreakers = []breaker{
	func(g *gen, s map[string]any) {
		s["type"] = pick(g, []any{"object", "array", "string", "integer", "nonsense"})
	},
	func(g *gen, s map[string]any) { s["default"] = g.anyValue(2) },
	func(_ *gen, s map[string]any) { s["description"] = "x" },
	func(_ *gen, s map[string]any) { s["title"] = "x" },
	func(_ *gen, s map[string]any) { s["nullable"] = true },
	func(_ *gen, s map[string]any) { s["example"] = "x" },
	func(_ *gen, s map[string]any) { s["externalDocs"] = object("url", "x") },
	func(_ *gen, s map[string]any) { s["x-kubernetes-embedded-resource"] = true },
	func(_ *gen, s map[string]any) { s["x-kubernetes-int-or-string"] = true },
	func(_ *gen, s map[string]any) { s["x-kubernetes-preserve-unknown-fields"] = true },
	func(_ *gen, s map[string]any) { s["x-kubernetes-preserve-unknown-fields"] = false },
	func(_ *gen, s map[string]any) { s["x-kubernetes-list-type"] = "set" },
	func(_ *gen, s map[string]any) { s["x-kubernetes-list-map-keys"] = list("a") },
	func(_ *gen, s map[string]any) { s["x-kubernetes-map-type"] = "atomic" },
	func(_ *gen, s map[string]any) { s["x-kubernetes-validations"] = list(object("rule", "true")) },
	func(g *gen, s map[string]any) { s["additionalProperties"] = g.boolOrSchema() },
	func(g *gen, s map[string]any) { s["pattern"] = pick(g, badRegex) },
	func(g *gen, s map[string]any) {
		g.setProperty(s, pick(g, []string{"metadata", "a", "other"}), g.clause([]map[string]any{{}}, 2))
	},
	func(g *gen, s map[string]any) { s["items"] = g.clause([]map[string]any{{}}, 2) },
	func(g *gen, s map[string]any) { g.logicalOperators(s, 2) },
	func(g *gen, s map[string]any) { g.unsupported(s) },
}

// unsupported adds a keyword that structural schemas do not allow.
func (g *gen) unsupported(s map[string]any) {
	switch g.r.IntN(9) {
	case 0:
		s["id"] = pick(g, []any{"x", ""})
	case 1:
		s["$schema"] = pick(g, []any{"x", ""})
	case 2:
		s["$ref"] = pick(g, []any{"#/definitions/x", ""})
	case 3:
		s["patternProperties"] = pick(g, []any{object("x", object()), object()})
	case 4:
		s["dependencies"] = pick(g, []any{object("x", list("y")), object(), object("x", object())})
	case 5:
		s["additionalItems"] = pick(g, []any{true, false, object()})
	case 6:
		s["definitions"] = pick(g, []any{object("x", object()), object()})
	case 7:
		s["items"] = pick(g, []any{list(object("type", "string")), list()})
	case 8:
		s["uniqueItems"] = true
	}
}

func (g *gen) boolOrSchema() any {
	if g.chance(50) {
		return g.chance(50)
	}
	return g.schema(5)
}

func (g *gen) setProperty(s map[string]any, name string, p map[string]any) {
	props, ok := s["properties"].(map[string]any)
	if !ok {
		props = map[string]any{}
		s["properties"] = props
	}
	props[name] = p
}

func (g *gen) brokenMetadata() map[string]any {
	m := object("type", pick(g, []any{"object", "object", "string"}))
	switch g.r.IntN(8) {
	case 0:
		m["properties"] = object("name", object("type", "string"), "labels", object("type", "object"))
	case 1:
		m["properties"] = object("name", object("type", "string"), "generateName", object("type", "string", "pattern", "^a"))
	case 2:
		m["properties"] = object("labels", object("type", "object"))
	case 3:
		m["minProperties"] = int64(1)
	case 4:
		m["default"] = object()
	case 5:
		m[pick(g, []string{"title", "description"})] = "x"
	case 6:
		m["anyOf"] = list(object("required", list("name")))
	case 7:
		m[pick(g, []string{"nullable", "x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"})] = true
	}
	return m
}

// broken generates a schema that is probably not structural.
func (g *gen) broken() map[string]any {
	g.stored = true
	g.room = 5 + g.r.IntN(20)
	root := g.rootSchema()
	for range 1 + g.r.IntN(4) {
		var core, clauses []map[string]any
		collectSchemas(root, &core, &clauses)
		if len(clauses) > 0 && g.chance(50) {
			pick(g, clauseBreakers)(g, pick(g, clauses))
		} else {
			pick(g, coreBreakers)(g, pick(g, core))
		}
	}
	return root
}

// collectSchemas lists the schemas in s, those in logical operators separately.
func collectSchemas(s map[string]any, core, clauses *[]map[string]any) {
	*core = append(*core, s)
	subschemas(s, func(sub map[string]any, operator bool) {
		if operator {
			collectSchemas(sub, clauses, clauses)
		} else {
			collectSchemas(sub, core, clauses)
		}
	})
}

// subschemas visits the schemas directly in s, in a fixed order.
func subschemas(s map[string]any, visit func(sub map[string]any, operator bool)) {
	for _, k := range []string{"items", "additionalProperties", "not"} {
		if sub, ok := s[k].(map[string]any); ok {
			visit(sub, k == "not")
		}
	}
	if props, ok := s["properties"].(map[string]any); ok {
		for _, k := range sortedKeys(props) {
			if sub, ok := props[k].(map[string]any); ok {
				visit(sub, false)
			}
		}
	}
	for _, k := range []string{"allOf", "anyOf", "oneOf"} {
		if clauses, ok := s[k].([]any); ok {
			for _, c := range clauses {
				if sub, ok := c.(map[string]any); ok {
					visit(sub, true)
				}
			}
		}
	}
}
