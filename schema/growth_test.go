package schema_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"espalier.dev/internal/testcase"
	"espalier.dev/schema"
)

// growth is a schema and an object of a size that a test chooses.
type growth struct {
	name string
	make func(n int) (schema, object string)
	// sizes are the smallest size and the two that it is compared with.
	sizes [3]int
	// draft4 is true if the schema is a jsonSchema.
	draft4 bool
	// valid is true if the object is valid.
	valid bool
	// updates is true if only an update that changes nothing is compared: the paths of the
	// violations in a new object grow with its size.
	updates bool
}

var (
	wide = [3]int{64, 256, 1024} // fits into a processor's cache, where all accesses cost the same
	deep = [3]int{16, 64, 256}   // for input whose parts are larger
)

// TestGrowth compares the cost of objects and schemas of three sizes. The larger ones may
// cost as much as the smallest, times the factor of their size. For allocated memory the test
// allows for twice that, and for time, which it measures repeatedly, for six times that. If
// the cost were quadratic, the largest would cost 16 times that. The short run leaves out the size
// between the smallest and the largest.
func TestGrowth(t *testing.T) {
	t.Run("V-09", func(t *testing.T) {
		for _, g := range append(append(objectGrowth(), schemaGrowth()...), caseGrowth()...) {
			if testing.Short() {
				g.sizes[1] = g.sizes[2]
			}
			t.Run(g.name, func(t *testing.T) { g.run(t) })
		}
	})
}

// objectGrowth returns objects of growing size, for one schema each.
func objectGrowth() []growth {
	list := func(items string) func(string) func(int) (string, string) {
		return func(item string) func(int) (string, string) {
			return func(n int) (string, string) {
				return fmt.Sprintf(`{type: object, properties: {a: %s}}`, items), `{"a":[` + repeat(n, item) + `]}`
			}
		}
	}
	integers := list(`{type: array, items: {type: integer, maximum: 2000000}}`)
	set := list(`{type: array, x-kubernetes-list-type: set, items: {type: string}}`)
	sets := list(`{type: array, x-kubernetes-list-type: set, items: {type: array, x-kubernetes-list-type: atomic, items: {type: integer}}}`)
	byKey := list(`{type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k], items: {type: object, properties: {k: {type: string}}}}`)
	byKeys := list(`{type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k, l], items: {type: object, properties: {k: {type: string}, l: {type: integer}}}}`)
	badItems := list(`{type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k], items: {type: object, properties: {k: {type: string}, num: {type: integer, maximum: 3}}}}`)
	branches := list(`{type: array, items: {type: integer, anyOf: [{minimum: 5000000}, {maximum: 4000000}], oneOf: [{maximum: 4000000}, {minimum: 3000000}], not: {minimum: 2500000}, allOf: [{maximum: 2000000}]}}`)
	fields := func(field string) func(int) (string, string) {
		return func(n int) (string, string) {
			return `{type: object, properties: {a: {type: object, additionalProperties: {type: integer}}}}`, `{"a":{` + repeat(n, field) + `}}`
		}
	}
	unknown := func(n int) (string, string) {
		return `{type: object, properties: {a: {type: object, properties: {b: {type: string}}}}}`, `{"a":{` + repeat(n, `"unknown%d":{"x":[1]}`) + `}}`
	}
	tuple := func(item string) func(int) (string, string) {
		return func(n int) (string, string) {
			return `{properties: {a: {items: [{type: integer}], additionalItems: {$ref: "#/definitions/x"}}}, definitions: {x: {type: integer, maximum: 2000000}}}`, `{"a":[` + repeat(n, item) + `]}`
		}
	}
	return []growth{
		{name: "list", make: integers(`%d`), sizes: wide, valid: true},
		{name: "list, invalid", make: integers(`3%06d`), sizes: wide},
		{name: "set", make: set(`"x%d"`), sizes: wide, valid: true},
		{name: "set, invalid", make: set(`"x%[1]d","x%[1]d"`), sizes: wide},
		{name: "set of lists", make: sets(`[%d]`), sizes: wide, valid: true},
		{name: "set of lists, invalid", make: sets(`[%[1]d],[%[1]d]`), sizes: wide},
		{name: "list with a key", make: byKey(`{"k":"x%d"}`), sizes: wide, valid: true},
		{name: "list with a key, invalid", make: byKey(`{"k":"x%[1]d"},{"k":"x%[1]d"}`), sizes: wide},
		{name: "list with two keys", make: byKeys(`{"k":"x","l":%d}`), sizes: wide, valid: true},
		{name: "list with a key, invalid items", make: badItems(`{"k":"x%d","num":9}`), sizes: wide},
		{name: "list with two keys, invalid", make: byKeys(`{"k":"x","l":%[1]d},{"k":"x","l":%[1]d}`), sizes: wide},
		{name: "logical operators", make: branches(`%d`), sizes: wide, valid: true},
		{name: "logical operators, invalid", make: branches(`46%05d`), sizes: wide},
		{name: "map", make: fields(`"x%[1]d":%[1]d`), sizes: wide, valid: true},
		{name: "map, invalid", make: fields(`"x%d":{}`), sizes: wide},
		{name: "unknown fields", make: unknown, sizes: wide, valid: true},
		{name: "jsonSchema", make: tuple(`%d`), sizes: wide, draft4: true, valid: true},
		{name: "jsonSchema, invalid", make: tuple(`3%06d`), sizes: wide, draft4: true},
	}
}

