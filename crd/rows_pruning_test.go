package crd_test

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"espalier.dev/api"
	"espalier.dev/api/v1beta1"
	"espalier.dev/crd"
	"espalier.dev/schema"
)

const untyped = `{properties: {spec: {properties: {a: {type: string}}}}}`

func preserving(value bool) func(*v1beta1.CustomResourceDefinition) {
	return func(c *v1beta1.CustomResourceDefinition) { c.Spec.PreserveUnknownFields = &value }
}

func preservingV1(c *api.CustomResourceDefinition) { c.Spec.PreserveUnknownFields = true }

// TestPruning proves the rows on pruning (documents 000 and 001).
func TestPruning(t *testing.T) {
	t.Run("K-05", testSuperseded)
	t.Run("P-16", testBetaPreserve)
	t.Run("P-17", testV1Preserve)
	t.Run("P-19", testNoSchema)
	t.Run("P-20", testPreserveFalse)
}

func testSuperseded(t *testing.T) {
	superseded := func(text string, sem schema.Semantics) []string {
		t.Helper()
		raw, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		errs, err := crd.Superseded(raw, sem)
		if err != nil {
			t.Fatal(err)
		}
		var texts []string
		for _, e := range errs {
			texts = append(texts, e.Error())
		}
		return texts
	}
	text := `
spec:
  prune: true
  preserveUnknownProperties: false
  validation:
    openAPIV3Schema:
      x-no-pruning: true
      properties:
        x-kubernetes-no-prune: {type: string, default: {x-no-pruning: 1}}
        list: {items: {anyOf: [{x-kubernetes-no-pruning: true}]}}
        map: {additionalProperties: {preserveUnknownProperties: true}}
        names: {not: {x-kubernetes-preserve-unknown-properties: true}}
    jsonSchema: {definitions: {a: {x-kubernetes-no-prune: true}}}
  versions:
  - schema: {openAPIV3Schema: {additionalProperties: {x-kubernetes-no-prune: true}}}
`
	want := []string{
		"spec.prune: Forbidden: has been superseded: use preserveUnknownFields: false",
		"spec.preserveUnknownProperties: Forbidden: has been superseded: use preserveUnknownFields",
		"spec.validation.openAPIV3Schema.properties[list].items.anyOf[0].x-kubernetes-no-pruning: Forbidden: has been superseded: use x-kubernetes-preserve-unknown-fields: true",
		"spec.validation.openAPIV3Schema.properties[map].additionalProperties.preserveUnknownProperties: Forbidden: has been superseded: use x-kubernetes-preserve-unknown-fields",
		"spec.validation.openAPIV3Schema.properties[names].not.x-kubernetes-preserve-unknown-properties: Forbidden: has been superseded: use x-kubernetes-preserve-unknown-fields",
		"spec.validation.openAPIV3Schema.x-no-pruning: Forbidden: has been superseded: use x-kubernetes-preserve-unknown-fields: true",
		"spec.validation.jsonSchema.definitions[a].x-kubernetes-no-prune: Forbidden",
		"spec.versions[0].schema.openAPIV3Schema.additionalProperties.x-kubernetes-no-prune: Forbidden",
	}
	got := superseded(text, schema.KEP)
	if len(got) != len(want) {
		t.Errorf("%d errors, want %d: %q", len(got), len(want), got)
	}
	for i := range min(len(got), len(want)) {
		if !strings.HasPrefix(got[i], want[i]) {
			t.Errorf("%s\nwant %s", got[i], want[i])
		}
	}
	if got := superseded(text, schema.Kubernetes); len(got) > 0 {
		t.Errorf("kube-apiserver drops them without a word, not with %q", got)
	}
	if got := superseded(`{spec: {preserveUnknownFields: false, versions: [{schema: {openAPIV3Schema: {x-kubernetes-preserve-unknown-fields: true}}}]}}`, schema.KEP); len(got) > 0 {
		t.Errorf("today's spellings are superseded: %q", got)
	}
	// The errors of a hostile CRD are bounded.
	const levels = 2000
	deep := superseded(`{"spec":{"validation":{"openAPIV3Schema":`+strings.Repeat(`{"x-no-pruning":true,"not":`, levels)+`{}`+strings.Repeat("}", levels)+`}}}`, schema.KEP)
	if len(deep) < 100 || len(deep) >= levels {
		t.Errorf("%d errors of %d", len(deep), levels)
	}
	if _, err := crd.Superseded([]byte("{"), schema.KEP); err == nil {
		t.Error("what is not JSON is not an error")
	}
}

