package schema

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"espalier.dev/api"
)

// acceptsDraft4 reports whether the object satisfies the schema, in the draft-4 dialect.
func acceptsDraft4(t testing.TB, s *api.JSONSchemaProps, obj Object) bool {
	t.Helper()
	p, err := CompileJSONSchema(s)
	if err != nil {
		t.Fatalf("%v: %s", err, writeSchema(t, s))
	}
	return len(p.Validate(context.Background(), obj, nil)) == 0
}

func TestSkeleton(t *testing.T) {
	schemas := 6000
	if testing.Short() {
		schemas = 1500
	}
	t.Run("K-03", func(t *testing.T) {
		t.Run("size and cost", skeletonSizeAndCost)
		t.Run("specified stays specified", skeletonSpecified)
		t.Run("accepts what the schema accepts", func(t *testing.T) { skeletonAccepts(t, schemas) })
		t.Run("example 5 is a counterexample", func(t *testing.T) {
			// The text claims that whatever validates against s validates against
			// skel(s). Its own example shows that it does not, where one branch
			// alone names a field.
			s := readSchema(t, `{
				"anyOf": [
					{"properties": {"a": {"type": "string"}}},
					{"properties": {"a": {"type": "integer"}, "b": {"type": "string"}}}
				],
				"properties": {"c": {}}
			}`)
			obj := Object{"a": "text", "b": int64(1)}
			if !acceptsDraft4(t, s, obj) {
				t.Error("the schema rejects the object")
			}
			if acceptsDraft4(t, Skeleton(s), obj) {
				t.Error("the skeleton accepts the object")
			}
		})
	})
	t.Run("K-02 references", skeletonReferences)
	t.Run("nil", func(t *testing.T) {
		if Skeleton(nil) != nil || len(Specified(nil)) != 0 || PruneConflicts(nil) != nil {
			t.Error("something came of nothing")
		}
	})
	t.Run("paths", func(t *testing.T) {
		s := readSchema(t, `{"properties": {
			"a.b": {"properties": {"c": {}}},
			"list": {"items": {"properties": {"d": {}}}},
			"map": {"additionalProperties": {"properties": {"": {}}}},
			"pattern": {"patternProperties": {"^x.*": {"properties": {"e": {}}}}}
		}}`)
		want := []string{`["a.b"]`, `["a.b"].c`, `list`, `list[].d`, `map`, `map.*[""]`, `pattern`, `pattern./^x.*/.e`}
		if got := Specified(s); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
	t.Run("paths of other schemas", func(t *testing.T) {
		// Definitions are of no value, and dependencies of the same one.
		s := readSchema(t, `{"definitions": {"d": {"properties": {"no": {}}}}, "dependencies": {"a": {"properties": {"no": {}}}}, "not": {"properties": {"a": {}}}}`)
		if got := Specified(s); !slices.Equal(got, []string{"a"}) {
			t.Errorf("got %q", got)
		}
		conflict := `{"properties": {"a": {}}, "additionalProperties": true}`
		var got []string
		for _, c := range PruneConflicts(readSchema(t, `{"patternProperties": {"^x": `+conflict+`}, "additionalProperties": `+conflict+`}`)) {
			got = append(got, c.Path)
		}
		if !slices.Equal(got, []string{"*", "/^x/"}) {
			t.Errorf("conflicts at %q", got)
		}
		if got := writeSchema(t, Skeleton(readSchema(t, `{"$ref": "", "properties": {"a": {"type": "string"}}}`))); got != writeSchema(t, readSchema(t, `{"properties": {"a": {"type": "string"}}}`)) {
			t.Errorf("an empty reference: got %s", got)
		}
	})
	t.Run("leaves the schema alone", func(t *testing.T) {
		r := rand.New(rand.NewPCG(3, 3))
		for range 200 {
			s := anySchema(r, 3)
			before := writeSchema(t, s)
			k := Skeleton(s)
			scribble(reflect.ValueOf(k))
			if after := writeSchema(t, s); before != after {
				t.Fatalf("%s became %s", before, after)
			}
		}
	})
}

func skeletonSizeAndCost(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 150 {
		s := anySchema(r, 4)
		var k skeletonizer
		skel := k.merge([]skelPart{{schema: s}})
		if nodes := schemaCount(s); k.visited != nodes {
			t.Fatalf("visited %d of %d schemas of %s", k.visited, nodes, writeSchema(t, s))
		}
		before, after := writeSchema(t, s), writeSchema(t, skel)
		if len(after) > len(before) || schemaCount(skel) > schemaCount(s) {
			t.Fatalf("%s grew to %s", before, after)
		}
		if again := writeSchema(t, Skeleton(skel)); again != after {
			t.Fatalf("the skeleton of %s is %s", after, again)
		}
	}
	// Logical operators in logical operators: a merge on each level would be quadratic.
	const depth = 1000
	deep := &api.JSONSchemaProps{Properties: map[string]api.JSONSchemaProps{}}
	for i := range depth {
		deep.Properties[fmt.Sprint("f", i)] = api.JSONSchemaProps{}
	}
	for range depth {
		deep = &api.JSONSchemaProps{AllOf: []api.JSONSchemaProps{*deep}}
	}
	var k skeletonizer
	if skel := k.merge([]skelPart{{schema: deep}}); len(skel.Properties) != depth || k.visited != 2*depth+1 {
		t.Errorf("%d fields after visiting %d schemas", len(skel.Properties), k.visited)
	}
}

// skeletonReferences covers jsonSchemas, which refer to definitions.
func skeletonReferences(t *testing.T) {
	for s, want := range map[string]string{
		`{"properties": {"a": {"$ref": "#/definitions/d", "type": "string"}}, "definitions": {"d": {"type": "object", "properties": {"b": {"type": "integer", "minimum": 1}}}}}`: `{"properties":{"a":{"type":"object","properties":{"b":{"type":"integer"}}}}}`,
		`{"$ref": "#/definitions/d", "definitions": {"d": {"properties": {"b": {"$ref": "#/definitions/e"}}}, "e": {"type": "integer"}}}`:                                        `{"properties":{"b":{"type":"integer"}}}`,
		// Under a logical operator, the fields of the definition move to the level around it.
		`{"properties": {"c": {"type": "string"}}, "allOf": [{"$ref": "#/definitions/d"}], "definitions": {"d": {"properties": {"b": {"type": "integer"}}}}}`: `{"properties":{"b":{"type":"integer"},"c":{"type":"string"}}}`,
		`{"additionalProperties": {"$ref": "#/definitions/d"}, "definitions": {"d": {"items": {"$ref": "#/definitions/a~1b"}}, "a/b": {"type": "integer"}}}`:  `{"additionalProperties":{"items":{"type":"integer"}}}`,
		// What cannot be followed stays.
		`{"properties": {"a": {"$ref": "http://example.com/a", "properties": {"b": {}}}}}`:                                                             `{"properties":{"a":{"$ref":"http://example.com/a"}}}`,
		`{"properties": {"a": {"$ref": "#/definitions/none"}}}`:                                                                                        `{"properties":{"a":{"$ref":"#/definitions/none"}}}`,
		`{"$ref": "#/definitions/d", "definitions": {"d": {"properties": {"next": {"$ref": "#/definitions/d"}, "b": {}}}}}`:                            `{"properties":{"b":{},"next":{"$ref":"#/definitions/d"}}}`,
		`{"properties": {"a": {"$ref": "#/definitions/d"}}, "definitions": {"d": {"$ref": "#/definitions/e"}, "e": {"$ref": "#/definitions/d"}}}`:      `{"properties":{"a":{"$ref":"#/definitions/d"}}}`,
		`{"properties": {"a": {"$ref": "#/definitions/d"}, "b": {"$ref": "#/definitions/d"}}, "definitions": {"d": {"patternProperties": {"x": {}}}}}`: `{"properties":{"a":{"patternProperties":{"x":{}}},"b":{"patternProperties":{"x":{}}}}}`,
	} {
		if got := writeSchema(t, Skeleton(readSchema(t, s))); got != want {
			t.Errorf("%s:\n got %s\nwant %s", s, got, want)
		}
	}

	// Each definition refers to the next in two ways. Under logical operators both are one
	// part of the same merge. As fields there are 2^40 of the last: only some are followed.
	web := func(next string) *api.JSONSchemaProps {
		s := &api.JSONSchemaProps{Ref: new("#/definitions/d0"), Definitions: map[string]api.JSONSchemaProps{}}
		for i := range 40 {
			s.Definitions[fmt.Sprint("d", i)] = *readSchema(t, strings.ReplaceAll(next, "NEXT", fmt.Sprintf(`{"$ref": "#/definitions/d%d"}`, i+1)))
		}
		s.Definitions["d40"] = *readSchema(t, `{"properties": {"last": {"type": "integer"}}}`)
		return s
	}
	if got, want := writeSchema(t, Skeleton(web(`{"allOf": [NEXT], "anyOf": [NEXT]}`))), `{"properties":{"last":{"type":"integer"}}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	// Long names count as several schemas.
	long := &api.JSONSchemaProps{Properties: map[string]api.JSONSchemaProps{}, Definitions: map[string]api.JSONSchemaProps{
		"d": {Properties: map[string]api.JSONSchemaProps{strings.Repeat("n", 1<<20): {}}},
	}}
	for i := range 1000 {
		long.Properties[fmt.Sprint("p", i)] = api.JSONSchemaProps{Ref: new("#/definitions/d")}
	}
	if got := writeSchema(t, Skeleton(long)); len(got) > 8<<20 {
		t.Errorf("the skeleton has %d bytes", len(got))
	}
	s := web(`{"properties": {"a": NEXT, "b": NEXT}}`)
	k := skeletonizer{definitions: s.Definitions}
	first := writeSchema(t, k.merge([]skelPart{{schema: s}}))
	if k.visited > 2*maxFollowed || !strings.Contains(first, `"last"`) || !strings.Contains(first, `"$ref":"#/definitions/`) {
		t.Errorf("%d schemas were visited: %.200s", k.visited, first)
	}
	if again := writeSchema(t, Skeleton(s)); again != first {
		t.Error("the same schema has two skeletons")
	}
}

func skeletonSpecified(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	paths := 0
	for range 400 {
		s := anySchema(r, 4)
		before, after := Specified(s), Specified(Skeleton(s))
		paths += len(before)
		if !slices.Equal(before, after) {
			t.Fatalf("%s specifies %q, its skeleton %q", writeSchema(t, s), before, after)
		}
	}
	if paths < 400 {
		t.Errorf("only %d paths were specified", paths)
	}
}

// skeletonAccepts holds for schemas without not whose anyOf and oneOf have
// branches that name the same paths. That is what shape.schema makes.
func skeletonAccepts(t *testing.T, schemas int) {
	r := rand.New(rand.NewPCG(4, 4))
	accepted, refused := 0, 0
	for range schemas {
		// Small ones are many: there, one detail decides.
		depth := 1 + r.IntN(3)
		sh := &shape{natural: "object", fields: map[string]*shape{"a": newShape(r, depth)}}
		if r.IntN(2) == 0 {
			sh.fields["b"] = newShape(r, depth-1)
		}
		s := sh.schema(r, depth, false)
		skel := Skeleton(s)
		p, err := CompileJSONSchema(s)
		if err != nil {
			t.Fatal(err)
		}
		q, err := CompileJSONSchema(skel)
		if err != nil {
			t.Fatal(err)
		}
		for range 6 {
			obj, ok := sh.value(r, 4).(Object)
			if !ok {
				continue
			}
			if len(p.Validate(context.Background(), obj, nil)) > 0 {
				refused++
				continue
			}
			accepted++
			if v := q.Validate(context.Background(), obj, nil); len(v) > 0 {
				t.Fatalf("%s\naccepts %v\nbut its skeleton\n%s\ndoes not: %q", writeSchema(t, s), obj, writeSchema(t, skel), v.Messages())
			}
		}
	}
	if least := schemas / 6; accepted < least || refused < least {
		t.Errorf("%d objects accepted, %d rejected: the generator is unbalanced", accepted, refused)
	}
}

// schemaCount counts the schemas in s, booleans included.
func schemaCount(s *api.JSONSchemaProps) (n int) {
	WalkSubschemas(s, func(_ SchemaPath, s *api.JSONSchemaProps) bool {
		n++
		for _, b := range []*api.JSONSchemaPropsOrBool{s.AdditionalProperties, s.AdditionalItems} {
			if b != nil && b.Schema == nil {
				n++
			}
		}
		return true
	})
	return n
}

// anySchema makes a schema with any of the keywords that matter to a skeleton.
func anySchema(r *rand.Rand, depth int) *api.JSONSchemaProps {
	s := &api.JSONSchemaProps{}
	if r.IntN(2) == 0 {
		s.Type = pick(r, []api.StringOrArray{{"object"}, {"array"}, {"string"}, {"string", "null"}, {"null", "string"}})
	}
	if r.IntN(4) == 0 {
		s.Pattern, s.Required = "^x", []string{"a"}
	}
	if depth == 0 {
		return s
	}
	some := func() []api.JSONSchemaProps {
		var out []api.JSONSchemaProps
		if r.IntN(4) == 0 {
			for range 1 + r.IntN(2) {
				out = append(out, *anySchema(r, depth-1))
			}
		}
		return out
	}
	keyed := func(keys ...string) map[string]api.JSONSchemaProps {
		if r.IntN(3) != 0 {
			return nil
		}
		out := map[string]api.JSONSchemaProps{}
		for range 1 + r.IntN(3) {
			out[pick(r, keys)] = *anySchema(r, depth-1)
		}
		return out
	}
	orBool := func() *api.JSONSchemaPropsOrBool {
		switch r.IntN(8) {
		case 0:
			return &api.JSONSchemaPropsOrBool{Allows: r.IntN(2) == 0}
		case 1:
			return &api.JSONSchemaPropsOrBool{Allows: true, Schema: anySchema(r, depth-1)}
		}
		return nil
	}
	s.AllOf, s.AnyOf, s.OneOf = some(), some(), some()
	if r.IntN(8) == 0 {
		s.Not = anySchema(r, depth-1)
	}
	s.Properties = keyed("a", "b", "c", "d.e")
	s.PatternProperties = keyed("^a", "^b")
	s.AdditionalProperties, s.AdditionalItems = orBool(), orBool()
	if list := some(); list != nil {
		s.Items = &api.JSONSchemaPropsOrArray{JSONSchemas: list}
	} else if r.IntN(6) == 0 {
		s.Items = &api.JSONSchemaPropsOrArray{Schema: anySchema(r, depth-1)}
	}
	return s
}

// shape is the paths that a schema names.
type shape struct {
	natural    string // the type that most values at the path have
	fields     map[string]*shape
	patterns   map[string]*shape
	additional *shape
	items      *shape
	positions  []*shape
	rest       *shape
}

func newShape(r *rand.Rand, depth int) *shape {
	sh := &shape{natural: pick(r, []string{"string", "integer", "object", "object", "array", "array"})}
	if depth == 0 {
		sh.natural = pick(r, []string{"string", "integer", "number"})
	}
	switch sh.natural {
	case "object":
		sh.fields = map[string]*shape{}
		for range r.IntN(3) {
			sh.fields[pick(r, []string{"a", "b", "c"})] = newShape(r, depth-1)
		}
		if r.IntN(4) == 0 {
			sh.patterns = map[string]*shape{"^[cd]": newShape(r, depth-1)}
		}
		if r.IntN(4) == 0 {
			sh.additional = newShape(r, depth-1)
		}
	case "array":
		if r.IntN(2) == 0 {
			sh.items = newShape(r, depth-1)
			break
		}
		for range 1 + r.IntN(2) {
			sh.positions = append(sh.positions, newShape(r, depth-1))
		}
		if r.IntN(2) == 0 {
			sh.rest = newShape(r, depth-1)
		}
	}
	return sh
}

// part is a shape with some of the paths of sh.
func (sh *shape) part(r *rand.Rand) *shape {
	out := &shape{natural: sh.natural}
	keep := func(c *shape) *shape {
		if c == nil || r.IntN(3) == 0 {
			return nil
		}
		return c.part(r)
	}
	keepMap := func(m map[string]*shape) map[string]*shape {
		kept := map[string]*shape{}
		for _, k := range slices.Sorted(maps.Keys(m)) {
			if c := keep(m[k]); c != nil {
				kept[k] = c
			}
		}
		return kept
	}
	out.fields, out.patterns = keepMap(sh.fields), keepMap(sh.patterns)
	out.additional, out.items = keep(sh.additional), keep(sh.items)
	for _, c := range sh.positions {
		if c = keep(c); c == nil {
			break
		}
		out.positions = append(out.positions, c)
	}
	if len(out.positions) == len(sh.positions) {
		out.rest = keep(sh.rest)
	}
	return out
}

// schema makes a schema that names the paths of sh: all of them if it is to be
// whole, as a branch of anyOf and oneOf must be; and no others outside of allOf.
func (sh *shape) schema(r *rand.Rand, depth int, whole bool) *api.JSONSchemaProps {
	s := &api.JSONSchemaProps{}
	switch r.IntN(10) {
	case 0, 1:
	case 2, 3:
		s.Type = api.StringOrArray{pick(r, []string{"string", "integer", "number", "object", "array"})}
	default:
		s.Type = api.StringOrArray{sh.natural}
	}
	switch r.IntN(10) {
	case 0:
		s.MinLength = new(int64)
		*s.MinLength = r.Int64N(3)
	case 1:
		s.Maximum = new(float64)
		*s.Maximum = float64(r.IntN(5))
	case 2:
		s.Required = []string{"a"}
	}
	below := max(depth-1, 0)
	core := sh
	if !whole && r.IntN(2) == 0 {
		core = sh.part(r)
	}
	core.children(r, s, below, whole)
	if depth == 0 {
		return s
	}
	if r.IntN(3) == 0 || sh.natural == "array" {
		for range 1 + r.IntN(2) {
			part := sh.part(r)
			switch {
			case r.IntN(2) == 0:
			case sh.items != nil: // a list meets a single schema
				part = &shape{natural: "array", positions: []*shape{newShape(r, 1), newShape(r, 1)}, rest: newShape(r, 1)}
			case len(sh.positions) > 0: // and the other way around
				part = &shape{natural: "array", items: newShape(r, 1)}
			}
			b := part.schema(r, below, false)
			if b.Items == nil && sh.natural == "array" {
				// There is no list that these would be additional to.
				b.AdditionalItems = &api.JSONSchemaPropsOrBool{Allows: true, Schema: newShape(r, 1).schema(r, 0, false)}
			}
			s.AllOf = append(s.AllOf, *b)
		}
	}
	for _, junctor := range []*[]api.JSONSchemaProps{&s.AnyOf, &s.OneOf} {
		if r.IntN(3) != 0 {
			continue
		}
		part := sh.part(r)
		for range 1 + r.IntN(2) {
			*junctor = append(*junctor, *part.schema(r, below, true))
		}
	}
	return s
}

func (sh *shape) children(r *rand.Rand, s *api.JSONSchemaProps, depth int, whole bool) {
	all := func(m map[string]*shape) map[string]api.JSONSchemaProps {
		out := map[string]api.JSONSchemaProps{}
		for _, k := range slices.Sorted(maps.Keys(m)) {
			out[k] = *m[k].schema(r, depth, whole)
		}
		return out
	}
	s.Properties, s.PatternProperties = all(sh.fields), all(sh.patterns)
	switch {
	case sh.additional == nil:
	case r.IntN(3) == 0 && sh.additional.names() == 0:
		s.AdditionalProperties = &api.JSONSchemaPropsOrBool{Allows: r.IntN(2) == 0}
	default:
		s.AdditionalProperties = &api.JSONSchemaPropsOrBool{Allows: true, Schema: sh.additional.schema(r, depth, whole)}
	}
	switch {
	case sh.items != nil:
		s.Items = &api.JSONSchemaPropsOrArray{Schema: sh.items.schema(r, depth, whole)}
	case len(sh.positions) > 0:
		s.Items = &api.JSONSchemaPropsOrArray{}
		for _, c := range sh.positions {
			s.Items.JSONSchemas = append(s.Items.JSONSchemas, *c.schema(r, depth, whole))
		}
		if sh.rest != nil {
			s.AdditionalItems = &api.JSONSchemaPropsOrBool{Allows: true, Schema: sh.rest.schema(r, depth, whole)}
		}
	}
}

// names counts the shapes right below.
func (sh *shape) names() int {
	n := len(sh.fields) + len(sh.patterns) + len(sh.positions)
	for _, c := range []*shape{sh.additional, sh.items, sh.rest} {
		if c != nil {
			n++
		}
	}
	return n
}

// value makes a value that more or less has the shape.
func (sh *shape) value(r *rand.Rand, depth int) any {
	if depth == 0 {
		return "a"
	}
	natural := sh.natural
	if r.IntN(12) == 0 {
		natural = pick(r, []string{"string", "integer", "number", "object", "array"})
	}
	switch natural {
	case "string":
		return pick(r, []string{"", "a", "abc"})
	case "integer":
		return r.Int64N(6)
	case "number":
		return r.Float64() * 6
	case "array":
		list := []any{}
		for i := range r.IntN(4) {
			c := &shape{natural: "string"}
			switch {
			case sh.items != nil:
				c = sh.items
			case i < len(sh.positions):
				c = sh.positions[i]
			case sh.rest != nil:
				c = sh.rest
			}
			list = append(list, c.value(r, depth-1))
		}
		return list
	}
	obj := Object{}
	for _, k := range []string{"a", "b", "c", "d", "e"} {
		c := &shape{natural: pick(r, []string{"string", "integer", "object"})}
		switch {
		case sh.fields[k] != nil:
			c = sh.fields[k]
		case len(sh.patterns) > 0 && (k == "c" || k == "d"):
			c = sh.patterns["^[cd]"]
		case sh.additional != nil:
			c = sh.additional
		}
		if r.IntN(3) > 0 {
			obj[k] = c.value(r, depth-1)
		}
	}
	return obj
}
