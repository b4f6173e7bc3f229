package oracle

import (
	"math/rand/v2"
	"slices"
)

// Generator generates cases. Equal generators generate equal cases.
type Generator struct {
	Seed uint64
}

// gen generates one batch of cases.
type gen struct {
	r *rand.Rand
	// room is the number of schemas that may be added to the current one.
	room int
	// stored allows what only older servers accepted: defaults with unknown fields, list
	// types on items that are not atomic.
	stored bool
	// panics are the generated schemas on which the reference panics.
	panics []panicking
}

func (g Generator) batch(n uint64) *gen {
	return &gen{r: rand.New(rand.NewPCG(g.Seed, n)), room: 40}
}

// chance returns true with a probability of p percent.
func (g *gen) chance(p int) bool { return g.r.IntN(100) < p }

func pick[T any](g *gen, from []T) T { return from[g.r.IntN(len(from))] }

// weighted returns a random index, with probabilities proportional to the weights.
func (g *gen) weighted(weights ...int) int {
	total := 0
	for _, w := range weights {
		total += w
	}
	n := g.r.IntN(total)
	for i, w := range weights {
		if n < w {
			return i
		}
		n -= w
	}
	return 0
}

func (g *gen) name() string {
	if g.chance(12) {
		return pick(g, oddNames)
	}
	return pick(g, names)
}

// rootSchema generates a schema for a whole custom resource.
func (g *gen) rootSchema() map[string]any {
	s := object("type", "object")
	if g.chance(3) {
		s["x-kubernetes-preserve-unknown-fields"] = true
		if g.chance(30) {
			return s
		}
	}
	if g.chance(3) {
		s["x-kubernetes-embedded-resource"] = true
	}
	props := map[string]any{}
	for range 1 + g.r.IntN(4) {
		name := g.name()
		if metaName(name) {
			continue
		}
		props[name] = g.schema(1)
	}
	g.metaProperties(props, true)
	if len(props) > 0 {
		s["properties"] = props
	}
	g.objectChecks(s)
	g.logicalOperators(s, 0)
	return s
}

func metaName(name string) bool { return name == "kind" || name == "apiVersion" || name == "metadata" }

// metaProperties specifies some of apiVersion, kind and metadata.
func (g *gen) metaProperties(props map[string]any, root bool) {
	if g.chance(15) {
		props["apiVersion"] = object("type", "string")
		if !root && g.chance(30) {
			props["apiVersion"].(map[string]any)["default"] = pick(g, []any{"v1", "a/b/c"})
		}
	}
	if g.chance(15) {
		kind := object("type", "string")
		if g.chance(30) {
			kind["pattern"] = "^[A-Z]"
		}
		if !root && g.chance(30) {
			kind["default"] = "Pod"
		}
		props["kind"] = kind
	}
	if !g.chance(20) {
		return
	}
	meta := object("type", "object")
	props["metadata"] = meta
	if g.chance(60) {
		name := object("type", "string")
		g.stringChecks(name)
		meta["properties"] = object(pick(g, []string{"name", "generateName"}), name)
		if g.chance(20) {
			meta["required"] = list("name")
		}
	}
	if root {
		return
	}
	switch g.r.IntN(8) {
	case 0:
		meta["properties"] = object("labels", object("type", "object", "additionalProperties", object("type", "string", "maxLength", int64(3))), "name", object("type", "string"))
	case 1:
		// Unknown fields of metadata are dropped, with their defaults.
		meta["properties"] = object(
			"name", object("type", "string", "default", pick(g, []any{"x", "y", "NOT A NAME"})),
			"foo", object("type", "string", "default", pick(g, []any{nil, "x"})))
	case 2:
		meta["default"] = pick(g, []any{object("name", "dflt", "labels", object("a", "b")), object(), object("unknown", "x"), object("labels", object("a", int64(1)))})
	case 3:
		meta["x-kubernetes-preserve-unknown-fields"] = true
	case 4:
		rules := list(object("rule", pick(g, []any{"true", "self.startsWith('d')"})))
		meta["properties"] = object("name", object("type", "string", "maxLength", int64(5), "default", "dflt", "x-kubernetes-validations", rules))
	case 5:
		meta["properties"] = object("finalizers", object("type", "array", "items", object("type", "string"), "default", pick(g, []any{list("a/b"), list("bad name!")})))
	}
}

