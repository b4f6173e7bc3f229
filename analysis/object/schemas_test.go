package object_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"espalier.dev/analysis/object"
	"espalier.dev/schema"
)

// thingsWith returns a CRD with a schema.
func thingsWith(schema string) string {
	return `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: things.example.com},
spec: {group: example.com, scope: Cluster, names: {plural: things, kind: Thing}, versions: [{name: v1, served: true, storage: true,
schema: {openAPIV3Schema: ` + schema + `}}]}}`
}

func thing(fields string) []byte {
	return []byte(`{"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}, ` + fields + `}`)
}

// TestSchemas checks the findings about objects of schemas that differ in one respect.
func TestSchemas(t *testing.T) {
	for _, tt := range []struct {
		name, schema, fields string
		check, prune         []string
	}{
		{
			name: "several branches of a oneOf", fields: `"a": 2`,
			schema: `{type: object, properties: {a: {type: integer, oneOf: [{minimum: 1}, {minimum: 5}, {maximum: 3}]}}}`,
			check: []string{
				`error validation/one-of /a: Invalid value: "": "a" must validate one and only one schema (oneOf). Found 2 valid alternatives`,
				`  oneOf[0], oneOf[2] all match; exactly one must`,
				`  schema: .properties[a]`,
			},
		},
		{
			name: "nested branches at the root", fields: `"a": 2`,
			schema: `{type: object, properties: {a: {type: integer}, b: {type: integer}},
				anyOf: [{not: {required: [a]}}, {anyOf: [{required: [b]}, {properties: {a: {minimum: 5}}}]}]}`,
			check: []string{
				`error validation/any-of : Invalid value: "": "" must validate at least one schema (anyOf)`,
				`  anyOf[1] is the closest match, but fails on:`,
				`    the object: Invalid value: "": "" must validate at least one schema (anyOf)`,
				`      anyOf[1] is the closest match, but fails on:`,
				`        a: Invalid value: 2: a in body should be greater than or equal to 5`,
				`  anyOf[0] fails on:`,
				`    the object: Invalid value: "": "" must not validate the schema (not)`,
				`  schema: the root of the schema`,
			},
		},
		{
			name: "fields of maps", fields: `"a": {"x": {"c": 1, "b": 2, "b": 3}}`,
			schema: `{type: object, properties: {a: {type: object, additionalProperties: {type: object, properties: {b: {type: integer}}}}}}`,
			check: []string{
				`warning duplicate-field /a/x/b: duplicate field "a.x.b": the last one takes effect`,
				`warning unknown-field /a/x/c: unknown field "a.x.c": the API server drops it`,
				`  schema: .properties[a].additionalProperties`,
			},
			prune: []string{
				`warning duplicate-field /a/x/b: duplicate field: the last one takes effect`,
				`warning unknown-field /a/x/c: pruned: not specified by the schema`,
				`  schema: .properties[a].additionalProperties`,
			},
		},
		{
			name: "null", fields: `"a": null, "b": null, "c": null`,
			schema: `{type: object, properties: {a: {type: string}, b: {type: string, nullable: true}, c: {type: string, default: x}}}`,
			prune: []string{
				`info null-dropped /a: removed: null is not allowed`,
				`  schema: .properties[a]`,
				`info defaulted /c: null is not allowed: defaulted to "x"`,
				`  schema: .properties[c]`,
			},
		},
	} {
		for _, sem := range []schema.Semantics{schema.KEP, schema.Kubernetes} {
			t.Run(tt.name+" "+sem.String(), func(t *testing.T) {
				c := checker(t, thingsWith(tt.schema), sem, nil)
				expect(t, c.Check(t.Context(), thing(tt.fields), nil, object.Warn), tt.check...)
				expect(t, c.Prune(thing(tt.fields)).Reasons(), tt.prune...)
			})
		}
	}
}

// TestManyBranches checks that all branches of a logical operator are explained, unless there are
// many.
func TestManyBranches(t *testing.T) {
	for branches, want := range map[int]int{2: 2, 8: 8, 9: 1, 20: 1} {
		var list []string
		for i := range branches {
			list = append(list, fmt.Sprintf("{minimum: %d}", i+1))
		}
		c := checker(t, thingsWith(`{type: object, properties: {a: {type: integer, anyOf: [`+strings.Join(list, ", ")+`]}}}`), schema.Kubernetes, nil)
		findings := c.Check(t.Context(), thing(`"a": 0`), nil, object.Warn)
		if len(findings) != 1 || len(findings[0].Detail) != 2*want || !strings.Contains(findings[0].Detail[0], "anyOf[0] is the closest match") {
			t.Errorf("%d branches: %q", branches, lines(findings))
		}
	}
}