func testBetaPreserve(t *testing.T) {
	for _, sem := range both {
		c := betaDefinition(t, untyped)
		if !*c.Spec.PreserveUnknownFields {
			t.Error("preserveUnknownFields is not true by default")
		}
		expect(t, createBeta(c, sem).Errors)
		// Pruning needs a structural schema.
		errs := createBeta(betaDefinition(t, untyped, preserving(false)), sem).Errors
		if !containsError(errs, "spec.validation.openAPIV3Schema.type: Required value") || !containsError(errs, "spec.validation.openAPIV3Schema.properties[spec].type: Required value") {
			t.Errorf("%v: %v", sem, errs)
		}
		expect(t, createBeta(betaDefinition(t, plain, preserving(false)), sem).Errors)
		// For every version.
		two := betaDefinition(t, "", preserving(false), func(c *v1beta1.CustomResourceDefinition) {
			c.Spec.Versions = []v1beta1.CustomResourceDefinitionVersion{
				{Name: "v1", Served: true, Storage: true, Schema: &api.CustomResourceValidation{OpenAPIV3Schema: props(t, plain)}},
				{Name: "v2", Served: true, Schema: &api.CustomResourceValidation{OpenAPIV3Schema: props(t, `{properties: {}}`)}},
			}
		})
		if errs := createBeta(two, sem).Errors; !containsError(errs, "spec.versions[1].schema.openAPIV3Schema.type: Required value") {
			t.Errorf("%v: %v", sem, errs)
		}
		// With true, nothing is pruned but metadata.
		obj, _, err := program(t, compile(t, stored(t, c), sem)).Decode([]byte(`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"x","foo":1},"foo":1,"spec":{"bar":null}}`), schema.DecodeOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := obj["metadata"].(map[string]any)["foo"]; ok || obj["foo"] != int64(1) || len(obj["spec"].(map[string]any)) != 1 {
			t.Errorf("%v: %v", sem, obj)
		}
	}
}

func testV1Preserve(t *testing.T) {
	const refused = "spec.preserveUnknownFields: Invalid value: true: cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
	for _, sem := range both {
		off := definition(t, plain)
		if off.Spec.PreserveUnknownFields {
			t.Error("preserveUnknownFields is not false by default")
		}
		on := definition(t, plain, preservingV1)
		expect(t, create(on, sem).Errors, refused)
		expect(t, update(on, off, sem).Errors, refused)
		expect(t, update(on.DeepCopy(), on, sem).Errors)
		expect(t, update(off, on, sem).Errors)
	}
}

func testNoSchema(t *testing.T) {
	c := betaDefinition(t, "", preserving(false))
	expect(t, createBeta(c, schema.Kubernetes).Errors, "spec.versions[0].schema.openAPIV3Schema: Required value: because otherwise all fields are pruned")
	expect(t, createBeta(c, schema.KEP).Errors)
	// Written as v1, it stays what it is.
	v1 := stored(t, c)
	expect(t, update(v1.DeepCopy(), v1, schema.KEP).Errors)
	for _, sem := range both {
		obj, _, err := program(t, compile(t, v1, sem)).Decode([]byte(`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"x"},"spec":{"a":1},"status":1}`), schema.DecodeOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(obj) != 3 || obj["kind"] != "Thing" || obj["metadata"].(map[string]any)["name"] != "x" {
			t.Errorf("%v: %v", sem, obj)
		}
		// v1 wants a schema for what is new.
		expect(t, create(definition(t, ""), sem).Errors, "spec.versions[0].schema.openAPIV3Schema: Required value")
	}
}

func testPreserveFalse(t *testing.T) {
	const s = `{type: object, properties: {spec: {type: object, x-kubernetes-preserve-unknown-fields: false}}}`
	const refused = "properties[spec].x-kubernetes-preserve-unknown-fields: Invalid value: false: must be true or undefined"
	for _, sem := range both {
		expect(t, create(definition(t, s), sem).Errors, refused)
		expect(t, createBeta(betaDefinition(t, s), sem).Errors, refused)
		expect(t, create(definition(t, strings.ReplaceAll(s, "false", "true")), sem).Errors)
	}
}
