package lint_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	"espalier.dev/analysis/lint"
	"espalier.dev/crd/cel"
	"espalier.dev/schema"
)

// TestSchemaRules has a hit and a near miss for each rule about schemas.
func TestSchemaRules(t *testing.T) {
	object := func(props string) string { return "{type: object, properties: {" + props + "}}" }
	tests := []struct {
		rule, name string
		schema     string
		want       []string
		says       []string
	}{
		{"non-structural", "no type", `{type: object, properties: {a: {}}}`, []string{"error .properties[a].type"}, []string{"must be non-empty"}},
		{"non-structural", "structural", object(`a: {type: string}`), nil, nil},
		{"invalid-default", "wrong type", object(`a: {type: integer, default: "1"}`), []string{"error .properties[a].default"}, []string{"must be of type integer"}},
		{"invalid-default", "unknown fields", object(`a: {type: object, default: {x: 1}}`), []string{"error .properties[a].default"}, []string{"unknown fields"}},
		{"invalid-default", "a field named default", object(`default: {type: array}`), nil, nil},
		{"invalid-default", "right", object(`a: {type: integer, default: 1}`), nil, nil},
		{"invalid-definition", "a default that is missing", object(`a: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k], items: {type: object, properties: {k: {type: string}}}}`),
			[]string{"error .properties[a].items.properties[k].default"}, []string{"x-kubernetes-list-map-keys"}},
		{"invalid-definition", "uniqueItems", object(`a: {type: array, uniqueItems: true, items: {type: string}}`), []string{"error .properties[a].uniqueItems"}, nil},
		{"invalid-pattern", "lookahead", object(`a: {type: string, pattern: '^(?!kube-)'}`), []string{"error .properties[a].pattern"}, []string{"negative lookahead"}},
		{"invalid-pattern", "in a logical operator", object(`a: {type: string, anyOf: [{pattern: '(a)\1'}]}`), []string{"error .properties[a].anyOf[0].pattern"}, []string{`backreferences (\1)`}},
		{"invalid-pattern", "valid", object(`a: {type: string, pattern: '^(?:a|\(\?=)[(?=]$'}`), nil, nil},
		{"unknown-format", "unknown", object(`a: {type: string, format: ip}`), []string{"warning .properties[a].format"}, []string{`"ip"`, "type string"}},
		{"unknown-format", "of another type", object(`a: {type: string, format: int32}`), []string{"warning .properties[a].format"}, nil},
		{"unknown-format", "known", object(`a: {type: string, format: date-time}, b: {type: integer, format: int32, anyOf: [{format: int64}]}`), nil, nil},
		{"enum-type", "yes", object(`a: {type: string, enum: [auto, yes]}`), []string{"warning .properties[a].enum[1]"}, []string{"boolean", "YAML reads yes"}},
		{"enum-type", "numbers for strings", object(`a: {type: string, enum: [1.2]}`), []string{"warning .properties[a].enum[0]"}, []string{"quotes"}},
		{"enum-type", "in a logical operator", object(`a: {type: string, not: {enum: [1]}}`), []string{"warning .properties[a].not.enum[0]"}, nil},
		{"enum-type", "null", object(`a: {type: string, enum: [a, null]}`), []string{"warning .properties[a].enum[1]"}, nil},
		{"enum-type", "nullable in vain", object(`a: {type: string, nullable: true, enum: [a]}`), []string{"warning .properties[a].nullable"}, nil},
		{"enum-type", "right", object(`a: {type: string, enum: ["yes"]}, b: {type: number, enum: [1, 1.5]}, c: {type: integer, enum: [1.0]}, d: {type: string, nullable: true, enum: [a, null]}, e: {x-kubernetes-int-or-string: true, enum: [1, a]}`), nil, nil},
		{"boolean-name", "y", object(`x: {type: integer}, y: {type: integer}`), []string{"warning .properties[true]"}, []string{"unquoted"}},
		{"boolean-name", "quoted", object(`x: {type: integer}, "y": {type: integer}`), nil, nil},
		{"impossible-bounds", "all", object(`a: {type: integer, minimum: 2, maximum: 1}, b: {type: string, minLength: 2, maxLength: 1}, c: {type: array, minItems: 2, maxItems: 1, items: {type: string}}, d: {type: object, minProperties: 2, maxProperties: 1}, e: {type: integer, minimum: 1, maximum: 1, exclusiveMinimum: true}`),
			[]string{"warning .properties[a].minimum", "warning .properties[b].minLength", "warning .properties[c].minItems", "warning .properties[d].minProperties", "warning .properties[e].minimum"}, nil},
		{"impossible-bounds", "multiples", object(`a: {type: integer, multipleOf: 0}, b: {type: number, multipleOf: -2}, c: {type: number, multipleOf: 0.5}`), []string{"warning .properties[a].multipleOf", "warning .properties[b].multipleOf"}, nil},
		{"impossible-bounds", "one value", object(`a: {type: integer, minimum: 1, maximum: 1}, b: {type: string, minLength: 1, maxLength: 1}`), nil, nil},
		{"required-unspecified", "misspelt", `{type: object, properties: {name: {type: string}}, required: [nmae]}`, []string{"warning .required[0]"}, []string{`"nmae"`, "every object"}},
		{"required-unspecified", "in a logical operator", `{type: object, properties: {a: {type: string}}, anyOf: [{required: [a]}, {required: [b]}]}`, []string{"warning .anyOf[1].required[0]"}, []string{"never holds"}},
		{"required-unspecified", "deep in a logical operator", `{type: object, properties: {a: {type: object, properties: {b: {type: string}}}}, anyOf: [{properties: {a: {required: [b, c]}}}]}`, []string{"warning .anyOf[0].properties[a].required[1]"}, nil},
		{"required-unspecified", "implied, in a logical operator of the root", `{type: object, properties: {a: {type: string}}, anyOf: [{required: [a]}, {required: [metadata]}]}`, nil, nil},
		{"required-unspecified", "implied, kept or a key", `{type: object, required: [metadata, kind], properties: {a: {type: object, x-kubernetes-preserve-unknown-fields: true, required: [x]}, m: {type: object, additionalProperties: {type: string}, required: [x]}, e: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true, required: [kind]}}}`, nil, nil},
		{"pruned-empty", "a field and an item", object(`a: {type: object}, l: {type: array, items: {type: object}}`), []string{"warning .properties[a]", "warning .properties[l].items"}, nil},
		{"pruned-empty", "the root", `{type: object}`, []string{"warning "}, nil},
		{"pruned-empty", "not empty", object(`p: {type: object, properties: {a: {type: string}}}, m: {type: object, additionalProperties: {type: string}}, t: {type: object, additionalProperties: true}, k: {type: object, x-kubernetes-preserve-unknown-fields: true}, marker: {type: object, maxProperties: 0}, d: {type: object, patternProperties: {a: {type: string}}}, metadata: {type: object}`), nil, nil},
		{"pruned-empty", "embedded", object(`e: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true, properties: {metadata: {type: object}}}`), nil, nil},
		{"pruned-empty", "markers", object(`archive: {type: object, properties: {tar: {type: object, properties: {level: {type: integer}}}, zip: {type: object}, none: {type: object}}}, spec: {type: object, properties: {a: {type: object}, b: {type: object}, profile: {type: object, required: [type], properties: {type: {type: string}, old: {type: object}, custom: {type: object, properties: {x: {type: string}}}}}}, oneOf: [{required: [a]}, {required: [b]}]}`), nil, nil},
		{"pruned-empty", "not markers", object(`spec: {type: object, properties: {config: {type: object}, size: {type: object, properties: {x: {type: string}}}, t: {type: object, properties: {config: {type: object}, name: {type: string}}}, r: {type: object, required: [zip], properties: {zip: {type: object}, tar: {type: object, properties: {x: {type: string}}}}}}}`),
			[]string{"warning .properties[spec].properties[config]", "warning .properties[spec].properties[r].properties[zip]", "warning .properties[spec].properties[t].properties[config]"}, nil},
		{"embedded-metadata", "a template", object(`template: {type: object, properties: {metadata: {type: object}}}`), []string{"warning .properties[template].properties[metadata]"}, []string{"labels and annotations"}},
		{"embedded-metadata", "a resource", object(`r: {type: object, properties: {kind: {type: string}, metadata: {type: object}}}`), []string{"warning .properties[r].properties[metadata]"}, []string{"x-kubernetes-embedded-resource"}},
		{"embedded-metadata", "the root's, an embedded one and one with fields", object(`metadata: {type: object}, e: {type: object, x-kubernetes-embedded-resource: true, properties: {metadata: {type: object}}}, t: {type: object, properties: {metadata: {type: object, properties: {labels: {type: object, additionalProperties: {type: string}}}}}}`), nil, nil},
		{"implied-metadata", "a copy", object(`e: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true, properties: {metadata: {type: object, properties: {name: {type: string, maxLength: 9}, labels: {type: object, additionalProperties: {type: string}}, uid: {type: string}}}}}`),
			[]string{"info .properties[e].properties[metadata]"}, []string{"2 of its fields", "can be removed: labels, uid"}},
		{"implied-metadata", "restrictions, the root's, and an ordinary object", object(`metadata: {type: object, properties: {name: {type: string}}}, e: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true, properties: {kind: {type: string}, metadata: {type: object, properties: {name: {type: string, pattern: a}, labels: {type: object, additionalProperties: {type: string, enum: [b]}}, annotations: {type: object, required: [a], additionalProperties: {type: string}}}}}}, o: {type: object, properties: {metadata: {type: object, properties: {uid: {type: string}}}}}`), nil, nil},
		{"superseded-spelling", "raw JSON", object(`a: {format: json}, b: {type: object, format: json}, c: {type: array, format: json, items: {type: string}}, d: {type: object, anyOf: [{format: json}]}`),
			[]string{"error .properties[a].format", "error .properties[b].format", "error .properties[c].format", "error .properties[d].anyOf[0].format"}, []string{"set x-kubernetes-preserve-unknown-fields: true instead"}},
		{"superseded-spelling", "text that is JSON", object(`a: {type: string, format: json}, b: {x-kubernetes-int-or-string: true, format: json}`), nil, nil},
		{"superseded-spelling", "one", object(`a: {type: object, x-kubernetes-no-prune: true}`), []string{"error .properties[a].x-kubernetes-no-prune"}, nil},
		{"unknown-format", "raw JSON is superseded", object(`a: {type: object, format: json}, b: {type: string, format: json}`), []string{"warning .properties[b].format"}, nil},
		{"default-never-applies", "items and values", object(`l: {type: array, items: {type: integer, default: 1}}, m: {type: object, additionalProperties: {type: integer, nullable: true, default: 1}}`),
			[]string{"warning .properties[l].items.default", "warning .properties[m].additionalProperties.default"}, nil},
		{"default-never-applies", "the root", `{type: object, properties: {a: {type: string}}, default: {a: b}}`, []string{"warning .default"}, nil},
		{"default-never-applies", "fields of items", object(`l: {type: array, default: [], items: {type: object, properties: {a: {type: integer, default: 1}}}}`), nil, nil},
		{"default-needs-parent", "optional", object(`a: {type: object, properties: {b: {type: object, properties: {x: {type: integer, default: 1}, w: {type: string, default: z}}}}}`), []string{"info .properties[a]"}, []string{"2 defaults", "w, x"}},
		{"default-needs-parent", "required but not all the way", `{type: object, required: [a], properties: {a: {type: object, properties: {b: {type: object, properties: {x: {type: integer, default: 1}}}}}}}`, []string{"info .properties[a].properties[b]"}, []string{"the default below it applies"}},
		{"default-needs-parent", "filled in, required, an item or next to nothing", `{type: object, required: [r], properties: {a: {type: object, default: {}, properties: {x: {type: integer, default: 1}}}, r: {type: object, properties: {x: {type: integer, default: 1}}}, l: {type: array, items: {type: object, properties: {x: {type: integer, default: 1}}}}, n: {type: object, properties: {x: {type: string, default: ""}}}, status: {type: object, properties: {x: {type: integer, default: 1}}}}}`, nil, nil},
		{"list-type", "conditions", object(`status: {type: object, properties: {conditions: {type: array, items: {type: object, required: [type], properties: {type: {type: string}}}}}}`), []string{"info .properties[status].properties[conditions].x-kubernetes-list-type"}, []string{"[type]"}},
		{"list-type", "names", object(`a: {type: array, items: {type: object, required: [name], properties: {name: {type: string}}}}`), []string{"info .properties[a].x-kubernetes-list-type"}, nil},
		{"list-type", "stated, without a key, or within a list that is one value", object(`a: {type: array, x-kubernetes-list-type: atomic, items: {type: object, required: [name], properties: {name: {type: string}, l: {type: array, items: {type: object, required: [name], properties: {name: {type: string}}}}}}}, b: {type: array, items: {type: object, properties: {name: {type: string}}}}, c: {type: array, items: {type: string}}`), nil, nil},
		{"set-of-objects", "objects", object(`a: {type: array, x-kubernetes-list-type: set, items: {type: object, x-kubernetes-map-type: atomic, properties: {a: {type: string}}}}`), []string{"warning .properties[a].x-kubernetes-list-type"}, nil},
		{"set-of-objects", "strings", object(`a: {type: array, x-kubernetes-list-type: set, items: {type: string}}`), nil, nil},
		{"version-skew", "false", object(`a: {type: object, additionalProperties: false}`), []string{"warning .properties[a].additionalProperties"}, nil},
		{"version-skew", "under not", object(`a: {type: object, additionalProperties: {type: string}, not: {anyOf: [{additionalProperties: false}]}}`), nil, nil},
		{"version-skew", "true and a schema", object(`a: {type: object, additionalProperties: true}, b: {type: object, additionalProperties: {type: string}}`), nil, nil},
		{"unknown-field", "a keyword", object(`a: {type: string, maxlength: 1}`), []string{"warning .properties[a].maxlength"}, []string{"maxLength?"}},
		{"unknown-field", "of JSON Schema", object(`a: {type: string, const: x, anyOf: [{deprecated: true}]}`), []string{"warning .properties[a].anyOf[0].deprecated", "warning .properties[a].const"}, []string{"OpenAPI"}},
		{"unknown-field", "fields of other names, and values", object(`maxlength: {type: object, default: {maxlength: 1}, x-kubernetes-preserve-unknown-fields: true, example: {propertis: 1}, enum: [{propertis: 1}]}`), nil, nil},
		{"cel-rule", "no such field", object(`a: {type: object, properties: {b: {type: string}}, x-kubernetes-validations: [{rule: "self.c == ''"}]}`), []string{"error .properties[a].x-kubernetes-validations[0].rule"}, []string{"undefined field 'c'"}},
		{"cel-rule", "compiles", object(`a: {type: object, properties: {b: {type: string}}, x-kubernetes-validations: [{rule: "self.b == ''"}]}`), nil, nil},
		{"cel-cost", "unbounded", object(`l: {type: array, items: {type: string, maxLength: 100, x-kubernetes-validations: [{rule: "self.matches('^a+$')"}]}}`), []string{"error .properties[l].items.x-kubernetes-validations[0].rule"},
			[]string{"unbounded: " + site + ".properties[l]", "within the limit with " + site + ".properties[l].maxItems: 238095"}},
		{"cel-cost", "bounded", object(`l: {type: array, maxItems: 238095, items: {type: string, maxLength: 100, x-kubernetes-validations: [{rule: "self.matches('^a+$')"}]}}`), nil, nil},
		{"cel-optional-field", "unguarded", `{type: object, properties: {min: {type: integer}, max: {type: integer}}, x-kubernetes-validations: [{rule: "self.min <= self.max"}]}`,
			[]string{"warning .x-kubernetes-validations[0].rule"}, []string{"self.min, self.max are optional", "!has(self.min) || …", "self.?min.orValue(…)"}},
		{"cel-optional-field", "in an item of a filtered list", `{type: object, required: [l], properties: {l: {type: array, maxItems: 9, items: {type: object, required: [k], properties: {k: {type: string, maxLength: 9}, port: {type: integer}}}}}, x-kubernetes-validations: [{rule: "self.l.filter(i, i.k == 'x')[0].port > 0"}]}`,
			[]string{"warning .x-kubernetes-validations[0].rule"}, []string{`self.l.filter(i, i.k == "x")[0].port is optional`, `guard it: !has(self.l.filter(i, i.k == "x")[0].port) || …, or read it as self.l.filter(i, i.k == "x")[0].?port.orValue(…)`}},
		{"cel-optional-field", "guarded, required, with a default", `{type: object, required: [r], properties: {r: {type: integer}, d: {type: integer, default: 1}, o: {type: integer}}, x-kubernetes-validations: [{rule: "self.r < self.d && (!has(self.o) || self.o < self.d)"}]}`, nil, nil},
		{"convention-boolean", "a boolean", object(`a: {type: boolean}`), []string{"warning .properties[a].type"}, nil},
		{"convention-boolean", "a string", object(`a: {type: string}, metadata: {type: object}`), nil, nil},
		{"convention-float", "a number", object(`a: {type: number}`), []string{"warning .properties[a].type"}, nil},
		{"convention-float", "an integer", object(`a: {type: integer, anyOf: [{minimum: 1.5}]}`), nil, nil},
		{"convention-unsigned", "uint", object(`a: {type: integer, format: uint32}`), []string{"warning .properties[a].format"}, nil},
		{"convention-unsigned", "int", object(`a: {type: integer, format: int32}`), nil, nil},
		{"convention-map", "of objects and lists", object(`a: {type: object, additionalProperties: {type: object, additionalProperties: {type: array, items: {type: string}}}}`),
			[]string{"warning .properties[a].additionalProperties", "warning .properties[a].additionalProperties.additionalProperties"}, nil},
		{"convention-map", "of strings", object(`a: {type: object, additionalProperties: {type: string}}`), nil, nil},
		{"convention-name", "not camel case", object(`Aa: {type: string}, a_b: {type: string}, a-b: {type: string}`), []string{"warning .properties[Aa]", "warning .properties[a-b]", "warning .properties[a_b]"}, nil},
		{"convention-name", "camel case", object(`aB2: {type: string}, x: {type: string}`), nil, nil},
		{"convention-enum", "lower case, dashes and empty", object(`a: {type: string, enum: [always, A-B, ""]}`), []string{"warning .properties[a].enum[0]", "warning .properties[a].enum[1]", "warning .properties[a].enum[2]"}, nil},
		{"convention-enum", "camel case", object(`a: {type: string, enum: [Always, IPv4, "1Gi"]}, b: {type: integer, enum: [1]}`), nil, nil},
		{"convention-list-type", "none", object(`a: {type: array, items: {type: string}}`), []string{"warning .properties[a].x-kubernetes-list-type"}, nil},
		{"convention-list-type", "stated, or within one value", object(`a: {type: array, x-kubernetes-list-type: atomic, items: {type: object, properties: {b: {type: array, items: {type: string}}}}}`), nil, nil},
		{"convention-conditions", "another shape", object(`status: {type: object, properties: {conditions: {type: array, items: {type: object, properties: {type: {type: string}, status: {type: boolean}}}}}}`),
			[]string{"warning .properties[status].properties[conditions].items", "warning .properties[status].properties[conditions].items.properties[status]", "warning .properties[status].properties[conditions].items.required",
				"warning .properties[status].properties[conditions].items.required", "warning .properties[status].properties[conditions].x-kubernetes-list-type"}, []string{"missing: reason, message, lastTransitionTime"}},
		{"convention-conditions", "those of Kubernetes, and other lists", object(`status: {type: object, properties: {conditions: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [type], items: {type: object, required: [type, status],
			properties: {type: {type: string}, status: {type: string}, reason: {type: string}, message: {type: string}, lastTransitionTime: {type: string, format: date-time}}}}}}, spec: {type: object, properties: {conditions: {type: array, items: {type: string}}}}`), nil, nil},
		{"semantics-published", "a pattern", object(`a: {type: string, pattern: a}`), []string{"info "}, []string{"pattern"}},
		{"semantics-published", "nothing", object(`a: {type: string}`), nil, nil},
	}
	var all sheet
	for _, tt := range tests {
		t.Run(tt.rule+"/"+tt.name, func(t *testing.T) {
			all.addBoth(t, tt.rule+"/"+tt.name, only(tt.rule), v1(tt.schema))
			fs := lintAll(t, schema.KEP, only(tt.rule), v1(tt.schema))[0]
			expect(t, fs, tt.want...)
			if len(tt.says) > 0 && len(fs) > 0 {
				says(t, fs[0], tt.says...)
			}
		})
	}
	all.compare(t, "schema-rules.txt")
	// Every rule with a near miss has a hit, and vice versa.
	hit, miss := map[string]bool{}, map[string]bool{}
	for _, tt := range tests {
		if len(tt.want) > 0 {
			hit[tt.rule] = true
		} else {
			miss[tt.rule] = true
		}
	}
	for rule := range hit {
		if !miss[rule] && rule != "invalid-definition" {
			t.Errorf("%s has no near miss", rule)
		}
	}
}