// TestDifferences checks what is said about results of the other semantics.
func TestDifferences(t *testing.T) {
	pruned := func(path string) []string {
		return []string{`info semantics : under kubernetes semantics it would be stored differently`, `  ` + path + ` is pruned under kubernetes semantics only`}
	}
	for _, tt := range []struct {
		name, schema, fields string
		sem                  schema.Semantics
		check, prune         []string
	}{
		{
			name: "union", fields: `"a": {"x": 1, "z": 1}`, sem: schema.Kubernetes,
			schema: `{type: object, properties: {a: {type: object, x-kubernetes-unions: [{fields: {x: X, z: Z}}],
				properties: {x: {type: integer}, z: {type: integer}}}}}`,
			check: []string{
				`info semantics : under kep semantics it would be rejected`,
				`  a: Invalid value: "x, z": exactly one of x, z must be set, but there are 2`,
			},
		},
		{
			name: "invalid in both", fields: `"a": {"x": "text"}`, sem: schema.Kubernetes,
			schema: `{type: object, properties: {a: {type: object, x-kubernetes-preserve-unknown-fields: true, properties: {x: {type: integer}}}}}`,
			check: []string{
				`error validation/wrong-type /a/x: Invalid value: "string": a.x in body must be of type integer: "string"`,
				`  schema: .properties[a].properties[x]`,
			},
		},
		{
			name: "duplicate field", fields: `"a": {"x": {"y": 1, "y": 2}}`, sem: schema.KEP,
			schema: `{type: object, properties: {a: {type: object, x-kubernetes-preserve-unknown-fields: true, properties: {x: {type: object}}}}}`,
			check:  pruned("a.x.y"), prune: pruned("a.x.y"),
		},
		{
			name: "in a list", fields: `"a": [{"x": {"y": 1}}]`, sem: schema.KEP,
			schema: `{type: object, properties: {a: {type: array, items: {type: object, x-kubernetes-preserve-unknown-fields: true,
				properties: {x: {type: object}}}}}}`,
			check: pruned("a[0].x.y"), prune: pruned("a[0].x.y"),
		},
		{
			name: "in a map", fields: `"a": {"b": {"x": {"y": 1}}}`, sem: schema.KEP,
			schema: `{type: object, properties: {a: {type: object, additionalProperties: {type: object, x-kubernetes-preserve-unknown-fields: true,
				properties: {x: {type: object}}}}}}`,
			check: pruned("a.b.x.y"), prune: pruned("a.b.x.y"),
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := checker(t, thingsWith(tt.schema), tt.sem, nil)
			expect(t, c.Check(t.Context(), thing(tt.fields), nil, object.Ignore), tt.check...)
			expect(t, c.Prune(thing(tt.fields)).Difference(), tt.prune...)
		})
	}
}

// TestTruncatedChanges checks that an object with very many unknown fields has a finding that says
// that there are more.
func TestTruncatedChanges(t *testing.T) {
	// The total length of the paths is limited, so deep ones make it quick.
	const depth = 100
	c := checker(t, thingsWith(strings.Repeat(`{type: object, properties: {a: `, depth)+`{type: object}`+strings.Repeat(`}}`, depth)), schema.Kubernetes, nil)
	var fields []string
	for i := range 3000 {
		fields = append(fields, fmt.Sprintf(`"a%d": 1`, i))
	}
	deep := func(fields string) []byte {
		return thing(`"a": ` + strings.Repeat(`{"a": `, depth-1) + `{` + fields + `}` + strings.Repeat(`}`, depth-1))
	}
	few, many := deep(fields[0]), deep(strings.Join(fields, ", "))
	for severity, fields := range map[string]object.FieldValidation{"warning": object.Warn, "error": object.Strict} {
		want := severity + ` unknown-field : there are more unknown fields than listed here`
		if got := lines(c.Check(t.Context(), many, nil, fields)); !slices.Contains(got, want) {
			t.Errorf("%s: %d lines", severity, len(got))
		}
		if got := lines(c.Check(t.Context(), few, nil, fields)); slices.Contains(got, want) {
			t.Errorf("%s: %q", severity, got)
		}
	}
	expect(t, c.Check(t.Context(), many, nil, object.Ignore))
	const more = `info unknown-field : there are more changes than listed here`
	if got := lines(c.Prune(many).Reasons()); !slices.Contains(got, more) {
		t.Errorf("%d lines", len(got))
	}
	if got := lines(c.Prune(few).Reasons()); slices.Contains(got, more) {
		t.Errorf("%q", got)
	}
}

// TestEdits checks the edits that prune an object: values that differ are set as a whole, and
// nothing else is.
func TestEdits(t *testing.T) {
	c := checker(t, thingsWith(`{type: object, properties: {a: {type: array, items: {type: object, default: {}, properties: {x: {type: integer, default: 1}}}},
		b: {type: object, nullable: true, default: {w: 2}, properties: {w: {type: integer}}}}}`), schema.Kubernetes, nil)
	for fields, want := range map[string]string{
		`"a": [{"x": 1, "z": 2}, {}], "b": {}`:        `remove /a/0/z, set /a/1/x 1`,
		`"a": [null, {"x": 1}], "b": null`:            `set /a/0 {"x":1}`,
		`"b": {"w": 3, "z": null}, "c": [1], "d": {}`: `remove /b/z, remove /c, remove /d`,
		`"a": [], "x": 1`:                             `set /b {"w":2}, remove /x`,
		`"a": [], "b": {"w": 2}`:                      ``,
	} {
		edits, err := c.Prune(thing(fields)).Edits()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range edits {
			got = append(got, strings.TrimSuffix(fmt.Sprintf("%v %s %s", e.Op, e.Pointer, text(t, e.Value)), " null"))
		}
		if got := strings.Join(got, ", "); got != want {
			t.Errorf("%s: got %s, want %s", fields, got, want)
		}
	}
}
