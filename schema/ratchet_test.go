package schema_test

import (
	"slices"
	"testing"

	"espalier.dev/schema"
)

// updateCase is a new value of the field v, the old one that it replaces, and what
// kube-apiserver says of the update, sorted.
type updateCase struct {
	value, old string
	want       []string
}

// TestRatcheting shows what an update may leave as wrong as it was: a schema that
// was made stricter does not get in the way of those who change something else.
func TestRatcheting(t *testing.T) {
	for _, tc := range []struct {
		name, schema string
		cases        []updateCase
	}{
		{"an unchanged field passes", `{type: object, properties: {a: {type: string, pattern: '^x'}, b: {type: string, pattern: '^x'}}}`, []updateCase{
			{`{"a":"old","b":"x"}`, `{"a":"old","b":"xx"}`, nil},
			{`{"a":"new"}`, `{"a":"old"}`, []string{`v.a: Invalid value: "new": v.a in body should match '^x'`}},
			{`{"a":"old","b":"new"}`, `{"a":"old"}`, []string{`v.b: Invalid value: "new": v.b in body should match '^x'`}},
			{`{"a":"old"}`, `{"b":"old"}`, []string{`v.a: Invalid value: "old": v.a in body should match '^x'`}},
			{`{"a":"old"}`, `null`, []string{`v.a: Invalid value: "old": v.a in body should match '^x'`}},
			{`{"a":"old"}`, `["old"]`, []string{`v.a: Invalid value: "old": v.a in body should match '^x'`}},
		}},
		{"a condition on the object itself counts unless the object is unchanged", `{type: object, required: [must], minProperties: 2, properties: {a: {type: string}, must: {type: string}}}`, []updateCase{
			{`{"a":"same"}`, `{"a":"same"}`, nil},
			{`{"a":"new"}`, `{"a":"old"}`, []string{`v.must: Required value`, `v: Invalid value: 1: v in body should have at least 2 properties`}},
		}},
		{"also far below", `{type: object, properties: {o: {type: object, properties: {p: {type: object, properties: {num: {type: integer, maximum: 3}, s: {type: string}}}}}}}`, []updateCase{
			{`{"o":{"p":{"num":9,"s":"new"}}}`, `{"o":{"p":{"num":9,"s":"old"}}}`, nil},
			{`{"o":{"p":{"num":10}}}`, `{"o":{"p":{"num":9}}}`, []string{`v.o.p.num: Invalid value: 10: v.o.p.num in body should be less than or equal to 3`}},
		}},
		{"values of maps", `{type: object, additionalProperties: {type: integer, maximum: 3}}`, []updateCase{
			{`{"a":9,"b":1}`, `{"a":9}`, nil},
			{`{"a":9,"b":9}`, `{"a":9}`, []string{`v.b: Invalid value: 9: v.b in body should be less than or equal to 3`}},
		}},
		{"items of a list of type map are matched by their key", `{type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k], items: {type: object, required: [k], properties: {k: {type: string}, num: {type: integer, maximum: 3}, s: {type: string}}}}`, []updateCase{
			{`[{"k":"new"},{"k":"a","num":9}]`, `[{"k":"a","num":9}]`, nil},
			{`[{"k":"a","num":9,"s":"new"}]`, `[{"k":"a","num":9}]`, nil},
			{`[{"k":"b","num":9}]`, `[{"k":"a","num":9}]`, []string{`v[0].num: Invalid value: 9: v[0].num in body should be less than or equal to 3`}},
			{`[{"k":"a","num":10}]`, `[{"k":"a","num":9}]`, []string{`v[0].num: Invalid value: 10: v[0].num in body should be less than or equal to 3`}},
			{`[{"num":9}]`, `[{"num":9}]`, []string{`v[0].k: Required value`, `v[0].num: Invalid value: 9: v[0].num in body should be less than or equal to 3`}},
		}},
		{"and by several keys", `{type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k, l], items: {type: object, properties: {k: {type: string}, l: {type: integer}, num: {type: integer, maximum: 3}}}}`, []updateCase{
			{`[{"k":"a","l":2},{"k":"a","l":1,"num":9}]`, `[{"k":"a","l":1,"num":9}]`, nil},
			{`[{"k":"a","l":2,"num":9}]`, `[{"k":"a","l":1,"num":9}]`, []string{`v[0].num: Invalid value: 9: v[0].num in body should be less than or equal to 3`}},
		}},
		{"by keys of any type", `{type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k, l], items: {type: object, properties: {k: {type: boolean}, l: {type: number}, num: {type: integer, maximum: 3}}}}`, []updateCase{
			{`[{"k":true,"l":1.5,"num":1},{"k":false,"l":1.5,"num":9}]`, `[{"k":false,"l":1.5,"num":9}]`, nil},
			{`[{"k":true,"l":1.5,"num":9}]`, `[{"k":false,"l":1.5,"num":9}]`, []string{`v[0].num: Invalid value: 9: v[0].num in body should be less than or equal to 3`}},
			{`[{"k":true,"l":2.5,"num":9}]`, `[{"k":true,"l":1.5,"num":9}]`, []string{`v[0].num: Invalid value: 9: v[0].num in body should be less than or equal to 3`}},
		}},
		{"by a fraction", `{type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k], items: {type: object, properties: {k: {type: number}, num: {type: integer, maximum: 3}}}}`, []updateCase{
			{`[{"k":0.00000001,"num":9},{"k":1}]`, `[{"k":0.00000001,"num":9}]`, nil},
			{`[{"k":0.00000002,"num":9},{"k":1}]`, `[{"k":0.00000001,"num":9}]`, []string{`v[0].num: Invalid value: 9: v[0].num in body should be less than or equal to 3`}},
		}},
		{"an empty list or object equals no value of another type", `{type: object, properties: {l: {type: array, minItems: 1, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k], items: {type: object, properties: {k: {type: string}}}}, o: {type: object, minProperties: 1}}}`, []updateCase{
			{`{"l":[],"o":{}}`, `{"l":[],"o":{}}`, nil},
			{`{"l":[],"o":{},"x":1}`, `{"l":[],"o":{}}`, nil},
			{`{"l":[]}`, `{"l":"x"}`, []string{`v.l: Invalid value: 0: v.l in body should have at least 1 items`}},
			{`{"o":{}}`, `{"o":"x"}`, []string{`v.o: Invalid value: 0: v.o in body should have at least 1 properties`}},
		}},
		{"an atomic list counts as a whole", `{type: array, items: {type: integer, maximum: 3}}`, []updateCase{
			{`[9,1]`, `[9,1]`, nil},
			{`[9,2]`, `[9,1]`, []string{`v[0]: Invalid value: 9: v[0] in body should be less than or equal to 3`}},
			{`[9]`, `[9,1]`, []string{`v[0]: Invalid value: 9: v[0] in body should be less than or equal to 3`}},
		}},
		{"also one of objects", `{type: array, items: {type: object, properties: {num: {type: integer, maximum: 3}}}}`, []updateCase{
			{`[{"num":9},{"num":1}]`, `[{"num":9},{"num":1}]`, nil},
			{`[{"num":9},{"num":2}]`, `[{"num":9},{"num":1}]`, []string{`v[0].num: Invalid value: 9: v[0].num in body should be less than or equal to 3`}},
		}},
		{"and so does a set", `{type: array, x-kubernetes-list-type: set, items: {type: integer, maximum: 3}}`, []updateCase{
			{`[9,1]`, `[9,1]`, nil},
			{`[1,9]`, `[9,1]`, []string{`v[1]: Invalid value: 9: v[1] in body should be less than or equal to 3`}},
		}},
		{"under logical operators nothing is forgiven on its own", `{type: object, properties: {a: {type: integer, anyOf: [{maximum: 3}, {minimum: 9}]}, b: {type: integer}}, not: {required: [b]}}`, []updateCase{
			{`{"a":5}`, `{"a":5}`, nil},
			{`{"a":6}`, `{"a":5}`, []string{`<nil>: Invalid value: "": "v.a" must validate at least one schema (anyOf)`, `v.a: Invalid value: 6: v.a in body should be less than or equal to 3`}},
			{`{"a":5,"b":1}`, `{"a":5,"b":1}`, nil},
			{`{"a":5,"b":2}`, `{"a":5,"b":1}`, []string{`<nil>: Invalid value: "": "v" must not validate the schema (not)`}},
		}},
		{"list types are not checked if the old object has them wrong", `{type: object, properties: {s: {type: array, x-kubernetes-list-type: set, items: {type: string}}, m: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k], items: {type: object, properties: {k: {type: string}}}}}}`, []updateCase{
			{`{"s":["a","a"]}`, `{"s":["a"]}`, []string{`v.s[1]: Duplicate value: "a"`}},
			{`{"s":["a","a","b","b"]}`, `{"s":["a","a"]}`, nil},
			{`{"m":[{"k":"a"},{"k":"a"}]}`, `{"s":["a","a"]}`, nil},
		}},
		{"an object with unknown fields never equals another", `{type: object, x-kubernetes-preserve-unknown-fields: true, required: [must], properties: {a: {type: string, pattern: x}}}`, []updateCase{
			{`{"a":"xx","unknown":1}`, `{"a":"xx","unknown":1}`, []string{`v.must: Required value`}},
			{`{"a":"xx"}`, `{"a":"xx"}`, nil},
			{`{"a":"y","unknown":1}`, `{"a":"y","unknown":1}`, []string{`v.must: Required value`}},
		}},
		{"null that is not allowed", `{type: object, properties: {a: {type: string}, num: {type: string, nullable: true, enum: [x]}}}`, []updateCase{
			{`{"a":null}`, `{"a":null}`, nil},
			{`{"num":null}`, `{"num":null}`, nil},
			{`{"num":null}`, `{"num":"y"}`, []string{`v.num: Unsupported value: null: supported values: "x"`}},
		}},
		{"numbers of another form are another value", `{type: number, maximum: 3}`, []updateCase{
			{`9`, `9`, nil},
			{`9.0`, `9`, []string{`v: Invalid value: 9: v in body should be less than or equal to 3`}},
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, sem := range both {
				p := compile(t, "{type: object, properties: {v: "+tc.schema+"}}", schema.WithSemantics(sem))
				for _, c := range tc.cases {
					obj, old := object(t, `{"v":`+c.value+`}`), object(t, `{"v":`+c.old+`}`)
					if got := errorsOf(p, obj, old); !slices.Equal(got, c.want) {
						t.Errorf("%s: %s after %s:\n got %q\nwant %q", sem, c.value, c.old, got, c.want)
					}
				}
			}
		})
	}

	// They say nothing of what was stored: both objects have been converted.
	t.Run("apiVersion and kind of the object itself are forgiven only with all of it", func(t *testing.T) {
		p := compile(t, `{type: object, properties: {kind: {type: string, enum: [A]}, apiVersion: {type: string, enum: [v1]}, metadata: {type: object, properties: {name: {type: string, pattern: ^x}}}}}`)
		old := object(t, `{"apiVersion":"v2","kind":"B","metadata":{"name":"y"}}`)
		obj := object(t, `{"apiVersion":"v2","kind":"B","metadata":{"name":"y"},"new":1}`)
		want := []string{`apiVersion: Unsupported value: "v2": supported values: "v1"`, `kind: Unsupported value: "B": supported values: "A"`}
		if got := errorsOf(p, obj, old); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		if got := errorsOf(p, old, old); got != nil {
			t.Errorf("unchanged: got %q", got)
		}
	})
	t.Run("but those of an embedded object are", func(t *testing.T) {
		p := compile(t, `{type: object, properties: {e: {type: object, properties: {kind: {type: string, enum: [A]}}}}}`)
		for _, now := range []string{`{"e":{"kind":"B"},"x":1}`, `{"e":{"kind":"B","x":1}}`} {
			if got := errorsOf(p, object(t, now), object(t, `{"e":{"kind":"B"}}`)); got != nil {
				t.Errorf("%s: got %q", now, got)
			}
		}
	})
	t.Run("without an old object nothing is forgiven", func(t *testing.T) {
		p := compile(t, `{type: object, properties: {v: {type: integer}}}`)
		if got := errorsOf(p, object(t, `{"v":"x"}`), nil); len(got) != 1 {
			t.Errorf("got %q", got)
		}
	})
}
