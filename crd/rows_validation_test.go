package crd_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/api"
	"espalier.dev/api/v1beta1"
	"espalier.dev/crd"
	"espalier.dev/schema"
)

const plain = `{type: object, properties: {spec: {type: object, properties: {a: {type: string}}}}}`

// TestValidation proves the rows on validation (document 004).
func TestValidation(t *testing.T) {
	t.Run("V-01", testSchemaPlaces)
	t.Run("V-02", testJSONSchema)
	t.Run("V-04", testCauses)
	t.Run("V-08", testRefusedKeywords)
	t.Run("V-10", testAdditionalPropertiesFalse)
	t.Run("V-12", testNoxu)
	t.Run("V-13", testVersionWorkaround)
	t.Run("V-19", testStatusShape)
	t.Run("V-21", testDraft)
}

// jsonSchemaCRD returns a v1beta1 CRD with a schema in the dialect of 2017.
func jsonSchemaCRD(t *testing.T, text string, edit ...func(*v1beta1.CustomResourceDefinition)) *v1beta1.CustomResourceDefinition {
	t.Helper()
	return betaDefinition(t, "", append([]func(*v1beta1.CustomResourceDefinition){func(c *v1beta1.CustomResourceDefinition) {
		c.Spec.Validation = &v1beta1.CustomResourceValidation{JSONSchema: props(t, text)}
	}}, edit...)...)
}

func testJSONSchema(t *testing.T) {
	const text = `
$schema: http://json-schema.org/draft-04/schema#
type: object
required: [spec]
properties:
  spec:
    properties: {a: {$ref: "#/definitions/short"}, b: {type: [string, integer], default: x}}
    patternProperties: {"^n": {type: integer}}
    dependencies: {a: [b]}
    additionalProperties: false
definitions:
  short: {type: string, maxLength: 3}
`
	beta := jsonSchemaCRD(t, text)
	expect(t, createBeta(beta, schema.KEP).Errors)

	// It is enforced on objects, also after the CRD was read and written through v1.
	for _, c := range []*api.CustomResourceDefinition{stored(t, beta), stored(t, v1beta1.FromV1(stored(t, beta)))} {
		d := compile(t, c, schema.KEP)
		obj := schema.Object{
			"apiVersion": "example.com/v1", "kind": "Thing", "metadata": map[string]any{"name": "a", "namespace": "default"},
			"spec": map[string]any{"a": "long", "n1": "no", "other": true},
		}
		expect(t, program(t, d).Validate(context.Background(), obj, nil).FieldErrors(),
			"spec.a: Too long", "spec.n1: Invalid value", "spec.other", `"spec" has a dependency on b`)
		obj["spec"] = map[string]any{"a": "abc", "b": int64(1), "n1": int64(1)}
		expect(t, program(t, d).Validate(context.Background(), obj, nil).FieldErrors())

		// It is never structural.
		status := crd.Status(api.CustomResourceDefinitionStatus{}, d, nil, metav1.Now())
		if c := condition(t, status, api.NonStructuralSchema); c.Status != api.ConditionTrue {
			t.Errorf("the schema is structural: %v", c)
		}
	}
	prunes := func(c *v1beta1.CustomResourceDefinition) { c.Spec.PreserveUnknownFields = new(false) }
	expect(t, createBeta(jsonSchemaCRD(t, text, prunes), schema.KEP).Errors, "spec.preserveUnknownFields: Invalid value: false: must be true with a jsonSchema")
	for _, feature := range []string{
		"x-kubernetes-preserve-unknown-fields: true", "x-kubernetes-embedded-resource: true", "x-kubernetes-int-or-string: true",
		"x-kubernetes-list-type: set", "x-kubernetes-list-map-keys: [a]", "x-kubernetes-map-type: atomic",
		`x-kubernetes-validations: [{rule: "true"}]`, "x-kubernetes-unions: [{fields: {a: A}}]",
	} {
		name, _, _ := strings.Cut(feature, ":")
		expect(t, createBeta(jsonSchemaCRD(t, `{properties: {a: {`+feature+`}}}`), schema.KEP).Errors,
			"spec.validation.jsonSchema.properties[a]."+name+": Invalid value: \"\": "+name+" is not supported in a jsonSchema")
	}

	// References are checked wherever they are.
	expect(t, createBeta(jsonSchemaCRD(t, `{properties: {a: {$ref: "http://example.com/a"}}}`), schema.KEP).Errors,
		`spec.validation.jsonSchema.properties[a].$ref: Invalid value: "": $ref must have the form #/definitions/<name>, got "http://example.com/a"`)
	expect(t, createBeta(jsonSchemaCRD(t, `{definitions: {unused: {properties: {a: {$ref: "#/properties/b"}}}}, properties: {b: {}}}`), schema.KEP).Errors,
		`spec.validation.jsonSchema.definitions[unused].properties[a].$ref: Invalid value: "": $ref must have the form #/definitions/<name>, got "#/properties/b"`)

	// kube-apiserver does not know it.
	expect(t, createBeta(jsonSchemaCRD(t, `{$ref: "http://example.com/a"}`), schema.Kubernetes).Errors)
	d := compile(t, stored(t, beta), schema.Kubernetes)
	obj := schema.Object{"apiVersion": "example.com/v1", "kind": "Thing", "metadata": map[string]any{"name": "a", "namespace": "default"}}
	expect(t, program(t, d).Validate(context.Background(), obj, nil).FieldErrors())
}