// schema generates a schema for a value.
func (g *gen) schema(depth int) map[string]any {
	g.room--
	compound := 1
	if depth > 5 || g.room <= 0 {
		compound = 0
	}
	var s map[string]any
	switch g.weighted(30*compound, 10*compound, 4, 6*compound, 18*compound, 18, 12, 9, 5, 7, 5) {
	case 0:
		s = g.objectSchema(depth)
	case 1:
		s = g.mapSchema(depth)
	case 2:
		s = object("type", "object")
		if g.chance(70) {
			s["x-kubernetes-preserve-unknown-fields"] = true
		}
	case 3:
		s = g.embeddedSchema(depth)
	case 4:
		s = g.arraySchema(depth)
	case 5:
		s = object("type", "string")
		g.stringChecks(s)
	case 6:
		s = object("type", "integer")
		g.numberChecks(s, intFormats)
	case 7:
		s = object("type", "number")
		g.numberChecks(s, numberFormats)
	case 8:
		s = object("type", "boolean")
		if g.chance(8) {
			s["format"] = "date"
		}
	case 9:
		s = g.intOrString()
	case 10:
		s = object("x-kubernetes-preserve-unknown-fields", true)
		if g.chance(30) && compound > 0 {
			s["properties"] = object(g.name(), g.schema(depth+1))
		}
		if g.chance(15) && compound > 0 {
			s["items"] = g.schema(depth + 1)
		}
	}
	g.generic(s)
	if g.chance(6) {
		g.stringChecks(s)
	}
	if g.chance(4) {
		g.numberChecks(s, numberFormats)
	}
	if g.chance(3) {
		g.objectChecks(s)
	}
	if g.chance(3) {
		g.arrayChecks(s)
	}
	g.logicalOperators(s, depth)
	if g.chance(10) {
		s["enum"] = g.enum(s)
	}
	if g.chance(15) {
		if d := g.value([]map[string]any{s}, depth+2); d != nil {
			s["default"] = g.tidyDefault(d)
		}
	}
	return s
}

// tidyDefault adds unknown fields to a default if such schemas are allowed.
func (g *gen) tidyDefault(d any) any {
	if g.stored && g.chance(50) {
		g.mutate(&d, 1+g.r.IntN(2))
	}
	return d
}

func (g *gen) generic(s map[string]any) {
	if g.chance(15) {
		s["nullable"] = true
	}
	if g.chance(3) {
		s["description"] = pick(g, strs)
	}
	if g.chance(2) {
		s["title"] = pick(g, strs)
	}
	if g.chance(1) {
		s["example"] = g.anyValue(2)
	}
	if g.r.IntN(400) == 0 {
		// Rules are not compared here, but they must not change the rest.
		s["x-kubernetes-validations"] = list(object("rule", "true"))
	}
	if g.chance(1) {
		s["externalDocs"] = object("url", "https://example.com", "description", "x")
	}
}

func (g *gen) objectSchema(depth int) map[string]any {
	s := object("type", "object")
	props := map[string]any{}
	for range 1 + g.r.IntN(4) {
		props[g.name()] = g.schema(depth + 1)
	}
	if len(props) > 0 {
		s["properties"] = props
	}
	if g.chance(8) {
		s["x-kubernetes-preserve-unknown-fields"] = true
	}
	if g.chance(4) {
		s["additionalProperties"] = true
	}
	if g.chance(3) {
		s["items"] = g.schema(depth + 1)
	}
	if g.chance(8) {
		s["x-kubernetes-map-type"] = pick(g, []any{"atomic", "granular"})
	}
	g.objectChecks(s)
	return s
}

func (g *gen) mapSchema(depth int) map[string]any {
	s := object("type", "object")
	switch g.weighted(75, 15, 10) {
	case 0:
		s["additionalProperties"] = g.schema(depth + 1)
	case 1:
		s["additionalProperties"] = true
	case 2:
		s["additionalProperties"] = false
	}
	if g.chance(10) {
		s["x-kubernetes-preserve-unknown-fields"] = true
	}
	if g.chance(8) {
		s["x-kubernetes-map-type"] = pick(g, []any{"atomic", "granular"})
	}
	g.objectChecks(s)
	return s
}

func (g *gen) embeddedSchema(depth int) map[string]any {
	s := object("type", "object", "x-kubernetes-embedded-resource", true)
	props := map[string]any{}
	for range g.r.IntN(3) {
		if name := g.name(); !metaName(name) {
			props[name] = g.schema(depth + 1)
		}
	}
	g.metaProperties(props, false)
	if len(props) > 0 {
		s["properties"] = props
	}
	if len(props) == 0 || g.chance(40) {
		s["x-kubernetes-preserve-unknown-fields"] = true
	}
	if g.chance(20) {
		s["required"] = list("metadata")
	}
	return s
}

func (g *gen) arraySchema(depth int) map[string]any {
	s := object("type", "array")
	switch g.weighted(50, 6, 20, 24) {
	case 0:
		s["items"] = g.schema(depth + 1)
	case 1:
		s["items"] = g.schema(depth + 1)
		s["x-kubernetes-list-type"] = "atomic"
	case 2:
		s["x-kubernetes-list-type"] = "set"
		items := g.schema(depth + 1)
		if !g.stored {
			delete(items, "nullable")
			switch items["type"] {
			case "object":
				items["x-kubernetes-map-type"] = "atomic"
			case "array":
				delete(items, "x-kubernetes-list-type")
				delete(items, "x-kubernetes-list-map-keys")
			}
		}
		s["items"] = items
	case 3:
		g.listMap(s, depth)
	}
	g.arrayChecks(s)
	return s
}

