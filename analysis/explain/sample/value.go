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

// generator makes values from a schema alone.
type generator struct {
	// full says to write fields that need not be there.
	full bool
	// kep says that unions count.
	kep bool
	// made counts the values that were made.
	made int
}

const (
	// maxMade bounds how many items or entries are made, maxValues how many values:
	// a schema can ask for a billion items of a billion items.
	maxMade   = 200
	maxValues = 20_000
)

// make makes one value, with a count of its own.
func (g generator) make(s *schema.Structural, variation int) any {
	g.made = 0
	return g.value(s, nil, variation)
}

type nestedList = []*schema.NestedValueValidation

// value makes a value of s for which nested holds, too. Values with another variation
// differ, if they can.
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
	case "boolean":
		return variation%2 == 0
	}
	return nil
}

// given is a value that the schema itself suggests.
func given(s *schema.Structural) (any, bool) {
	switch {
	case s.Default != nil && s.Default.Value != nil:
		// A default for an object may have more in it that the full sample shows.
		if _, isObject := s.Default.Value.(map[string]any); isObject && len(s.Properties) > 0 {
			return nil, false
		}
		return jsonx.Copy(s.Default.Value), true
	case s.Example != nil && s.Example.Value != nil && suits(s, s.Example.Value):
		return jsonx.Copy(s.Example.Value), true
	}
	return nil, false
}

// suits reports whether an example has the type of its schema: nobody checks that.
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

// typeOf is the type of the value to make.
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

// object makes an object.
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
			// The server fills it in.
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

// entries adds what a map needs, and one entry to show what they are like.
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
	// An object of which some fields must be there, no matter which.
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

// array makes an array.
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

// number makes a number near 1.
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
	if x == math.Trunc(x) && math.Abs(x) < 1<<53 {
		return int64(x)
	}
	return x
}

// pick chooses one of several values: for the first variation, the first one that is
// not empty.
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

// equal compares values of JSON: 1 and 1.0 are the same.
func equal(a, b any) bool {
	if x, ok := a.(float64); ok && x == math.Trunc(x) && math.Abs(x) < 1<<53 {
		a = int64(x)
	}
	if y, ok := b.(float64); ok && y == math.Trunc(y) && math.Abs(y) < 1<<53 {
		b = int64(y)
	}
	return reflect.DeepEqual(a, b)
}
