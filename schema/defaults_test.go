package schema_test

import (
	"testing"

	"espalier.dev/schema"
)

// TestDefaults shows where defaults are filled in. Whatever the way an object takes,
// text or tree, with a report or without, the result is the same.
func TestDefaults(t *testing.T) {
	t.Run("V-11", func(t *testing.T) {
		for _, tc := range []struct {
			name, schema string
			want         map[string]string
		}{{
			name:   "of a field",
			schema: `{properties: {a: {type: integer, default: 1}}}`,
			want: map[string]string{
				`{}`:         `{"a":1}`,
				`{"a":2}`:    `{"a":2}`,
				`{"a":0}`:    `{"a":0}`,
				`{"a":null}`: `{"a":1}`,
			},
		}, {
			name:   "only in an object that is there",
			schema: `{properties: {o: {type: object, properties: {a: {type: integer, default: 1}}}}}`,
			want: map[string]string{
				`{}`:         `{}`,
				`{"o":{}}`:   `{"o":{"a":1}}`,
				`{"o":null}`: `{}`,
			},
		}, {
			name:   "of a default",
			schema: `{properties: {o: {type: object, default: {}, properties: {p: {type: object, default: {c: 3}, properties: {a: {type: integer, default: 1}, b: {type: integer}, c: {type: integer}}}}}}}`,
			want: map[string]string{
				`{}`:                       `{"o":{"p":{"a":1,"c":3}}}`,
				`{"o":null}`:               `{"o":{"p":{"a":1,"c":3}}}`,
				`{"o":{"p":{"b":2}}}`:      `{"o":{"p":{"a":1,"b":2}}}`,
				`{"o":{"p":{"a":null}}}`:   `{"o":{"p":{"a":1}}}`,
				`{"o":{"p":{},"other":1}}`: `{"o":{"p":{"a":1}}}`,
			},
		}, {
			name:   "in items",
			schema: `{properties: {l: {type: array, items: {type: object, default: {x: z}, properties: {a: {type: integer, default: 1}, x: {type: string}}}}}}`,
			want: map[string]string{
				`{}`:                      `{}`,
				`{"l":[]}`:                `{"l":[]}`,
				`{"l":[{},{"a":2},null]}`: `{"l":[{"a":1},{"a":2},{"a":1,"x":"z"}]}`,
			},
		}, {
			name:   "in maps",
			schema: `{properties: {m: {type: object, additionalProperties: {type: object, default: {x: z}, properties: {a: {type: integer, default: 1}, x: {type: string}}}}}}`,
			want: map[string]string{
				`{"m":{}}`:                                `{"m":{}}`,
				`{"m":{"k":{},"l":{"a":2},"n":null}}`:     `{"m":{"k":{"a":1},"l":{"a":2},"n":{"a":1,"x":"z"}}}`,
				`{"m":{"k":{"x":"z","unknown":{"a":1}}}}`: `{"m":{"k":{"a":1,"x":"z"}}}`,
			},
		}, {
			name:   "in the items of a default",
			schema: `{properties: {l: {type: array, default: [{}, {a: 2}], items: {type: object, properties: {a: {type: integer, default: 1}}}}}}`,
			want:   map[string]string{`{}`: `{"l":[{"a":1},{"a":2}]}`, `{"l":null}`: `{"l":[{"a":1},{"a":2}]}`},
		}, {
			name:   "beside nullable, a null stays",
			schema: `{properties: {a: {type: integer, nullable: true, default: 1}, l: {type: array, items: {type: integer, nullable: true, default: 1}}}}`,
			want:   map[string]string{`{}`: `{"a":1}`, `{"a":null}`: `{"a":null}`, `{"l":[null]}`: `{"a":1,"l":[null]}`},
		}, {
			name:   "of null is none",
			schema: `{properties: {a: {type: integer, nullable: true, default: null}}}`,
			want:   map[string]string{`{}`: `{}`, `{"a":null}`: `{"a":null}`},
		}, {
			name:   "is pruned itself",
			schema: `{properties: {o: {type: object, default: {a: 1, unknown: 2}, properties: {a: {type: integer}}}}}`,
			want:   map[string]string{`{}`: `{"o":{"a":1}}`},
		}, {
			name:   "of every type",
			schema: `{properties: {s: {type: string, default: x}, i: {type: integer, default: -1}, f: {type: number, default: 1.5}, b: {type: boolean, default: false}, e: {type: string, default: ""}, l: {type: array, items: {type: integer}, default: [1, 2]}}}`,
			want:   map[string]string{`{}`: `{"s":"x","i":-1,"f":1.5,"b":false,"e":"","l":[1,2]}`},
		}} {
			t.Run(tc.name, func(t *testing.T) {
				for _, sem := range both {
					p := compile(t, "{type: object, "+tc.schema[1:], schema.WithSemantics(sem))
					for input, want := range tc.want {
						for _, report := range []bool{false, true} {
							obj, _, err := p.Decode([]byte(input), schema.DecodeOptions{Report: report})
							if err != nil {
								t.Errorf("%s: %s: %v", sem, input, err)
								continue
							}
							sameJSON(t, obj, want)
						}
						obj := object(t, input)
						if _, err := p.Normalize(obj, schema.DecodeOptions{}); err != nil {
							t.Errorf("%s: %s: %v", sem, input, err)
						}
						sameJSON(t, obj, want)
					}
				}
			})
		}
		t.Run("is a copy each time", func(t *testing.T) {
			p := compile(t, `{type: object, properties: {l: {type: array, default: [{}], items: {type: object, x-kubernetes-preserve-unknown-fields: true}}}}`)
			for range 2 {
				obj := schema.Object{}
				if _, err := p.Normalize(obj, schema.DecodeOptions{}); err != nil {
					t.Fatal(err)
				}
				sameJSON(t, obj, `{"l":[{}]}`)
				obj["l"].([]any)[0].(map[string]any)["changed"] = true
			}
		})
	})
}