// listMap makes s a list of type map.
func (g *gen) listMap(s map[string]any, depth int) {
	items := g.objectSchema(depth + 1)
	keys := []any{}
	props, _ := items["properties"].(map[string]any)
	if props == nil {
		props = map[string]any{}
		items["properties"] = props
	}
	delete(items, "additionalProperties")
	required, _ := items["required"].([]any)
	for _, k := range []string{"key", "name", "b"}[:1+g.r.IntN(3)] {
		var key map[string]any
		switch g.weighted(60, 20, 8, 6, 6) {
		case 0:
			key = object("type", "string")
		case 1:
			key = object("type", "integer")
		case 2:
			key = object("type", "boolean")
		case 3:
			key = g.intOrString()
		case 4:
			key = object("type", "number")
		}
		if g.chance(40) {
			key["default"] = g.value([]map[string]any{key}, 9)
		} else if !g.stored || g.chance(50) {
			required = append(required, k)
		}
		if g.stored && g.chance(20) {
			key["nullable"] = true
		}
		props[k] = key
		keys = append(keys, k)
	}
	if len(required) > 0 {
		items["required"] = required
	}
	if g.stored && g.chance(20) {
		items["nullable"] = true
	}
	s["items"] = items
	s["x-kubernetes-list-type"] = "map"
	s["x-kubernetes-list-map-keys"] = keys
}

func (g *gen) intOrString() map[string]any {
	s := object("x-kubernetes-int-or-string", true)
	patternForm := func() []any { return list(object("type", "integer"), object("type", "string")) }
	switch g.weighted(40, 25, 25, 5, 5) {
	case 1:
		s["anyOf"] = patternForm()
	case 2:
		allOf := list(object("anyOf", patternForm()))
		for range g.r.IntN(2) {
			allOf = append(allOf, g.clause([]map[string]any{s}, 3))
		}
		s["allOf"] = allOf
	case 3:
		s["type"] = pick(g, []any{"string", "integer", "number"})
	case 4:
		delete(s, "x-kubernetes-int-or-string")
		s["type"] = pick(g, []any{"string", "integer", "object"})
		s["anyOf"] = patternForm()
	}
	if g.chance(30) {
		s["pattern"] = pick(g, patterns)
	}
	if g.chance(20) {
		s["maximum"] = pick(g, bounds)
	}
	if g.chance(10) {
		s["format"] = pick(g, []any{"int32", "int64", "ipv4", "date"})
	}
	return s
}

func (g *gen) stringChecks(s map[string]any) {
	if g.chance(20) {
		s["minLength"] = pick(g, smallInts)
	}
	if g.chance(20) {
		s["maxLength"] = pick(g, smallInts)
	}
	if g.chance(20) {
		s["pattern"] = pick(g, patterns)
	}
	if g.chance(35) {
		s["format"] = pick(g, stringFormats)
	}
}

func (g *gen) numberChecks(s map[string]any, formats []string) {
	if g.chance(25) {
		s["minimum"] = pick(g, bounds)
		if g.chance(40) {
			s["exclusiveMinimum"] = true
		}
	}
	if g.chance(25) {
		s["maximum"] = pick(g, bounds)
		if g.chance(40) {
			s["exclusiveMaximum"] = true
		}
	}
	if g.chance(15) {
		s["multipleOf"] = pick(g, divisors)
		if g.chance(4) {
			s["multipleOf"] = pick(g, badDivs)
		}
	}
	if g.chance(20) {
		s["format"] = pick(g, formats)
	}
	if g.chance(2) {
		s["exclusiveMaximum"] = true
	}
}

func (g *gen) objectChecks(s map[string]any) {
	if g.chance(10) {
		s["minProperties"] = pick(g, smallInts)
	}
	if g.chance(10) {
		s["maxProperties"] = pick(g, smallInts)
	}
	if !g.chance(35) {
		return
	}
	var required []any
	if props, ok := s["properties"].(map[string]any); ok {
		for _, k := range sortedKeys(props) {
			if g.chance(35) {
				required = append(required, k)
			}
		}
	}
	if g.chance(15) {
		required = append(required, g.name())
	}
	if len(required) > 0 {
		s["required"] = required
	}
}

func (g *gen) arrayChecks(s map[string]any) {
	if g.chance(15) {
		s["minItems"] = pick(g, smallInts)
	}
	if g.chance(15) {
		s["maxItems"] = pick(g, smallInts)
	}
}