func testDraft(t *testing.T) {
	expect(t, createBeta(jsonSchemaCRD(t, `{$schema: "http://json-schema.org/draft-04/schema#", type: object}`), schema.KEP).Errors)
	expect(t, createBeta(jsonSchemaCRD(t, `{$schema: "http://json-schema.org/draft-07/schema#", type: object}`), schema.KEP).Errors,
		`spec.validation.jsonSchema.$schema: Invalid value: "": $schema must be draft 4 ("http://json-schema.org/draft-04/schema#") or absent, got draft 7 ("http://json-schema.org/draft-07/schema#")`)
	expect(t, createBeta(jsonSchemaCRD(t, `{id: "http://example.com/root", definitions: {a: {id: "http://example.com/a"}}, properties: {a: {$ref: "http://example.com/a"}}}`), schema.KEP).Errors,
		`spec.validation.jsonSchema.properties[a].$ref: Invalid value: "": $ref must have the form`)
}

func testSchemaPlaces(t *testing.T) {
	for _, sem := range both {
		expect(t, create(definition(t, plain), sem).Errors)
		expect(t, createBeta(betaDefinition(t, ""), sem).Errors)
		expect(t, createBeta(betaDefinition(t, plain), sem).Errors)
		perVersion := func(schemas ...string) func(*v1beta1.CustomResourceDefinition) {
			return func(c *v1beta1.CustomResourceDefinition) {
				for i, s := range schemas {
					c.Spec.Versions = append(c.Spec.Versions, v1beta1.CustomResourceDefinitionVersion{
						Name: fmt.Sprint("v", i+1), Served: true, Storage: i == 0,
						Schema: &api.CustomResourceValidation{OpenAPIV3Schema: props(t, s)},
					})
				}
			}
		}
		expect(t, createBeta(betaDefinition(t, "", perVersion(plain, `{type: object}`)), sem).Errors)
		expect(t, createBeta(betaDefinition(t, plain, perVersion(plain, `{type: object}`)), sem).Errors,
			"spec.validation: Forbidden: top-level and per-version schemas are mutually exclusive")
		expect(t, createBeta(betaDefinition(t, "", perVersion(plain, plain)), sem).Errors,
			"spec.versions: Invalid value: \"v1, v2\": per-version schemas may not all be set to identical values (top-level validation should be used instead)")
		// v1 has one place, but must have a schema there.
		expect(t, create(definition(t, ""), sem).Errors, "spec.versions[0].schema.openAPIV3Schema: Required value")
	}
	// The spelling of 2017 does not count as a schema at the top.
	beta := betaDefinition(t, "", func(c *v1beta1.CustomResourceDefinition) {
		c.Spec.Validation = &v1beta1.CustomResourceValidation{JSONSchema: props(t, `{type: object}`)}
	})
	expect(t, createBeta(beta, schema.KEP).Errors)
}

