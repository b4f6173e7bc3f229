package crd_test

import (
	"testing"

	"espalier.dev/api"
	"espalier.dev/crd"
	"espalier.dev/crd/cel"
	"espalier.dev/schema"
)

// TestDefaultsOfLists checks that the defaults of items are validated, in both semantics.
func TestDefaultsOfLists(t *testing.T) {
	for text, want := range map[string]string{
		"type: array, items: {type: string, default: x}":                                                                                                   "",
		"type: array, items: {type: string, default: 1}":                                                                                                   "properties[a].items.default: Invalid value: ",
		"type: array, items: {type: object, properties: {b: {type: string, default: 1}}}":                                                                  "properties[a].items.properties[b].default: Invalid value: ",
		"type: array, items: {type: object, default: {c: 1}, properties: {b: {type: string}}}":                                                             "properties[a].items.default: Invalid value: ",
		"type: object, default: {b: {c: 1}}, properties: {b: {type: object, properties: {d: {}}}}":                                                         "properties[d].type: Required value",
		"type: object, default: {b: {}}, properties: {b: {type: object, required: [c]}}":                                                                   "properties[a].default.b.c: Required value",
		"type: object, default: {b: [{c: 1}]}, properties: {b: {type: array, items: {type: object}}}":                                                      "properties[a].default: Invalid value: ",
		"type: object, default: {b: [[1]]}, properties: {b: {type: array, items: {type: array, items: {type: string}}}}":                                   "properties[a].default.b[0][0]: Invalid value: ",
		"type: object, default: {b: 1}, additionalProperties: true":                                                                                        "",
		"type: object, default: {b: 1}, additionalProperties: {type: string}":                                                                              "properties[a].default.b: Invalid value: ",
		"type: array, items: {type: object, properties: {b: {type: string}, c: {type: string}}}, default: [{b: x, c: z}]":                                  "",
		"type: object, x-kubernetes-preserve-unknown-fields: true, properties: {b: {type: object, properties: {c: {type: string}}}}, default: {b: {d: 1}}": "properties[a].default: Invalid value: {\"b\":{\"d\":1}}: must not have unknown fields",
		"type: string, nullable: true, default: null":                                                                                                      "",
	} {
		c := definition(t, "{type: object, properties: {a: {"+text+"}}}")
		for _, sem := range both {
			errs := create(c, sem).Errors
			if sem == schema.Kubernetes && want == "properties[a].default.b[0][0]: Invalid value: " {
				want = "properties[a].default.b[0]"
			}
			if want == "" && len(errs) > 0 || want != "" && !containsError(errs, want) {
				t.Errorf("%v: %s: got %v, want %q", sem, text, errs, want)
			}
		}
	}
}

