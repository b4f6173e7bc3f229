package sample

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"

	"espalier.dev/internal/jsonx"
	"espalier.dev/schema"
)

// generator generates values from a schema alone.
type generator struct {
	// full includes optional fields.
	full bool
	// kep enforces unions.
	kep bool
	// made counts the generated values.
	made int
}

const (
	// maxMade limits the number of items or entries, maxValues the number of values: a schema
	// can require a billion items of a billion items.
	maxMade   = 200
	maxValues = 20_000
)

// make generates one value, with its own count.
func (g generator) make(s *schema.Structural, variation int) any {
	g.made = 0
	return g.value(s, nil, variation)
}

type nestedList = []*schema.NestedValueValidation

// value generates a value of s that also satisfies nested. Different variations give
// different values if possible.
func (g *generator) value(s *schema.Structural, nested nestedList, variation int) any {
	g.made++
	n := needs(s.ValueValidation, nested)
	if v, ok := given(s); ok && variation == 0 {
		if !n.hasEnum || slices.ContainsFunc(n.enum, func(e any) bool { return equal(e, v) }) {
			return v
		}
	}
	if len(n.enum) > 0 {
		return jsonx.Copy(pick(n.enum, variation))
	}
	switch t := typeOf(s, n); t {
	case "object":
		return g.object(s, nested, variation)
	case "array":
		return g.array(s, n, variation)
	case "string":
		return text(n, variation)
	case "integer", "number":
		return number(n, t == "integer", variation)
	}
	return variation%2 == 0 // a boolean
}

// given returns a value that the schema itself suggests.
func given(s *schema.Structural) (any, bool) {
	switch {
	case s.Default != nil && s.Default.Value != nil:
		// The full sample shows fields that the default of an object may lack.
		if len(s.Properties) > 0 {
			return nil, false
		}
		return jsonx.Copy(s.Default.Value), true
	case s.Example != nil && suits(s, s.Example.Value):
		return jsonx.Copy(s.Example.Value), true
	}
	return nil, false
}

// suits reports whether an example has the type of its schema, which no check ensures.
func suits(s *schema.Structural, v any) bool {
	switch v.(type) {
	case string:
		return s.Type == "string" || s.XIntOrString
	case bool:
		return s.Type == "boolean"
	case int64:
		return s.Type == "integer" || s.Type == "number" || s.XIntOrString
	case float64:
		return s.Type == "number"
	}
	return false
}

// typeOf returns the type of the value to generate.
func typeOf(s *schema.Structural, n *need) string {
	switch {
	case s.XIntOrString && (len(n.patterns) > 0 || n.minLength > 0):
		return "string"
	case s.XIntOrString:
		return "integer"
	case s.Type != "":
		return s.Type
	case len(n.types) > 0:
		return n.types[0]
	case s.Items != nil:
		return "array"
	}
	return "object"
}

// object generates an object.
func (g *generator) object(s *schema.Structural, nested nestedList, variation int) map[string]any {
	n := needs(s.ValueValidation, nested)
	obj := map[string]any{}
	if s.XEmbeddedResource {
		obj["apiVersion"], obj["kind"], obj["metadata"] = "v1", "ConfigMap", map[string]any{"name": "example"}
	}
	if g.kep {
		g.unions(s, n, obj)
	}
	for _, field := range slices.Sorted(maps.Keys(s.Properties)) {
		prop := s.Properties[field]
		required := n.required[field]
		switch {
		case obj[field] != nil, n.excluded[field] && !required:
			continue
		case !required && !g.full:
			continue
		case !g.full && prop.Default != nil && prop.Default.Value != nil && len(n.fields[field]) == 0:
			// The API server fills it in.
			continue
		}
		obj[field] = g.value(prop, n.fields[field], variation)
	}
	g.entries(s, n, obj)
	if n.maxProps < int64(len(obj)) {
		for _, field := range slices.Backward(slices.Sorted(maps.Keys(obj))) {
			if !n.required[field] && int64(len(obj)) > n.maxProps {
				delete(obj, field)
			}
		}
	}
	return obj
}