// testCauses: what becomes the causes of a Status are field errors, one for each
// thing that is wrong.
func testCauses(t *testing.T) {
	for _, sem := range both {
		p := program(t, compile(t, definition(t, `
type: object
required: [spec]
properties:
  spec: {type: object, required: [b], properties: {a: {type: string, maxLength: 3}, b: {type: integer}, c: {type: integer, minimum: 1}}}
`), sem))
		obj := schema.Object{
			"apiVersion": "example.com/v1", "kind": "Thing", "metadata": map[string]any{"name": "UPPER", "namespace": "default"},
			"spec": map[string]any{"a": "long", "c": int64(0)},
		}
		errs := p.Validate(context.Background(), obj, nil).FieldErrors()
		expect(t, errs,
			"metadata.name: Invalid value: \"UPPER\"",
			"spec.a: Too long: may not be more than 3 bytes",
			"spec.b: Required value",
			"spec.c: Invalid value: 0: spec.c in body should be greater than or equal to 1",
		)
		for _, e := range errs {
			if e.Field == "" || e.Type == "" {
				t.Errorf("no cause can be made of %#v", e)
			}
		}
	}
}

func testRefusedKeywords(t *testing.T) {
	s := `
type: object
properties:
  list: {type: array, uniqueItems: true, items: {type: string}}
  ref: {type: object, $ref: "#/properties/list"}
`
	for _, sem := range both {
		want := []string{
			"properties[list].uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
			"properties[ref].$ref: Forbidden: $ref is not supported",
		}
		expect(t, create(definition(t, s), sem).Errors, want...)
		expect(t, createBeta(betaDefinition(t, s), sem).Errors, want...)
	}
	// Wherever it is, also below logical operators. The core must not contradict it.
	const unique = "uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
	for at, place := range map[string]string{
		"allOf[0]":                              `allOf: [{uniqueItems: true}]`,
		"anyOf[1]":                              `anyOf: [{minItems: 1}, {uniqueItems: true}]`,
		"oneOf[0]":                              `oneOf: [{uniqueItems: true}]`,
		"not":                                   `not: {uniqueItems: true}`,
		"not.anyOf[0].allOf[0]":                 `not: {anyOf: [{allOf: [{uniqueItems: true}]}]}`,
		"items.allOf[0].items.oneOf[0]":         `items: {type: array, items: {type: array, items: {type: string}}, allOf: [{items: {oneOf: [{uniqueItems: true}]}}]}`,
		"items.properties[a].anyOf[0]":          `items: {type: object, properties: {a: {type: array, items: {type: string}, anyOf: [{uniqueItems: true}]}}}`,
		"items.additionalProperties.not":        `items: {type: object, additionalProperties: {type: array, items: {type: string}, not: {uniqueItems: true}}}`,
		"items.allOf[0].properties[a].allOf[0]": `items: {type: object, properties: {a: {type: array, items: {type: string}}}, allOf: [{properties: {a: {allOf: [{uniqueItems: true}]}}}]}`,
	} {
		if !strings.HasPrefix(place, "items") {
			place += ", items: {type: string}"
		}
		s := `{type: object, properties: {list: {type: array, ` + place + `}}}`
		for _, sem := range both {
			expect(t, create(definition(t, s), sem).Errors, "openAPIV3Schema.properties[list]."+at+"."+unique)
			expect(t, createBeta(betaDefinition(t, s), sem).Errors, "openAPIV3Schema.properties[list]."+at+"."+unique)
		}
	}
	legacy := func(s string) *v1beta1.CustomResourceDefinition {
		return betaDefinition(t, "", func(c *v1beta1.CustomResourceDefinition) {
			c.Spec.Validation = &v1beta1.CustomResourceValidation{JSONSchema: props(t, s)}
		})
	}
	for s, want := range map[string]string{
		`{properties: {a: {items: [{uniqueItems: true}]}}}`:                                                                                                   "spec.validation.jsonSchema.properties[a].items[0].uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
		`{properties: {a: {not: {anyOf: [{uniqueItems: true}]}}}}`:                                                                                            "spec.validation.jsonSchema.properties[a].not.anyOf[0].uniqueItems: Forbidden: uniqueItems",
		`{dependencies: {a: {properties: {b: {uniqueItems: true}}}}}`:                                                                                         "spec.validation.jsonSchema.dependencies[a].properties[b].uniqueItems: Forbidden: uniqueItems",
		`{definitions: {unused: {patternProperties: {x: {uniqueItems: true}}}}}`:                                                                              "spec.validation.jsonSchema.definitions[unused].patternProperties[x].uniqueItems: Forbidden: uniqueItems",
		`{properties: {a: {$ref: "#/definitions/x"}}, definitions: {x: {not: {$ref: "#/definitions/x"}}}}`:                                                    `spec.validation.jsonSchema.definitions[x].not.$ref: Invalid value: "": $ref must not be recursive, but "#/definitions/x" refers to itself`,
		`{properties: {a: {$ref: "#/definitions/x"}}, definitions: {x: {items: {$ref: "#/definitions/z"}}, z: {properties: {b: {$ref: "#/definitions/x"}}}}}`: `$ref must not be recursive, but "#/definitions/`,
		`{properties: {a: {$ref: "https://example.com/schema"}}}`:                                                                                             `spec.validation.jsonSchema.properties[a].$ref: Invalid value: "": $ref must have the form #/definitions/<name>, got "https://example.com/schema"`,
		`{properties: {a: {$ref: "#"}}}`:                                                                                                                      `spec.validation.jsonSchema.properties[a].$ref: Invalid value: "": $ref must have the form #/definitions/<name>, got "#"`,
		`{properties: {a: {$ref: "#/definitions/none"}}}`:                                                                                                     `spec.validation.jsonSchema.properties[a].$ref: Invalid value: "": $ref refers to "#/definitions/none", which is not in definitions`,
		`{properties: {a: {pattern: "("}}}`:                                                                                                                   "has an invalid pattern",
	} {
		expect(t, createBeta(legacy(s), schema.KEP).Errors, want)
		expect(t, createBeta(legacy(s), schema.Kubernetes).Errors)
	}
}