// schemaGrowth returns schemas of growing size, and objects that use all of the schema or
// little of it.
func schemaGrowth() []growth {
	properties := func(schema, object string) func(int) (string, string) {
		return func(n int) (string, string) {
			return `{"type":"object","properties":{"a":{"type":"object","properties":{` + repeat(n, schema) + `}}}}`, `{"a":{` + repeat(n, object) + `}}`
		}
	}
	required := func(object string) func(int) (string, string) {
		return func(n int) (string, string) {
			return `{"type":"object","properties":{"a":{"type":"object","additionalProperties":{"type":"integer"},"required":[` + repeat(n, `"x%d"`) + `]}}}`, `{"a":{` + repeat(n, object) + `}}`
		}
	}
	branches := func(keyword, branch, value string) func(int) (string, string) {
		return func(n int) (string, string) {
			return fmt.Sprintf(`{"type":"object","properties":{"a":{"type":"integer",%q:[%s]}}}`, keyword, repeat(n, branch)), fmt.Sprintf(`{"a":%s}`, value)
		}
	}
	enum := func(value string) func(int) (string, string) {
		return func(n int) (string, string) {
			return `{"type":"object","properties":{"a":{"type":"string","enum":[` + repeat(n, `"x%d"`) + `]}}}`, `{"a":` + value + `}`
		}
	}
	// The invalid items are at the bottom of both, so that all levels report all of them.
	nested := func(item string) func(int) (string, string) {
		return func(n int) (string, string) {
			return strings.Repeat(`{"type":"object","properties":{"a":`, n) + `{"type":"array","items":{"type":"integer"}}` + strings.Repeat(`}}`, n),
				strings.Repeat(`{"a":`, n) + `[` + item + `]` + strings.Repeat(`}`, n)
		}
	}
	levels := func(n int) (string, string) {
		return strings.Repeat(`{"type":"object","required":["b"],"properties":{"a":`, n) + `{"type":"integer"}` + strings.Repeat(`}}`, n), strings.Repeat(`{"a":`, n) + `1` + strings.Repeat(`}`, n)
	}
	definitions := func(n int) (string, string) {
		return `{"properties":{` + repeat(n, `"x%[1]d":{"$ref":"#/definitions/d%[1]d"}`) + `},"definitions":{` + repeat(n, `"d%d":{"type":"integer"}`) + `}}`, `{` + repeat(n, `"x%d":1`) + `}`
	}
	return []growth{
		{name: "properties", make: properties(`"x%d":{"type":"integer"}`, `"x%d":1`), sizes: wide, valid: true},
		{name: "properties, invalid", make: properties(`"x%d":{"type":"integer"}`, `"x%d":{}`), sizes: wide},
		{name: "properties that are not used", make: func(n int) (string, string) {
			s, _ := properties(`"x%d":{"type":"integer"}`, "")(n)
			return s, `{"a":{"x1":1}}`
		}, sizes: wide, valid: true},
		{name: "defaults", make: func(n int) (string, string) {
			s, _ := properties(`"x%d":{"type":"integer","default":1}`, "")(n)
			return s, `{"a":{}}`
		}, sizes: wide, valid: true},
		{name: "required", make: required(`"x%d":1`), sizes: wide, valid: true},
		{name: "required, invalid", make: required(`"y%d":1`), sizes: wide},
		{name: "allOf", make: branches("allOf", `{"maximum":%d}`, "-1"), sizes: wide, valid: true},
		{name: "allOf, invalid", make: branches("allOf", `{"minimum":%d}`, "-1"), sizes: wide},
		{name: "anyOf", make: branches("anyOf", `{"maximum":-1,"minimum":-%d}`, "-100000"), sizes: wide},
		{name: "oneOf", make: branches("oneOf", `{"minimum":%[1]d,"maximum":%[1]d}`, "7"), sizes: wide, valid: true},
		{name: "oneOf, invalid", make: branches("oneOf", `{"maximum":%d}`, "-1"), sizes: wide},
		{name: "enum", make: enum(`"x63"`), sizes: wide, valid: true},
		{name: "enum, invalid", make: enum(`"y"`), sizes: wide},
		{name: "nested", make: nested(`1`), sizes: deep, valid: true},
		{name: "nested, invalid", make: nested(`"x"`), sizes: deep},
		{name: "nested, invalid on all levels", make: levels, sizes: deep, updates: true},
		{name: "definitions", make: definitions, sizes: wide, draft4: true, valid: true},
	}
}

