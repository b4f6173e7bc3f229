package lint_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	"espalier.dev/analysis/internal/analysistest"
	"espalier.dev/analysis/lint"
	"espalier.dev/api/codec"
	"espalier.dev/schema"
)

// TestDifferences covers the differences between the two semantics, by ledger row. Each
// case runs with both. The expected results are the rule, the path and the first word of
// the message.
func TestDifferences(t *testing.T) {
	tests := []struct {
		row, name, text string
		kep, kubernetes []string
	}{
		{"P-07", "P-07", v1(`{type: object, properties: {foo: {type: object, x-kubernetes-preserve-unknown-fields: true, properties: {bar: {type: object}}}}}`),
			[]string{"semantics-pruning .properties[foo].properties[bar] kubernetes"}, nil},
		{"P-07", "P-07 of a scalar", v1(`{type: object, properties: {foo: {type: object, x-kubernetes-preserve-unknown-fields: true, properties: {bar: {type: string}, l: {type: array, items: {type: string}}}}}}`), nil, nil},
		{"P-07", "P-07 with a word", v1(`{type: object, properties: {foo: {type: object, x-kubernetes-preserve-unknown-fields: true, properties: {bar: {type: object, x-kubernetes-preserve-unknown-fields: true}, baz: {type: object, properties: {x: {type: string}}}}}}}`), nil, nil},
		{"P-09", "P-09", v1(`{type: object, x-kubernetes-preserve-unknown-fields: true, properties: {foo: {type: object, properties: {a: {type: string}}}, bar: {type: object}, metadata: {type: object}}}`),
			[]string{"semantics-pruning .properties[bar] kubernetes"}, nil},
		{"P-12", "P-12 lists of objects", v1(`{type: object, properties: {x: {type: object, x-kubernetes-preserve-unknown-fields: true, properties: {l: {type: array, items: {type: object}}, f: {type: array, items: {type: object, properties: {a: {type: string}}}}}}}}`),
			[]string{"semantics-pruning .properties[x].properties[l].items kubernetes"}, nil},
		{"P-12", "P-12 items of what is kept", v1(`{type: object, properties: {x: {type: array, x-kubernetes-preserve-unknown-fields: true, items: {type: object, properties: {a: {type: string}}}}}}`),
			[]string{"semantics-pruning .properties[x].items kep"}, nil},
		{"P-12", "P-12 maps", v1(`{type: object, properties: {x: {type: object, x-kubernetes-preserve-unknown-fields: true, properties: {m: {type: object, additionalProperties: {type: object}}, t: {type: object, additionalProperties: true}}}}}`), nil, nil},
		{"P-12", "P-12 any map", v1(`{type: object, properties: {x: {type: object, x-kubernetes-preserve-unknown-fields: true, additionalProperties: true}}}`),
			[]string{"semantics-pruning .properties[x].additionalProperties kubernetes"}, nil},
		{"P-19", "P-19", v1beta1(`preserveUnknownFields: false`),
			[]string{"semantics-refused  kubernetes"}, nil},
		{"S-02", "S-02", v1(`{type: object, properties: {a: {type: object, properties: {b: {type: string}}, anyOf: [{additionalProperties: false}]}}}`),
			[]string{"semantics-liberty .properties[a].anyOf[0].additionalProperties kep"},
			[]string{"semantics-liberty .properties[a].anyOf[0].additionalProperties kep"}},
		{"S-03", "S-03", v1(`{type: object, properties: {e: {type: object, x-kubernetes-embedded-resource: true, properties: {kind: {}, apiVersion: {}, metadata: {}}}}}`),
			[]string{"semantics-refused .properties[e].properties[apiVersion].type kubernetes", "semantics-refused .properties[e].properties[apiVersion].type kubernetes",
				"semantics-refused .properties[e].properties[kind].type kubernetes", "semantics-refused .properties[e].properties[kind].type kubernetes",
				"semantics-refused .properties[e].properties[metadata].type kubernetes", "semantics-refused .properties[e].properties[metadata].type kubernetes"}, nil},
		{"S-04", "S-04", v1(`{type: object, properties: {a: {type: object, properties: {c: {type: string}}, not: {properties: {b: {}}}}}}`),
			nil, []string{"semantics-refused .properties[a].properties[b] kep"}},
		{"S-04", "S-04 at the root", v1(`{type: object, properties: {c: {type: string}}, not: {properties: {b: {}}}}`), nil, nil},
		{"S-06", "S-06 oneOf", v1(`{type: object, properties: {p: {x-kubernetes-int-or-string: true, oneOf: [{type: integer}, {type: string}]}}}`),
			[]string{"semantics-refused .properties[p].oneOf[0].type kubernetes", "semantics-refused .properties[p].oneOf[1].type kubernetes"}, nil},
		{"S-06", "S-06 without the marker", v1(`{type: object, properties: {p: {type: string, anyOf: [{type: integer}, {type: string}]}, q: {type: string, x-kubernetes-int-or-string: true}}}`),
			[]string{"semantics-liberty .properties[p].anyOf[0].type kep", "semantics-liberty .properties[p].anyOf[1].type kep", "semantics-liberty .properties[q].type kep"},
			[]string{"semantics-liberty .properties[p].anyOf[0].type kep", "semantics-liberty .properties[p].anyOf[1].type kep", "semantics-liberty .properties[q].type kep"}},
		{"S-06", "S-06 as both have it", v1(`{type: object, properties: {p: {x-kubernetes-int-or-string: true, anyOf: [{type: integer}, {type: string}]}}}`), nil, nil},
		{"S-07", "S-07", v1(`{type: object, properties: {e: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true, properties: {metadata: {type: object}}, anyOf: [{properties: {metadata: {}}}]}}}`),
			[]string{"semantics-refused .properties[e].anyOf[0].properties[metadata] kubernetes"}, nil},
		{"S-14", "S-14", v1(`{type: object, properties: {a: {type: string}, b: {type: string}, t: {type: string}}, x-kubernetes-unions: [{discriminator: t, fields: {a: A, b: B}}]}`),
			[]string{"semantics-dropped .x-kubernetes-unions x-kubernetes-unions"}, []string{"semantics-dropped .x-kubernetes-unions x-kubernetes-unions"}},
		{"S-17", "S-17", v1(`{type: object, properties: {a: {type: string, readOnly: true}}}`),
			[]string{"semantics-dropped .properties[a].readOnly readOnly"}, []string{"semantics-dropped .properties[a].readOnly readOnly"}},
		{"B-04", "B-04", v1(`{type: object, properties: {a: {type: object, properties: {x: {type: string}}, additionalProperties: true}}}`),
			[]string{"semantics-liberty .properties[a].additionalProperties kep"},
			[]string{"semantics-liberty .properties[a].additionalProperties kep"}},
		{"V-02", "V-02", v1beta1(`validation: {jsonSchema: {type: object, required: [spec]}}`),
			[]string{"semantics-dropped spec.validation.jsonSchema jsonSchema"}, []string{"semantics-dropped spec.validation.jsonSchema jsonSchema"}},
		{"V-10", "V-10", v1beta1(`validation: {openAPIV3Schema: {type: object, additionalProperties: false}}`),
			[]string{"semantics-refused spec.validation.openAPIV3Schema.additionalProperties kubernetes"}, nil},
	}
	rules := lint.Config{Disable: []string{lint.All}, Enable: []string{"semantics-pruning", "semantics-dropped", "semantics-refused", "semantics-liberty"}}
	var all sheet
	rows := map[string]bool{}
	for _, tt := range tests {
		rows[tt.row] = true
	}
	for _, row := range slices.Sorted(maps.Keys(rows)) {
		// The sheet is complete even if -run selects the test of a row, as make prove does.
		for _, tt := range tests {
			if tt.row == row {
				all.addBoth(t, tt.name, rules, tt.text)
			}
		}
		t.Run(row, func(t *testing.T) {
			for _, tt := range tests {
				if tt.row != row {
					continue
				}
				for sem, want := range map[schema.Semantics][]string{schema.KEP: tt.kep, schema.Kubernetes: tt.kubernetes} {
					var got []string
					for _, f := range lintAll(t, sem, rules, tt.text)[0] {
						first, _, _ := strings.Cut(f.Message, " ")
						got = append(got, f.Rule+" "+strings.TrimPrefix(f.Path, site)+" "+strings.TrimSuffix(first, ","))
					}
					if !slices.Equal(got, want) {
						t.Errorf("%s in %s: got\n  %s\nwant\n  %s", tt.name, sem, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
					}
				}
			}
		})
	}
	all.compare(t, "differences.txt")
}

// TestPublished covers the rule about publication, which is disabled by default.
func TestPublished(t *testing.T) {
	text := v1(`{type: object, properties: {a: {type: string, pattern: ^a}, b: {type: string}, p: {x-kubernetes-int-or-string: true}, q: {type: string}}}`)
	t.Run("S-10", func(t *testing.T) {
		fs := lintAll(t, schema.KEP, only("semantics-published"), text)[0]
		expect(t, fs, "info ")
		says(t, fs[0], "pattern (not part of OpenAPI v2 in kep semantics), x-kubernetes-int-or-string (expanded as in the design documents)")
		fs = lintAll(t, schema.KEP, only("semantics-published"), v1(`{type: object, properties: {a: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}, b: {type: string, anyOf: [{pattern: a}]}}}`))[0]
		expect(t, fs, "info ")
		if want := "the published OpenAPI differs between the semantics: x-kubernetes-embedded-resource (expanded in kep semantics only)"; fs[0].Message != want {
			t.Errorf("got %s", fs[0].Message)
		}
		expect(t, lintAll(t, schema.KEP, only("semantics-published"), v1(`{type: object, properties: {a: {type: string}}}`))[0])
		for _, f := range lintAll(t, schema.KEP, lint.Config{}, text)[0] {
			if f.Rule == "semantics-published" {
				t.Error("the rule is on although nobody asked for it")
			}
		}
	})
}

// TestDifferencesOf covers a CRD that is decoded already.
func TestDifferencesOf(t *testing.T) {
	tests := []struct {
		name, text string
		want       []string
	}{
		{"none", v1(`{type: object, properties: {a: {type: string, pattern: a}}}`), nil},
		{"pruning", v1(`{type: object, x-kubernetes-preserve-unknown-fields: true, properties: {bar: {type: object}}}`), []string{"warning .properties[bar]"}},
		{"what one rejects", v1(`{type: object, properties: {a: {type: object, properties: {c: {type: string}}, not: {properties: {b: {}}}}}}`), []string{"info .properties[a].properties[b]"}},
		{"what the other rejects", v1(`{type: object, properties: {p: {x-kubernetes-int-or-string: true, oneOf: [{type: integer}, {type: string}]}}}`), []string{"info .properties[p].oneOf[0].type", "info .properties[p].oneOf[1].type"}},
		{"rules", v1(`{type: object, properties: {a: {type: string}}, x-kubernetes-validations: [{rule: "nonsense("}]}`), nil},
		{"of v1beta1, as v1 has it", v1beta1(`validation: {jsonSchema: {type: object}}`), []string{"warning metadata.annotations[espalier.dev/json-schema]"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d, err := codec.Decode(analysistest.JSON(t, tt.text))
			if err != nil {
				t.Fatal(err)
			}
			fs, err := lint.Differences(context.Background(), d)
			if err != nil {
				t.Fatal(err)
			}
			expect(t, fs, tt.want...)
		})
	}
}
