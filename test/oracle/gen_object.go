package oracle

import (
	"math"
	"regexp"
	"unicode/utf8"
)

// rootObject generates an object of the test kind for a schema.
func (g *gen) rootObject(schema map[string]any) map[string]any {
	v := g.value(g.constraints(schema), 0)
	obj, ok := v.(map[string]any)
	if !ok {
		obj = map[string]any{}
	}
	obj["apiVersion"], obj["kind"] = testAPIVersion, testKind.Kind
	if g.chance(90) {
		obj["metadata"] = g.metadata(12)
	} else {
		delete(obj, "metadata")
	}
	return obj
}

// metadata generates ObjectMeta in which each field is malformed with probability bad.
func (g *gen) metadata(bad int) any {
	m := object("name", "foo")
	for range g.r.IntN(4) {
		k := pick(g, goodMetaKeys)
		m[k] = cloneAny(pick(g, goodMeta[k]))
	}
	for range 2 {
		if g.chance(bad) {
			k := pick(g, badMetaKeys)
			m[k] = cloneAny(pick(g, badMeta[k]))
		}
	}
	if g.chance(bad / 5) {
		return pick(g, []any{nil, "x", list(), int64(1), object(), true})
	}
	return m
}

// constraints returns a schema and the schemas of its logical operators, one branch of each.
func (g *gen) constraints(s map[string]any) []map[string]any {
	out := []map[string]any{s}
	add := func(c any) {
		if m, ok := c.(map[string]any); ok && len(out) < 12 {
			out = append(out, g.constraints(m)...)
		}
	}
	if all, ok := s["allOf"].([]any); ok {
		for _, c := range all {
			add(c)
		}
	}
	for _, k := range []string{"anyOf", "oneOf"} {
		if any, ok := s[k].([]any); ok && len(any) > 0 {
			add(pick(g, any))
		}
	}
	return out
}

// keywordOf returns the first value of a keyword in the constraints.
func keywordOf[T any](cs []map[string]any, k string) (T, bool) {
	for _, c := range cs {
		if v, ok := c[k].(T); ok {
			return v, true
		}
	}
	var zero T
	return zero, false
}

// value generates a value that tries to satisfy the constraints.
func (g *gen) value(cs []map[string]any, depth int) any {
	if len(cs) == 0 {
		return g.anyValue(2)
	}
	if enum, ok := keywordOf[[]any](cs, "enum"); ok && g.chance(85) && len(enum) > 0 {
		return cloneAny(pick(g, enum))
	}
	if _, ok := keywordOf[bool](cs, "nullable"); ok && g.chance(12) {
		return nil
	}
	if d, ok := cs[0]["default"]; ok && g.chance(10) {
		return cloneAny(d)
	}
	if _, ok := cs[0]["x-kubernetes-int-or-string"]; ok {
		if g.chance(50) {
			return g.integer(cs)
		}
		return g.str(cs)
	}
	typ, _ := keywordOf[string](cs, "type")
	switch typ {
	case "object":
		return g.objectValue(cs, depth)
	case "array":
		return g.arrayValue(cs, depth)
	case "string":
		return g.str(cs)
	case "integer":
		return g.integer(cs)
	case "number":
		if g.chance(40) {
			return g.integer(cs)
		}
		return g.float(cs)
	case "boolean":
		return g.chance(50)
	}
	if _, ok := keywordOf[map[string]any](cs, "properties"); ok && g.chance(80) {
		return g.objectValue(cs, depth)
	}
	if _, ok := keywordOf[map[string]any](cs, "items"); ok && g.chance(80) {
		return g.arrayValue(cs, depth)
	}
	return g.anyValue(3)
}