// caseGrowth returns the cases of the benchmarks.
func caseGrowth() []growth {
	from := func(c testcase.Case) (string, string) { return string(c.Schema), string(c.Object) }
	return []growth{
		{name: "benchmark: objects", make: func(n int) (string, string) { return from(testcase.LogicalOperators(4, n)) }, sizes: deep, valid: true},
		{name: "benchmark: branches", make: func(n int) (string, string) { return from(testcase.LogicalOperators(n, 32)) }, sizes: [3]int{4, 32, 256}, valid: true},
		{name: "benchmark: sections", make: func(n int) (string, string) { return from(testcase.Sections(n, 4)) }, sizes: [3]int{1, 8, 64}, valid: true},
	}
}

// repeat formats the numbers below n and joins them with commas.
func repeat(n int, format string) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = format
		if strings.Contains(format, "%") {
			parts[i] = fmt.Sprintf(format, i)
		}
	}
	return strings.Join(parts, ",")
}

// grown is a growth at one size.
type grown struct {
	*bench
	text     []byte
	compiles func() (*schema.Program, error)
	// reversed is the object with the items of the list a in reverse order, and changed if they
	// are objects: what an update of a list replaces.
	reversed schema.Object
}

func (g *growth) at(t *testing.T, n int) *grown {
	t.Helper()
	s, object := g.make(n)
	p := props(t, s)
	made := &grown{bench: &bench{props: *p}, text: []byte(object)}
	made.compiles = func() (*schema.Program, error) {
		if g.draft4 {
			return schema.CompileJSONSchema(p, schema.WithSemantics(schema.Kubernetes))
		}
		return made.compile()
	}
	var err error
	if made.program, err = made.compiles(); err != nil {
		t.Fatal(err)
	}
	if made.tree, _, err = made.program.Decode(made.text, schema.DecodeOptions{}); err != nil {
		t.Fatal(err)
	}
	if v := made.program.Validate(context.Background(), made.tree, nil); (len(v) == 0) != g.valid {
		t.Fatalf("size %d: %d violations", n, len(v))
	}
	if made.reversed, _, err = made.program.Decode(made.text, schema.DecodeOptions{}); err != nil {
		t.Fatal(err)
	}
	if list, ok := made.reversed["a"].([]any); ok {
		slices.Reverse(list)
		for _, item := range list {
			if object, ok := item.(map[string]any); ok {
				object["changed"] = true
			}
		}
	}
	return made
}

func (g *growth) run(t *testing.T) {
	small := g.at(t, g.sizes[0])
	for _, size := range slices.Compact(g.sizes[1:]) {
		large := g.at(t, size)
		factor := size / g.sizes[0]
		for name, op := range map[string]func(*grown){
			"compile":          func(b *grown) { b.compiles() },
			"decode":           func(b *grown) { b.program.Decode(b.text, schema.DecodeOptions{}) },
			"report":           func(b *grown) { b.program.Decode(b.text, schema.DecodeOptions{Report: true}) },
			"validate":         func(b *grown) { b.program.Validate(context.Background(), b.tree, nil).FieldErrors() },
			"update":           func(b *grown) { b.program.Validate(context.Background(), b.tree, schema.Object{"a": map[string]any{}}) },
			"no-op update":     func(b *grown) { b.program.Validate(context.Background(), b.tree, b.tree) },
			"update of a list": func(b *grown) { b.program.Validate(context.Background(), b.tree, b.reversed) },
		} {
			if g.updates && name != "no-op update" {
				continue
			}
			one, many := func() { op(large) }, func() {
				for range factor {
					op(small)
				}
			}
			if got := leastRatio(memory, one, many, 2); got > 2 {
				t.Errorf("%s: %d times the size allocates %.0f times as much", name, factor, got*float64(factor))
			}
			if got := leastRatio(duration, one, many, 6); got > 6 {
				t.Errorf("%s: %d times the size takes %.0f times as long", name, factor, got*float64(factor))
			}
		}
	}
}

// leastRatio returns how many times more a costs than b. It repeats the measurement while
// that is more than enough, and keeps the lowest cost of each, because disturbances only ever
// add to it.
func leastRatio(cost func(func()) float64, a, b func(), enough float64) float64 {
	lowestA, lowestB := cost(a), cost(b)
	for range 10 {
		if lowestA <= enough*lowestB {
			break
		}
		lowestA, lowestB = min(lowestA, cost(a)), min(lowestB, cost(b))
	}
	return lowestA / lowestB
}

// duration returns the time that f takes, in seconds.
func duration(f func()) float64 {
	start := time.Now()
	f()
	return time.Since(start).Seconds()
}

// memory returns the bytes that f allocates. Small amounts are rounded up: they are noise.
func memory(f func()) float64 { return float64(max(4096, allocated(f))) }