func testAdditionalPropertiesFalse(t *testing.T) {
	for _, sem := range both {
		expect(t, create(definition(t, `{type: object, properties: {a: {type: object, additionalProperties: false}}}`), sem).Errors)
		errs := create(definition(t, `{type: object, properties: {a: {type: object, additionalProperties: false, properties: {b: {type: string}}}}}`), sem).Errors
		// The documents also find that it is not structural.
		want := []string{"properties[a].additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive"}
		if sem == schema.KEP {
			want = append(want, "properties[a].additionalProperties: Forbidden: must not be used beside properties")
		}
		expect(t, errs, want...)
	}
	// At the root it never means apiVersion, kind and metadata. That takes a schema
	// that need not be structural.
	beta := betaDefinition(t, `{additionalProperties: false}`)
	expect(t, createBeta(beta, schema.KEP).Errors)
	p := program(t, compile(t, stored(t, beta), schema.KEP))
	obj := schema.Object{"apiVersion": "example.com/v1", "kind": "Thing", "metadata": map[string]any{"name": "x", "namespace": "default"}}
	expect(t, p.Validate(context.Background(), obj, nil).FieldErrors())
	obj["other"] = "x"
	expect(t, p.Validate(context.Background(), obj, nil).FieldErrors(), "other in body is a forbidden property")
}

// document returns the files of an example of the documents.
func document(t *testing.T, name string) map[string]string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "schema", "testdata", "documents", name))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, f := range txtar.Parse(data).Files {
		files[f.Name] = string(f.Data)
	}
	return files
}

func noxu(t *testing.T, jsonSchema string) *v1beta1.CustomResourceDefinition {
	t.Helper()
	c := &v1beta1.CustomResourceDefinition{}
	c.Name, c.ResourceVersion = "noxus.mygroup.example.com", "1"
	c.Spec = v1beta1.CustomResourceDefinitionSpec{
		Group: "mygroup.example.com", Version: "v1alpha1", Scope: api.NamespaceScoped,
		Names:      api.CustomResourceDefinitionNames{Plural: "noxus", Singular: "noxu", Kind: "Noxu", ListKind: "NoxuList"},
		Validation: &v1beta1.CustomResourceValidation{JSONSchema: props(t, jsonSchema)},
	}
	v1beta1.SetDefaults(c)
	return c
}