// enum generates allowed values, mostly of the schema's type.
func (g *gen) enum(s map[string]any) []any {
	without := clone(s)
	delete(without, "enum")
	var out []any
	for range 1 + g.r.IntN(4) {
		if g.chance(75) {
			out = append(out, g.value([]map[string]any{without}, 8))
		} else {
			out = append(out, g.anyValue(2))
		}
	}
	return out
}

// logicalOperators adds allOf, anyOf, oneOf and not to s.
func (g *gen) logicalOperators(s map[string]any, depth int) {
	p := 8
	if depth == 0 {
		p = 12
	}
	for _, k := range []string{"allOf", "anyOf", "oneOf"} {
		if _, taken := s[k]; taken || !g.chance(p) {
			continue
		}
		var clauses []any
		for range 1 + g.r.IntN(3) {
			clauses = append(clauses, g.clause([]map[string]any{s}, depth))
		}
		s[k] = clauses
	}
	if g.chance(p / 2) {
		s["not"] = g.clause([]map[string]any{s}, depth)
	}
}

// clause generates a schema for a logical operator: conditions on values of the given core
// schemas, none of which may be empty. At depth zero, the root, it may only name fields of
// the core.
func (g *gen) clause(core []map[string]any, depth int) map[string]any {
	c := map[string]any{}
	s := core[0]
	typ, _ := s["type"].(string)
	switch {
	case typ == "string" || s["x-kubernetes-int-or-string"] == true || g.chance(10):
		g.stringChecks(c)
	case typ == "integer" || typ == "number" || g.chance(10):
		g.numberChecks(c, numberFormats)
	}
	if typ == "array" || g.chance(5) {
		g.arrayChecks(c)
		if items, ok := s["items"].(map[string]any); ok && g.chance(50) {
			c["items"] = g.clause([]map[string]any{items}, depth)
		} else if depth > 0 && g.chance(5) {
			c["items"] = g.clause([]map[string]any{{}}, depth+1)
		}
	}
	if typ == "object" || g.chance(8) {
		g.clauseProperties(c, s, depth)
	}
	if g.chance(15) {
		c["enum"] = g.enum(s)
	}
	if depth < 4 && g.chance(12) {
		g.logicalOperators(c, max(depth, 0))
		if depth == 0 {
			// Fields in nested logical operators must be in the core, and these were
			// generated for c.
			for _, k := range []string{"allOf", "anyOf", "oneOf", "not"} {
				delete(c, k)
			}
			c[pick(g, []string{"allOf", "anyOf", "oneOf"})] = list(g.clause(core, depth), g.clause(core, depth))
		}
	}
	return c
}

func (g *gen) clauseProperties(c, s map[string]any, depth int) {
	props, _ := s["properties"].(map[string]any)
	keys := sortedKeys(props)
	clauses := map[string]any{}
	for _, k := range keys {
		if metaName(k) || !g.chance(40) {
			continue
		}
		if p, ok := props[k].(map[string]any); ok {
			clauses[k] = g.clause([]map[string]any{p}, depth)
		}
	}
	if depth > 0 && g.chance(10) {
		if k := g.name(); !metaName(k) {
			clauses[k] = g.clause([]map[string]any{{}}, depth+1)
		}
	}
	if len(clauses) > 0 {
		c["properties"] = clauses
	} else if g.chance(10) {
		c["additionalProperties"] = false
	}
	if g.chance(40) {
		var required []any
		for _, k := range keys {
			if g.chance(40) {
				required = append(required, k)
			}
		}
		if g.chance(10) {
			required = append(required, g.name())
		}
		if len(required) > 0 {
			c["required"] = required
		}
	}
	if g.chance(8) {
		c["minProperties"] = pick(g, smallInts)
	}
	if g.chance(8) {
		c["maxProperties"] = pick(g, smallInts)
	}
}

// acceptable generates a schema that the API server accepts, or returns nil after too many
// attempts.
func (g *gen) acceptable() map[string]any {
	g.stored = g.chance(20)
	for range 6 {
		g.room = 10 + g.r.IntN(40)
		s := g.rootSchema()
		for range 3 {
			props, err := ReferenceSchema(mustJSON(s))
			if err != nil {
				break
			}
			_, violations, err := ReferenceStructural(props)
			if err != nil || len(violations) > 0 {
				break
			}
			errs, panicked := Accepts(props, g.stored)
			if panicked {
				g.panics = append(g.panics, panicking{s, g.stored})
				break
			}
			if len(errs) == 0 {
				return s
			}
			if !dropDefaults(s, errs) {
				break
			}
		}
	}
	return nil
}

// sortedCopy returns xs in order, without changing it.
func sortedCopy(xs []string) []string {
	xs = slices.Clone(xs)
	slices.Sort(xs)
	return xs
}