// TestDefaultsOfResources checks the defaults of embedded resources: their metadata must be valid,
// and the rest is reported only then.
func TestDefaultsOfResources(t *testing.T) {
	const resource = "type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true"
	for text, want := range map[string][]string{
		resource + ", default: {apiVersion: v1, kind: Pod, metadata: {name: a}}":                                                                   nil,
		resource + ", default: {apiVersion: v1, kind: Pod, metadata: {name: a/b}}":                                                                 {`default.metadata.name: Invalid value: "a/b"`},
		resource + ", default: {apiVersion: v1, kind: Pod, metadata: 5}":                                                                           {"default.metadata: Invalid value: 5"},
		resource + ", default: {apiVersion: v1, kind: Pod, metadata: {labels: {a: 5}}}":                                                            {"default.metadata"},
		resource + ", default: {apiVersion: v1, kind: Pod, metadata: {name: a/b}}, maxProperties: 1":                                               {`default.metadata.name: Invalid value: "a/b"`},
		resource + ", default: {apiVersion: v1, kind: Pod, metadata: {name: a}}, maxProperties: 1":                                                 {"default: Too many: 3: must have at most 1 item"},
		resource + ", properties: {metadata: {type: object, default: {name: a/b}}}":                                                                {`properties[metadata].default: Invalid value: {"name":"a/b"}: must result in valid metadata: metadata.name: Invalid value: "a/b"`},
		resource + ", properties: {kind: {type: string, default: a/b}}":                                                                            {`properties[kind].default: Invalid value: "a/b": must result in valid metadata: kind: Invalid value: "a/b"`},
		resource + ", properties: {apiVersion: {type: string, default: a/b/c}}":                                                                    {`properties[apiVersion].default: Invalid value: "a/b/c": must result in valid metadata: apiVersion: Invalid value: "a/b/c"`},
		resource + ", properties: {metadata: {type: object, properties: {labels: {type: object, properties: {a: {type: string, default: b c}}}}}}": {`default: Invalid value: "b c": must result in valid metadata: metadata.labels: Invalid value: "b c"`},
		resource + ", properties: {metadata: {type: object, properties: {finalizers: {type: array, items: {type: string, default: a b}}}}}":        {`items.default: Invalid value: "a b": must result in valid metadata: metadata.finalizers: Invalid value: "a b"`},
		resource + ", default: {apiVersion: v1, kind: Pod, metadata: {name: a, unknown: b}}":                                                       nil,
		// A value in the way of metadata, and errors of an item.
		"type: array, items: {" + resource + "}, default: [{apiVersion: v1, kind: Pod, metadata: {name: a}}, {apiVersion: v1, kind: Pod, metadata: {name: 5}}]": {`default[1].metadata: Invalid value: {"name":5}: `},
		"type: array, items: {" + resource + "}, default: [{apiVersion: v1, kind: Pod, metadata: {name: a/b}}]":                                                 {`default[0].metadata.name: Invalid value: "a/b"`},
		resource + ", properties: {metadata: {type: object, default: 5}}":                                                                                       {"properties[metadata].default: Invalid value: 5: must result in valid metadata: metadata: Invalid value: 5"},
		"type: array, items: {" + resource + "}, default: [{apiVersion: v1, kind: Pod, metadata: {name: 4}}, {apiVersion: v1, kind: Pod, metadata: {name: 5}}]": {`default[0].metadata: Invalid value: {"name":4}: `},
		resource + ", properties: {kind: {type: string, default: 5}}":                                                                                           {"properties[kind].default: Invalid value: 5: must result in valid metadata: kind: Invalid value: 5: must be a string"},
		// Outside of a resource, metadata is a field as any other.
		"type: object, properties: {metadata: {type: object, default: {b: 1}}}":                                  {"properties[metadata].default: Invalid value: {\"b\":1}: must not have unknown fields"},
		"type: object, properties: {metadata: {" + resource + "}}":                                               nil,
		"type: object, properties: {metadata: {type: object, properties: {name: {type: string, default: a/b}}}}": nil,
	} {
		c := definition(t, "{type: object, properties: {a: {"+text+"}}}")
		for _, sem := range both {
			t.Run(sem.String()+" "+text, func(t *testing.T) { expect(t, create(c, sem).Errors, want...) })
		}
	}
}

// TestDefaultsOfEither checks the defaults that the two semantics treat differently.
func TestDefaultsOfEither(t *testing.T) {
	for text, want := range map[string][2][]string{
		// kube-apiserver ignores int-or-string here.
		"x-kubernetes-int-or-string: true, default: [1]": {{"properties[a].default: Invalid value: \"array\": "}, nil},
		// The errors of a branch are at the values in the default.
		"type: object, properties: {b: {type: string}}, default: {b: xx}, anyOf: [{properties: {b: {maxLength: 1}}}, {properties: {b: {maxLength: 1}}}]": {
			{"properties[a].default: Invalid value: ", "properties[a].default.b: Too long"}, {"properties[a].default: Invalid value: ", "properties[a].default.b: Too long"}},
		// A null is no unknown field.
		"type: object, properties: {b: {type: string}}, default: {b: null}": {{"properties[a].default.b: Invalid value: "}, {"properties[a].default.b: Invalid value: "}},
	} {
		c := definition(t, "{type: object, properties: {a: {"+text+"}}}")
		for i, sem := range both {
			t.Run(sem.String()+" "+text, func(t *testing.T) { expect(t, create(c, sem).Errors, want[i]...) })
		}
	}
}