func testNoxu(t *testing.T) {
	ctx := context.Background()
	decode := func(p *schema.Program, text string) schema.Object {
		obj, _, err := p.Decode([]byte(text), schema.DecodeOptions{})
		if err != nil {
			t.Fatal(err)
		}
		obj["metadata"].(map[string]any)["namespace"] = "default"
		return obj
	}
	asWritten := document(t, "V-12-as-written.txtar")
	beta := noxu(t, asWritten["jsonschema.json"])
	expect(t, createBeta(beta, schema.KEP).Errors)
	p := program(t, compile(t, stored(t, beta), schema.KEP))
	objects := 0
	for _, name := range slices.Sorted(maps.Keys(asWritten)) {
		if !strings.HasSuffix(name, "object.json") {
			continue
		}
		objects++
		errs := p.Validate(ctx, decode(p, asWritten[name]), nil).FieldErrors()
		if len(errs) == 0 {
			t.Errorf("%s is valid", name)
		}
	}
	if objects == 0 {
		t.Error("the example has no objects")
	}
	// The two reasons, on an object that has everything.
	full := decode(p, `{"apiVersion":"mygroup.example.com/v1alpha1","kind":"Noxu","metadata":{"name":"x"},"gamma":"foo","delta":1,"zeta":{"foo":"x","bar":1,"baz":true},"epsilon":{"foo":"x","bar":1,"baz":true,"type":"one"}}`)
	text := p.Validate(ctx, full, nil).FieldErrors().ToAggregate().Error()
	for _, want := range []string{"zeta in body is a forbidden property", `"epsilon" must validate all the schemas (allOf)`} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not a reason: %s", want, text)
		}
	}

	fixed := document(t, "V-12-fixed.txtar")
	beta = noxu(t, fixed["jsonschema.json"])
	expect(t, createBeta(beta, schema.KEP).Errors)
	p = program(t, compile(t, stored(t, beta), schema.KEP))
	for _, name := range slices.Sorted(maps.Keys(fixed)) {
		dir, ok := strings.CutSuffix(name, "/object.json")
		if !ok {
			continue
		}
		verdict := fixed[dir+"/verdict.txt"]
		errs := p.Validate(ctx, decode(p, fixed[name]), nil).FieldErrors()
		if accepted := len(errs) == 0; verdict != "" && accepted != strings.HasPrefix(verdict, "accepted") {
			t.Errorf("%s: %s but got %v", dir, verdict, errs)
		}
	}
	obj := decode(p, `{"apiVersion":"mygroup.example.com/v1alpha1","kind":"Noxu","metadata":{"name":"x"}}`)
	if obj["alpha"] != "foo_123" || fmt.Sprint(obj["beta"]) != "10" {
		t.Errorf("defaults: %v", obj)
	}
	// It survives v1.
	v1 := stored(t, beta)
	expect(t, update(v1.DeepCopy(), v1, schema.KEP).Errors)
	if back := v1beta1.FromV1(v1); back.Spec.Validation == nil || back.Spec.Validation.JSONSchema == nil {
		t.Error("the schema is lost on the way through v1")
	}
}