func (g *gen) objectValue(cs []map[string]any, depth int) any {
	obj := map[string]any{}
	required := map[string]bool{}
	for _, c := range cs {
		if r, ok := c["required"].([]any); ok {
			for _, k := range r {
				required[k.(string)] = true
			}
		}
	}
	include := 65
	if depth > 4 {
		include = 30
	}
	props, _ := cs[0]["properties"].(map[string]any)
	for _, k := range sortedKeys(props) {
		if !g.chance(include) && !(required[k] && g.chance(94)) {
			continue
		}
		var sub []map[string]any
		for _, c := range cs {
			if ps, ok := c["properties"].(map[string]any); ok {
				if p, ok := ps[k].(map[string]any); ok {
					sub = append(sub, g.constraints(p)...)
				}
			}
		}
		obj[k] = g.value(sub, depth+1)
	}
	var extra []string
	if ap, ok := cs[0]["additionalProperties"]; ok {
		if _, ok := ap.(map[string]any); ok || ap == true || g.chance(20) {
			for range g.r.IntN(4) {
				extra = append(extra, pick(g, mapKeys))
			}
		}
	} else if cs[0]["x-kubernetes-preserve-unknown-fields"] == true {
		for range g.r.IntN(3) {
			extra = append(extra, g.name())
		}
	}
	for _, k := range sortedKeys(required) {
		if _, has := obj[k]; !has && g.chance(80) {
			extra = append(extra, k)
		}
	}
	for _, k := range extra {
		if _, has := obj[k]; has {
			continue
		}
		if ap, ok := cs[0]["additionalProperties"].(map[string]any); ok {
			obj[k] = g.value(g.constraints(ap), depth+1)
		} else {
			obj[k] = g.anyValue(2)
		}
	}
	if cs[0]["x-kubernetes-embedded-resource"] == true && depth > 0 {
		g.embeddedMeta(obj)
	}
	return obj
}

// embeddedMeta adds apiVersion, kind and metadata to an embedded resource.
func (g *gen) embeddedMeta(obj map[string]any) {
	if g.chance(92) {
		obj["apiVersion"] = "v1"
	}
	if g.chance(92) {
		obj["kind"] = "Pod"
	}
	if g.chance(8) {
		obj["apiVersion"] = pick(g, []any{"", "a/b/c", int64(1), nil, "apps/v1", "/", "a/"})
	}
	if g.chance(8) {
		obj["kind"] = pick(g, []any{"", "lower", "Not Valid", int64(1), nil, "-x", "A1", "X_Y"})
	}
	if g.chance(70) {
		obj["metadata"] = g.metadata(15)
	}
}

func (g *gen) arrayValue(cs []map[string]any, depth int) any {
	n := g.r.IntN(4)
	if minimum, ok := keywordOf[int64](cs, "minItems"); ok && int64(n) < minimum && g.chance(80) {
		n = int(minimum)
	}
	if maximum, ok := keywordOf[int64](cs, "maxItems"); ok && int64(n) > maximum && maximum >= 0 && g.chance(80) {
		n = int(maximum)
	}
	if depth > 5 {
		n = min(n, 1)
	}
	arr := []any{}
	for range n {
		var sub []map[string]any
		for _, c := range cs {
			if items, ok := c["items"].(map[string]any); ok {
				sub = append(sub, g.constraints(items)...)
			}
		}
		arr = append(arr, g.value(sub, depth+1))
	}
	if _, ok := cs[0]["x-kubernetes-list-type"]; ok && len(arr) > 0 && g.chance(25) {
		arr = append(arr, cloneAny(pick(g, arr)))
	}
	return arr
}

func (g *gen) str(cs []map[string]any) string {
	format, _ := keywordOf[string](cs, "format")
	pattern, hasPattern := keywordOf[string](cs, "pattern")
	minimum, hasMin := keywordOf[int64](cs, "minLength")
	maximum, hasMax := keywordOf[int64](cs, "maxLength")
	var re *regexp.Regexp
	if hasPattern {
		re, _ = regexp.Compile(pattern)
	}
	s := ""
	for range 8 {
		if samples := formatSamples[format]; format != "" && samples != nil && g.chance(90) {
			if s = samples[0]; g.chance(50) {
				s = pick(g, samples)
			}
		} else {
			s = pick(g, strs)
		}
		length := int64(utf8.RuneCountInString(s))
		if (re == nil || re.MatchString(s)) && (!hasMin || length >= minimum) && (!hasMax || length <= maximum) {
			break
		}
	}
	return s
}