// TestDefaultsWithRules checks that a default obeys the rules of its schema, on a create and on an
// update of the value to itself.
func TestDefaultsWithRules(t *testing.T) {
	for rules, want := range map[string][]string{
		`{rule: "self == 'x'"}`:                                                       nil,
		`{rule: "self != 'x'"}`:                                                       {`properties[a].default: Invalid value: "x": failed rule: self != 'x'`},
		`{rule: "self != oldSelf"}`:                                                   {`properties[a].default: Invalid value: "x": failed rule: self != oldSelf`},
		`{rule: "self == oldSelf"}`:                                                   nil,
		`{rule: "self != oldSelf"}, {rule: "self != 'x'"}`:                            {"failed rule: self != oldSelf", "failed rule: self != 'x'"},
		`{rule: "oldSelf.hasValue()", optionalOldSelf: true}`:                         {"failed rule: oldSelf.hasValue()"},
		`{rule: "!oldSelf.hasValue()", optionalOldSelf: true}`:                        {"failed rule: !oldSelf.hasValue()"},
		`{rule: "!oldSelf.hasValue()", optionalOldSelf: true}, {rule: "self != 'x'"}`: {"failed rule: !oldSelf.hasValue()", "failed rule: self != 'x'"},
		`{rule: "self != 'x'", optionalOldSelf: false}`:                               {"failed rule: self != 'x'"},
		`{rule: "oldSelf.hasValue()", optionalOldSelf: true}, {rule: "self != 'x'"}`:  {"failed rule: self != 'x'"},
		`{rule: "self != 'x'", optionalOldSelf: false}, {rule: "self != oldSelf"}`:    {"failed rule: self != 'x'", "failed rule: self != oldSelf"},
		`{rule: "self.no"}`:                                                           {`properties[a].default: Invalid value: "string": rule compile error: `},
	} {
		c := definition(t, `{type: object, properties: {a: {type: string, maxLength: 5, default: x, x-kubernetes-validations: [`+rules+`]}}}`)
		for _, sem := range both {
			t.Run(sem.String()+" "+rules, func(t *testing.T) {
				expect(t, crd.ValidateCreate(t.Context(), c, crd.Options{Semantics: sem, Rules: cel.Checker{}}).Errors, want...)
				if len(want) > 0 && want[0][0] != 'p' {
					// Without a checker, nothing is evaluated.
					expect(t, crd.ValidateCreate(t.Context(), c, crd.Options{Semantics: sem, IgnoreRules: true}).Errors)
				}
			})
		}
	}
	// The path of a failure below the default.
	c := definition(t, `{type: object, properties: {a: {type: object, default: {b: {c: [x]}}, properties: {b: {type: object, properties: {c: {type: array, maxItems: 2, items: {type: string, maxLength: 3, x-kubernetes-validations: [{rule: "self != 'x'"}]}}}}}}}}`)
	expect(t, crd.ValidateCreate(t.Context(), c, crd.Options{Semantics: schema.Kubernetes, Rules: cel.Checker{}}).Errors, `properties[a].default.b.c[0]: Invalid value: "x": failed rule: self != 'x'`)
}

// TestPrunedDefaultsStay checks that an update may leave defaults that pruning changes, and may not
// add them.
func TestPrunedDefaultsStay(t *testing.T) {
	const resource = "type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true"
	a := func(text string) *api.CustomResourceDefinition {
		return definition(t, "{type: object, properties: {a: {"+text+"}}}")
	}
	fine := a("type: object, default: {b: 1}, properties: {b: {type: integer}}")
	pruned := a("type: object, default: {b: 1}")
	nullDefault := a("type: object")
	prop := nullDefault.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["a"]
	prop.Default = &api.JSON{Raw: []byte("null")}
	nullDefault.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["a"] = prop
	expect(t, create(nullDefault, schema.Kubernetes).Errors)
	for name, tt := range map[string]struct {
		old, now *api.CustomResourceDefinition
		want     string
	}{
		"as before":             {pruned, pruned, ""},
		"new":                   {fine, pruned, "properties[a].default: Invalid value: {\"b\":1}: must not have unknown fields"},
		"another":               {pruned, a("type: object, default: {c: 1}"), ""},
		"without a default":     {a("type: object"), pruned, "must not have unknown fields"},
		"null before":           {a("type: object, nullable: true, default: null"), pruned, "must not have unknown fields"},
		"one of two":            {a("type: object, properties: {b: {type: object, default: {x: 1}}, c: {type: string, default: y}}"), pruned, ""},
		"in a map":              {a("type: object, additionalProperties: {type: object, default: {b: 1}}"), pruned, ""},
		"null":                  {nullDefault, pruned, "must not have unknown fields"},
		"below items":           {a("type: array, items: {type: object, default: {b: 1}}"), pruned, ""},
		"in metadata":           {a(resource + ", default: {apiVersion: v1, kind: Pod, metadata: {name: x, unknown: y}}"), pruned, ""},
		"a resource":            {a(resource + ", default: {apiVersion: v1, kind: Pod, metadata: {name: x}}"), pruned, "must not have unknown fields"},
		"not structural before": {definition(t, "{type: object, properties: {untyped: {properties: {b: {}}}, a: {type: object, default: {b: 1}}}}", preservingV1), pruned, "must not have unknown fields"},
	} {
		t.Run(name, func(t *testing.T) {
			errs := update(tt.now.DeepCopy(), tt.old, schema.Kubernetes).Errors
			if tt.want == "" && len(errs) > 0 || tt.want != "" && !containsError(errs, tt.want) {
				t.Errorf("got %v, want %q", errs, tt.want)
			}
		})
	}
}