// entries adds the required entries of a map, or one as an example.
func (g *generator) entries(s *schema.Structural, n *need, obj map[string]any) {
	want := n.minProps
	ap := s.AdditionalProperties
	free := ap != nil && (ap.Structural != nil || ap.Bool) || s.XPreserveUnknownFields
	if g.full && ap != nil && ap.Structural != nil {
		want = max(want, 1)
	}
	if free {
		value := func(field string, variation int) any {
			if ap != nil && ap.Structural != nil {
				return g.value(ap.Structural, n.fields[field], variation)
			}
			return "value"
		}
		for _, field := range slices.Sorted(maps.Keys(n.required)) {
			if obj[field] == nil && s.Properties[field] == nil {
				obj[field] = value(field, 0)
			}
		}
		for i := 0; int64(len(obj)) < min(want, maxMade) && g.made < maxValues; i++ {
			key := "key"
			if i > 0 {
				key = fmt.Sprintf("key%d", i+1)
			}
			obj[key] = value(key, i)
		}
		return
	}
	// minProperties may require more fields, no matter which.
	for _, field := range slices.Sorted(maps.Keys(s.Properties)) {
		if int64(len(obj)) < want && obj[field] == nil && !n.excluded[field] {
			obj[field] = g.value(s.Properties[field], n.fields[field], 0)
		}
	}
}

// unions sets one member of each union and leaves the others out.
func (g *generator) unions(s *schema.Structural, n *need, obj map[string]any) {
	for _, u := range s.XUnions {
		members := slices.Sorted(maps.Keys(u.Fields))
		if len(members) == 0 {
			continue
		}
		for _, m := range members[1:] {
			n.excluded[m] = true
		}
		n.required[members[0]] = true
		if _, ok := s.Properties[u.Discriminator]; ok {
			obj[u.Discriminator] = u.Fields[members[0]]
		}
	}
}

// array generates an array.
func (g *generator) array(s *schema.Structural, n *need, variation int) []any {
	want := n.minItems
	if g.full {
		want = max(want, 1)
	}
	want = min(want, n.maxItems, maxMade)
	list := []any{}
	for i := range int(want) {
		if g.made >= maxValues {
			break
		}
		if s.Items == nil {
			list = append(list, "value")
			continue
		}
		list = append(list, g.value(s.Items, n.items, variation+i))
	}
	return list
}

// number generates a number close to 1.
func number(n *need, integer bool, variation int) any {
	x := 1.0
	step := 1.0
	if n.multipleOf > 0 {
		step = n.multipleOf
		x = step
	}
	if x < n.min || x == n.min && n.minExclusive {
		x = n.min
		if integer {
			x = math.Ceil(x)
		}
		if n.multipleOf > 0 {
			x = math.Ceil(n.min/step) * step
		}
		if n.minExclusive && x == n.min {
			x += step
		}
	}
	if x > n.max || x == n.max && n.maxExclusive {
		x = n.max
		if integer {
			x = math.Floor(x)
		}
		if n.multipleOf > 0 {
			x = math.Floor(n.max/step) * step
		}
		if n.maxExclusive && x == n.max {
			x -= step
		}
		if !integer && x <= n.min {
			x = (n.min + n.max) / 2
		}
	}
	if y := x + float64(variation)*step; y < n.max || y == n.max && !n.maxExclusive {
		x = y
	}
	// A float64 stands for an integer only if it is exact, but integers have no other form.
	if x == math.Trunc(x) && (math.Abs(x) < 1<<53 || integer && x >= -1<<63 && x < 1<<63) {
		return int64(x)
	}
	return x
}

// pick selects one of several values: the first nonempty one for the first variation.
func pick(values []any, variation int) any {
	if variation == 0 {
		for _, v := range values {
			if v != nil && v != "" {
				return v
			}
		}
	}
	return values[variation%len(values)]
}

// equal compares JSON values; 1 and 1.0 are equal.
func equal(a, b any) bool {
	if x, ok := a.(float64); ok && x == math.Trunc(x) && math.Abs(x) < 1<<53 {
		a = int64(x)
	}
	if y, ok := b.(float64); ok && y == math.Trunc(y) && math.Abs(y) < 1<<53 {
		b = int64(y)
	}
	return reflect.DeepEqual(a, b)
}