func (g *gen) integer(cs []map[string]any) any {
	if g.chance(8) {
		// A float with an integral value.
		return float64(pick(g, smallInts))
	}
	lo, hasMin := keywordOf[float64](cs, "minimum")
	hi, hasMax := keywordOf[float64](cs, "maximum")
	m, hasMultiple := keywordOf[float64](cs, "multipleOf")
	switch {
	case hasMultiple && g.chance(60):
		return saturate(m * float64(pick(g, smallInts)))
	case hasMin && g.chance(60):
		return saturate(lo + float64(g.r.IntN(4)-1))
	case hasMax && g.chance(60):
		return saturate(hi - float64(g.r.IntN(4)-1))
	}
	return pick(g, ints)
}

// saturate turns f into the nearest int64.
func saturate(f float64) int64 {
	switch {
	case f >= math.MaxInt64:
		return math.MaxInt64
	case f <= math.MinInt64:
		return math.MinInt64
	}
	return int64(f)
}

func (g *gen) float(cs []map[string]any) any {
	lo, hasMin := keywordOf[float64](cs, "minimum")
	hi, hasMax := keywordOf[float64](cs, "maximum")
	m, hasMultiple := keywordOf[float64](cs, "multipleOf")
	switch {
	case hasMultiple && g.chance(60):
		return m * float64(pick(g, smallInts))
	case hasMin && g.chance(60):
		return lo + pick(g, []float64{0, 0.5, -0.5, 1e-9, 1})
	case hasMax && g.chance(60):
		return hi - pick(g, []float64{0, 0.5, -0.5, 1e-9, 1})
	case g.chance(5):
		return math.Copysign(0, -1)
	}
	return pick(g, floats)
}

// anyValue generates any JSON value, at most depth levels deep.
func (g *gen) anyValue(depth int) any {
	compound := 2
	if depth <= 0 {
		compound = 0
	}
	switch g.weighted(2, 2, 3, 2, 4, compound, compound) {
	case 0:
		return nil
	case 1:
		return g.chance(50)
	case 2:
		return pick(g, ints)
	case 3:
		return pick(g, floats)
	case 4:
		return pick(g, strs)
	case 5:
		arr := []any{}
		for range g.r.IntN(4) {
			arr = append(arr, g.anyValue(depth-1))
		}
		return arr
	}
	obj := map[string]any{}
	for range g.r.IntN(4) {
		obj[g.name()] = g.anyValue(depth - 1)
	}
	return obj
}

// mutate changes n places of a tree.
func (g *gen) mutate(v *any, n int) {
	for range n {
		*v = g.mutateAt(*v, 0)
	}
}

func (g *gen) mutateAt(v any, depth int) any {
	switch v := v.(type) {
	case map[string]any:
		if len(v) > 0 && g.chance(75) {
			k := pick(g, sortedKeys(v))
			if depth == 0 && (k == "apiVersion" || k == "kind") && g.chance(97) {
				return v
			}
			if g.chance(15) {
				delete(v, k)
				return v
			}
			v[k] = g.mutateAt(v[k], depth+1)
			return v
		}
		if depth == 0 || g.chance(60) {
			k := g.name()
			if depth == 0 && metaName(k) {
				k = "unknown"
			}
			v[k] = g.anyValue(3)
			return v
		}
	case []any:
		switch {
		case len(v) > 0 && g.chance(65):
			i := g.r.IntN(len(v))
			v[i] = g.mutateAt(v[i], depth+1)
			return v
		case len(v) > 0 && g.chance(40):
			i := g.r.IntN(len(v))
			return append(v[:i:i], v[i+1:]...)
		case len(v) > 1 && g.chance(40):
			v[0], v[len(v)-1] = v[len(v)-1], v[0]
			return v
		case g.chance(60):
			if len(v) > 0 && g.chance(60) {
				return append(v, cloneAny(pick(g, v)))
			}
			return append(v, g.anyValue(2))
		}
	case int64:
		if g.chance(50) {
			return pick(g, []any{float64(v), v + 1, v - 1, pick(g, ints)})
		}
	case float64:
		if g.chance(50) {
			return pick(g, []any{saturate(v), v + 1, -v, pick(g, floats)})
		}
	case string:
		if g.chance(50) {
			return pick(g, strs)
		}
	}
	if depth == 0 {
		return v
	}
	if g.chance(25) {
		return nil
	}
	return g.anyValue(3)
}