// TestEveryVersion covers errors that validation reports once for all versions: each
// version has its own findings, at their locations in the document.
func TestEveryVersion(t *testing.T) {
	text := `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: shirts.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: shirts, kind: Shirt}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {a.b: {}}, anyOf: [{properties: {c: {}}}]}}, subresources: {scale: {}}}
  - {name: v2, served: true, storage: false, schema: {openAPIV3Schema: {type: object, properties: {a.b: {}}, anyOf: [{properties: {c: {}}}]}}, subresources: {scale: {}}}
`
	fs := lintAll(t, schema.Kubernetes, only("non-structural", "invalid-definition"), text)[0]
	var got []string
	for _, f := range fs {
		got = append(got, f.Pointer+" "+f.Message)
	}
	want := []string{
		"/spec/versions/0/schema/openAPIV3Schema/properties/a.b/type Required value: must not be empty for specified object fields",
		"/spec/versions/0/schema/openAPIV3Schema/properties/c Required value: because it is defined in spec.versions[0].schema.openAPIV3Schema.anyOf[0].properties[c]",
		"/spec/versions/0/subresources/scale/specReplicasPath Required value",
		"/spec/versions/0/subresources/scale/statusReplicasPath Required value",
		"/spec/versions/1/schema/openAPIV3Schema/properties/a.b/type Required value: must not be empty for specified object fields",
		"/spec/versions/1/schema/openAPIV3Schema/properties/c Required value: because it is defined in spec.versions[1].schema.openAPIV3Schema.anyOf[0].properties[c]",
		"/spec/versions/1/subresources/scale/specReplicasPath Required value",
		"/spec/versions/1/subresources/scale/statusReplicasPath Required value",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestRuleDocs(t *testing.T) {
	for _, r := range lint.Rules() {
		if r.Title == "" || !strings.HasPrefix(r.Doc, "# "+r.ID+": "+r.Title+"\n") {
			t.Errorf("%s: the page does not begin with the rule", r.ID)
		}
		for _, part := range []string{"\n## Why\n", "\n## Bad\n", "\n## Good\n", "\n## How to fix it\n"} {
			if !strings.Contains(r.Doc, part) {
				t.Errorf("%s: the page has no part %q", r.ID, strings.TrimSpace(part))
			}
		}
		if got, err := lint.Lookup(r.ID); err != nil || got.ID != r.ID {
			t.Errorf("%s: %v", r.ID, err)
		}
	}
	if _, err := lint.Lookup("cel-costs"); err == nil || !strings.Contains(err.Error(), "did you mean cel-cost?") {
		t.Errorf("got %v", err)
	}
}

// TestWithoutRuleChecker checks that CRDs with rules can be linted without a CEL runtime:
// everything but their rules is checked.
func TestWithoutRuleChecker(t *testing.T) {
	text := toJSON(t, v1(`{type: object, properties: {a: {type: integer, x-kubernetes-validations: [{rule: self.x}]}, b: {type: strin}}}`))
	count := func(o lint.Options) map[string]int {
		t.Helper()
		found, err := lint.Run(context.Background(), [][]byte{text}, o)
		if err != nil {
			t.Fatal(err)
		}
		n := map[string]int{}
		for _, f := range found[0] {
			n[f.Rule]++
		}
		return n
	}
	if got, want := count(lint.Options{Rules: cel.Checker{}, Release: 30}), count(lint.Options{Rules: cel.Checker{}}); !maps.Equal(got, want) {
		t.Errorf("got %v for a release without its RuleChecker, want %v", got, want)
	}
	with, without := count(lint.Options{Rules: cel.Checker{}}), count(lint.Options{})
	if with["cel-rule"] != 1 {
		t.Errorf("got %v with a RuleChecker", with)
	}
	if delete(with, "cel-rule"); !maps.Equal(with, without) || len(without) == 0 {
		t.Errorf("got %v without a RuleChecker, want %v", without, with)
	}
}
