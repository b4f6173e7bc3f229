package oracle

// schemaChange is one way to change a schema.
type schemaChange struct {
	name   string
	change func(g *gen, s map[string]any)
}

// schemaChanges are the changes of one schema of a CRD.
func schemaChanges() []schemaChange {
	sub := func(g *gen) map[string]any {
		g.room = 6
		return g.schema(1)
	}
	some := func(g *gen) any { return g.anyValue(0) }
	changes := []schemaChange{
		{"type", setOne("type", "object", "array", "string", "integer", "number", "boolean", "null", "file", "")},
		{"default", func(g *gen, s map[string]any) { s["default"] = some(g) }},
		{"fitting default", func(g *gen, s map[string]any) { s["default"] = g.value(g.constraints(s), 0) }},
		{"default like an object", func(g *gen, s map[string]any) {
			s["default"] = object("apiVersion", pick(g, []any{"v1", "", int64(1), "a/b/c"}), "kind", pick(g, []any{"Pod", "", nil, "a b"}),
				"metadata", pick(g, []any{object("name", "x"), object("labels", object("a", int64(1))), "x", object("unknown", true), object("name", "A B"), object("creationTimestamp", nil)}), "spec", some(g))
		}},
		{"nullable", setOne("nullable", true, false)},
		{"format", setOne("format", "int32", "date-time", "uuid", "what", "double", "k8s-short-name", "ipv4")},
		{"pattern", func(g *gen, s map[string]any) {
			s["pattern"] = pick(g, append(append([]string{}, patterns...), badRegex...))
		}},
		{"enum", setOne("enum", list("a"), list(int64(1), "b", nil), list(), list(object()))},
		{"uniqueItems", setOne("uniqueItems", true, false)},
		{"maximum", setOne("maximum", int64(5), 1.5, int64(-1))},
		{"exclusiveMaximum", setOne("exclusiveMaximum", true, false)},
		{"minimum", setOne("minimum", int64(5), 1.5, int64(-1))},
		{"exclusiveMinimum", setOne("exclusiveMinimum", true, false)},
		{"maxLength", setOne("maxLength", int64(3), int64(0), int64(-1))},
		{"minLength", setOne("minLength", int64(3), int64(0), int64(-1))},
		{"maxItems", setOne("maxItems", int64(1), int64(0))},
		{"minItems", setOne("minItems", int64(1), int64(0))},
		{"multipleOf", setOne("multipleOf", int64(2), 0.5, int64(0))},
		{"maxProperties", setOne("maxProperties", int64(1), int64(0))},
		{"minProperties", setOne("minProperties", int64(1), int64(0))},
		{"required", setOne("required", list("a"), list("spec", "b"), list())},
		{"title", setOne("title", "t")},
		{"description", setOne("description", "d")},
		{"externalDocs", setOne("externalDocs", object("url", "x"), object())},
		{"example", func(g *gen, s map[string]any) { s["example"] = some(g) }},
		{"id", setOne("id", "x", "")},
		{"$schema", setOne("$schema", "http://json-schema.org/draft-04/schema#", "")},
		{"$ref", setOne("$ref", "#/definitions/x", "")},
		{"definitions", func(g *gen, s map[string]any) { s["definitions"] = object("x", sub(g)) }},
		{"dependencies", func(g *gen, s map[string]any) {
			s["dependencies"] = pick(g, []any{object("x", list("y")), object("x", sub(g)), object()})
		}},
		{"patternProperties", func(g *gen, s map[string]any) { s["patternProperties"] = object("^x", sub(g)) }},
		{"additionalItems", setOne("additionalItems", true, false, object("type", "string"))},
		{"properties", func(g *gen, s map[string]any) {
			if g.chance(20) {
				delete(s, "properties")
				return
			}
			g.setProperty(s, g.name(), sub(g))
		}},
		{"metadata property", func(g *gen, s map[string]any) {
			g.setProperty(s, pick(g, []string{"metadata", "metadata", "kind", "apiVersion"}), pick(g, []map[string]any{
				object("type", "object"), object("type", "string"), object(), object("type", "object", "properties", object("name", object("type", "string", "pattern", "^x"))),
				object("type", "object", "properties", object("labels", object("type", "object", "additionalProperties", object("type", "string", "default", "x")))),
				object("type", "string", "default", "x"), object("type", "object", "default", object("name", "x")),
				object("type", "object", "properties", object("name", object("type", "string", "default", pick(g, []string{"x", "A B"})))),
				object("type", "object", "properties", object("finalizers", object("type", "array", "items", object("type", "string", "default", "no slash")))),
				object("type", "object", "x-kubernetes-embedded-resource", true, "x-kubernetes-preserve-unknown-fields", true),
			}))
		}},
		{"properties, empty", func(g *gen, s map[string]any) { s["properties"] = object() }},
		{"additionalProperties", func(g *gen, s map[string]any) {
			s["additionalProperties"] = pick(g, []any{true, false, sub(g), object()})
			if g.chance(30) {
				delete(s, "properties")
			}
		}},
		{"items", func(g *gen, s map[string]any) {
			s["items"] = pick(g, []any{sub(g), sub(g), list(sub(g), object("type", "string")), list(), object()})
			if g.chance(10) {
				delete(s, "items")
			}
		}},
		{"not", func(g *gen, s map[string]any) { s["not"] = pick(g, []any{sub(g), g.clause([]map[string]any{s}, 1)}) }},
		{"x-kubernetes-preserve-unknown-fields", setOne("x-kubernetes-preserve-unknown-fields", true, true, false)},
		{"x-kubernetes-embedded-resource", setOne("x-kubernetes-embedded-resource", true, true, false)},
		{"x-kubernetes-int-or-string", func(g *gen, s map[string]any) {
			s["x-kubernetes-int-or-string"] = g.chance(80)
			if g.chance(70) {
				delete(s, "type")
			}
		}},
		{"x-kubernetes-list-type", setOne("x-kubernetes-list-type", "atomic", "set", "map", "what", "")},
		{"x-kubernetes-map-type", setOne("x-kubernetes-map-type", "atomic", "granular", "what")},
		{"x-kubernetes-list-map-keys", setOne("x-kubernetes-list-map-keys", list("a"), list("a", "b"), list("a", "a"), list(), list("missing"))},
		{"list of type map", func(g *gen, s map[string]any) {
			key := pick(g, []map[string]any{object("type", "string"), object("type", "string", "default", "x"), object("type", "object"), object("type", "string", "nullable", true)})
			item := object("type", pick(g, []string{"object", "object", "object", "string"}), "properties", object("a", key, "b", object("type", "integer")))
			if g.chance(60) {
				item["required"] = list("a")
			}
			if g.chance(15) {
				item["nullable"] = true
			}
			for k := range s {
				delete(s, k)
			}
			s["type"], s["items"], s["x-kubernetes-list-type"], s["x-kubernetes-list-map-keys"] = "array", item, "map", pick(g, []any{list("a"), list("a", "b"), list("c"), list("a", "a")})
		}},
		{"set", func(g *gen, s map[string]any) {
			item := pick(g, []map[string]any{object("type", "string"), object("type", "object"), object("type", "object", "x-kubernetes-map-type", "atomic"),
				object("type", "array", "items", object("type", "string")), object("type", "array", "items", object("type", "string"), "x-kubernetes-list-type", "set"),
				object("type", "string", "nullable", true)})
			for k := range s {
				delete(s, k)
			}
			s["type"], s["items"], s["x-kubernetes-list-type"] = "array", item, "set"
		}},
		{"embedded resource", func(g *gen, s map[string]any) {
			for k := range s {
				delete(s, k)
			}
			for k, v := range g.embeddedSchema(1) {
				s[k] = v
			}
		}},
		{"rules", func(g *gen, s map[string]any) {
			s["x-kubernetes-validations"] = repeat(1+g.r.IntN(2), func(int) any {
				r := object("rule", pick(g, []string{
					"true", "self == oldSelf", "has(self.a)", "self.size() > 0", "self.all(x, x == x)", "self.all(x, self.all(y, x == y))",
					"self.a", "nonsense(", "", " ", "oldSelf.orValue(self) == self", "self.metadata.name != ''", "1 +\n1 == 2", "self.b.exists(k, k.c == 'x')", "!has(self.spec) || self.spec != null",
				}))
				if g.chance(40) {
					r["message"] = pick(g, []string{"no", "", " ", "two\nlines"})
				}
				if g.chance(30) {
					r["messageExpression"] = pick(g, []string{"'no'", "1", " ", "self.a", "string(self)"})
				}
				if g.chance(25) {
					r["reason"] = pick(g, []string{"FieldValueInvalid", "FieldValueRequired", "Whatever", ""})
				}
				if g.chance(35) {
					r["fieldPath"] = pick(g, []string{".a", ".b.c", "['a']", ".missing", "a", " ", ".a[0]", ".a\n", ".spec"})
				}
				if g.chance(25) {
					r["optionalOldSelf"] = g.chance(70)
				}
				return r
			})
		}},
		{"bounds", func(g *gen, s map[string]any) {
			k := pick(g, []string{"maxItems", "maxProperties", "maxLength"})
			s[k] = pick(g, []int64{1, 10, 100000})
		}},
		{"drop a keyword", func(g *gen, s map[string]any) {
			if keys := sortedKeys(s); len(keys) > 0 {
				delete(s, pick(g, keys))
			}
		}},
		{"empty schema", func(g *gen, s map[string]any) {
			for k := range s {
				delete(s, k)
			}
		}},
	}
	for _, operator := range []string{"allOf", "anyOf", "oneOf"} {
		changes = append(changes, schemaChange{operator, func(g *gen, s map[string]any) {
			s[operator] = pick(g, []any{list(sub(g)), list(g.clause([]map[string]any{s}, 1)), list(g.clause([]map[string]any{s}, 1), sub(g)), list(), list(object("required", list("a")))})
		}})
	}
	return changes
}