func testVersionWorkaround(t *testing.T) {
	beta := betaDefinition(t, "", func(c *v1beta1.CustomResourceDefinition) {
		c.Spec.Validation = &v1beta1.CustomResourceValidation{JSONSchema: props(t, `
$schema: http://json-schema.org/draft-04/schema#
title: child_schema
type: object
anyOf:
- properties:
    version: {type: string, pattern: ^a$}
    spec: {type: object, properties: {foo: {}}, additionalProperties: false}
- properties:
    version: {type: string, pattern: ^b$}
    spec: {type: object, properties: {bar: {}}, additionalProperties: false}
`)}
	})
	expect(t, createBeta(beta, schema.KEP).Errors)
	p := program(t, compile(t, stored(t, beta), schema.KEP))
	for text, valid := range map[string]bool{
		`"version": "a", "spec": {"foo": 42}`: true,
		`"version": "b", "spec": {"bar": 42}`: true,
		`"version": "a", "spec": {"bar": 42}`: false,
	} {
		obj, _, err := p.Decode([]byte(`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"x","namespace":"y"},`+text+`}`), schema.DecodeOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if errs := p.Validate(context.Background(), obj, nil).FieldErrors(); (len(errs) == 0) != valid {
			t.Errorf("%s: %v", text, errs)
		}
	}
}

func testStatusShape(t *testing.T) {
	status := func(c *api.CustomResourceDefinition) {
		c.Spec.Versions[0].Subresources = &api.CustomResourceSubresources{Status: &api.CustomResourceSubresourceStatus{}}
	}
	for _, sem := range both {
		expect(t, create(definition(t, `{type: object, required: [spec], description: x, properties: {spec: {type: object}, status: {type: object}}}`, status), sem).Errors)
		for _, s := range []string{
			`{type: object, anyOf: [{required: [spec]}], properties: {spec: {type: object}}}`,
			`{type: object, maxProperties: 7}`,
			`{type: object, x-kubernetes-map-type: atomic}`,
		} {
			expect(t, create(definition(t, s), sem).Errors)
			expect(t, create(definition(t, s, status), sem).Errors,
				"spec.validation.openAPIV3Schema: Invalid value: \"", // and one error only
			)
		}
		for keyword, value := range map[string]string{
			"id": "x", "$schema": "x", "$ref": "x", "nullable": "true", "default": "{}", "enum": "[{}]", "maxProperties": "7", "minProperties": "1",
			"allOf": "[{}]", "oneOf": "[{}]", "anyOf": "[{}]", "not": "{required: [spec]}", "additionalProperties": "true", "patternProperties": "{}",
			"dependencies": "{}", "additionalItems": "true", "definitions": "{}", "x-kubernetes-embedded-resource": "true",
			"x-kubernetes-int-or-string": "true", "x-kubernetes-list-map-keys": "[a]", "x-kubernetes-list-type": "set", "x-kubernetes-map-type": "atomic",
		} {
			errs := create(definition(t, `{type: object, `+keyword+`: `+value+`}`, status), sem).Errors
			if !containsError(errs, fmt.Sprintf("openAPIV3Schema: Invalid value: %q: only [", keyword)) {
				t.Errorf("%v: %s at the root: %v", sem, keyword, errs)
			}
		}
		errs := create(definition(t, `{type: string}`, status), sem).Errors
		if !containsError(errs, `spec.validation.openAPIV3Schema.type: Invalid value: "string": only "object" is allowed as the type at the root of the schema if the status subresource is enabled`) {
			t.Errorf("%v: %v", sem, errs)
		}
	}
	beta := betaDefinition(t, "", func(c *v1beta1.CustomResourceDefinition) {
		c.Spec.Validation = &v1beta1.CustomResourceValidation{JSONSchema: props(t, `{type: object, anyOf: [{}]}`)}
		c.Spec.Subresources = &api.CustomResourceSubresources{Status: &api.CustomResourceSubresourceStatus{}}
	})
	expect(t, createBeta(beta, schema.KEP).Errors, "spec.validation.jsonSchema: Invalid value: \"anyOf\": only [Description Type")

	// Written alone, the status is all that is validated.
	d := compile(t, definition(t, `
type: object
required: [spec]
properties:
  spec: {type: object, properties: {a: {type: string, maxLength: 1}, l: {type: array, x-kubernetes-list-type: set, items: {type: string}}}}
  status: {type: object, properties: {count: {type: integer, minimum: 1}}}
`, status), schema.Kubernetes)
	p, err := d.Versions()[0].StatusProgram()
	if err != nil {
		t.Fatal(err)
	}
	obj := schema.Object{
		"apiVersion": "example.com/v1", "kind": "Thing", "metadata": map[string]any{"name": "x", "namespace": "y"},
		"spec": map[string]any{"a": "too long", "b": int64(1), "l": []any{"x", "x"}}, "status": map[string]any{"count": int64(0)},
	}
	expect(t, p.Validate(context.Background(), obj, nil).FieldErrors(), "status.count: Invalid value: 0", "spec.l[1]: Duplicate value")
}

func containsError(errs field.ErrorList, text string) bool {
	return slices.ContainsFunc(errs, func(e *field.Error) bool { return strings.Contains(e.Error(), text) })
}
