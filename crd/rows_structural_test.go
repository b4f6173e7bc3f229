package crd_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"espalier.dev/api"
	"espalier.dev/api/v1beta1"
	"espalier.dev/crd"
	"espalier.dev/schema"
)

// nightlyJob is 003's schema that is not structural.
const nightlyJob = `
properties:
  spec:
    type: object
    properties:
      command: {type: string, minLength: 1}
      shell: {type: string, minLength: 1}
      machines: {type: array, items: {type: string, pattern: "^[a-z0-9]+(-[a-z0-9]+)*$"}}
    oneOf:
    - {properties: {command: {type: string}}, required: [command]}
    - {properties: {shell: {type: string}}, required: [shell]}
    not: {properties: {privileged: {}}}
required: [spec]
`

// TestStructural proves the rows on structural schemas (documents 002 and 003).
func TestStructural(t *testing.T) {
	t.Run("S-07", testRootMetadata)
	t.Run("S-12", testNonStructuralCondition)
	t.Run("S-13", testCompatibilityPlan)
	t.Run("B-02", testNightlyJob)
	t.Run("B-04", testSeveralShapes)
}

func testRootMetadata(t *testing.T) {
	const restricted = "properties[metadata]: Forbidden: must not specify anything other than name and generateName, but metadata is implicitly specified"
	for _, sem := range both {
		expect(t, create(definition(t, `{type: object, properties: {metadata: {type: object, properties: {name: {type: string, pattern: ^a}, generateName: {type: string}}}}}`), sem).Errors)
		expect(t, create(definition(t, `{type: object, properties: {metadata: {type: object, properties: {labels: {type: object}}}}}`), sem).Errors, restricted)
		expect(t, create(definition(t, `{type: object, properties: {metadata: {type: object, minProperties: 1}}}`), sem).Errors, restricted)
		errs := create(definition(t, `{type: object, properties: {metadata: {type: object}}, anyOf: [{properties: {metadata: {required: [name]}}}]}`), sem).Errors
		if !containsError(errs, "anyOf[0].properties[metadata]: Forbidden") {
			t.Errorf("%v: %v", sem, errs)
		}
		embedded := create(definition(t, `
type: object
properties:
  template:
    type: object
    x-kubernetes-embedded-resource: true
    properties: {metadata: {type: object, properties: {labels: {type: object, additionalProperties: {type: string}}}}}
    anyOf: [{properties: {metadata: {required: [labels]}}}]
`), sem).Errors
		// Free of that, but kube-apiserver rejects metadata under any logical operator.
		if sem == schema.KEP {
			expect(t, embedded)
		} else {
			expect(t, embedded, "properties[template].anyOf[0].properties[metadata]: Forbidden: must not be specified in a nested context")
		}
	}
}

func testNonStructuralCondition(t *testing.T) {
	now := metav1.Now()
	condition := func(c *api.CustomResourceDefinition, old api.CustomResourceDefinitionStatus, sem schema.Semantics) (*api.CustomResourceDefinitionCondition, api.CustomResourceDefinitionStatus) {
		status := crd.Status(old, compile(t, c, sem), nil, now)
		for i := range status.Conditions {
			if status.Conditions[i].Type == api.NonStructuralSchema {
				return &status.Conditions[i], status
			}
		}
		return nil, status
	}
	for _, sem := range both {
		bad := stored(t, betaDefinition(t, untyped))
		c, status := condition(bad, api.CustomResourceDefinitionStatus{}, sem)
		if c == nil || c.Status != api.ConditionTrue || c.Reason != api.ReasonViolations {
			t.Fatalf("%v: %v", sem, c)
		}
		// Every violation is listed.
		for _, want := range []string{"spec.versions[0].schema.openAPIV3Schema.type", "spec.versions[0].schema.openAPIV3Schema.properties[spec].type"} {
			if !strings.Contains(c.Message, want) {
				t.Errorf("%v: %q is not in %s", sem, want, c.Message)
			}
		}
		if says := strings.Contains(c.Message, "spec.preserveUnknownFields"); says != (sem == schema.Kubernetes) {
			t.Errorf("%v: %s", sem, c.Message)
		}
		// Fixed, it is gone.
		if c, _ := condition(definition(t, plain), status, sem); c != nil {
			t.Errorf("%v: %v", sem, c)
		}
	}
	// What the schemas of 2017 are not.
	legacy := stored(t, betaDefinition(t, "", func(c *v1beta1.CustomResourceDefinition) {
		c.Spec.Validation = &v1beta1.CustomResourceValidation{JSONSchema: props(t, `{type: object}`)}
	}))
	if c, _ := condition(legacy, api.CustomResourceDefinitionStatus{}, schema.KEP); c == nil || !strings.Contains(c.Message, "spec.validation.jsonSchema") {
		t.Error(c)
	}
	// v1beta1 lets $schema pass.
	dollar := stored(t, betaDefinition(t, `{$schema: "http://json-schema.org/draft-04/schema#", type: object}`))
	if c, _ := condition(dollar, api.CustomResourceDefinitionStatus{}, schema.Kubernetes); c == nil || c.Status != api.ConditionUnknown || c.Reason != "StructuralError" {
		t.Error(c)
	}
	if c, _ := condition(dollar, api.CustomResourceDefinitionStatus{}, schema.KEP); c == nil || c.Status != api.ConditionTrue || !strings.Contains(c.Message, "$schema") {
		t.Error(c)
	}
}

func testCompatibilityPlan(t *testing.T) {
	webhook := func(c *v1beta1.CustomResourceDefinition) {
		url := "https://example.com/convert"
		c.Spec.Conversion = &v1beta1.CustomResourceConversion{
			Strategy: api.WebhookConverter, ConversionReviewVersions: []string{"v1"},
			WebhookClientConfig: &api.WebhookClientConfig{URL: &url},
		}
	}
	const rootType = "openAPIV3Schema.type: Required value"
	const specType = "properties[spec].type: Required value"
	for _, sem := range both {
		// v1 create rejects, v1 update only what was structural.
		bad := definition(t, untyped, preservingV1)
		good := definition(t, plain)
		expect(t, create(definition(t, untyped), sem).Errors, rootType, specType)
		expect(t, update(definition(t, untyped), good, sem).Errors, rootType, specType)
		expect(t, update(definition(t, untyped, preservingV1), bad, sem).Errors)
		// v1beta1 takes it, but nothing that needs structure.
		expect(t, createBeta(betaDefinition(t, untyped), sem).Errors)
		expect(t, createBeta(betaDefinition(t, untyped, preserving(false)), sem).Errors, rootType, specType)
	}

	const notStructural = `spec.conversion.strategy: Invalid value: "Webhook": must be None if a schema is not structural`
	const notPruned = `spec.conversion.strategy: Invalid value: "Webhook": must be None if spec.preserveUnknownFields is true`
	withHook := betaDefinition(t, untyped, webhook)
	expect(t, createBeta(withHook, schema.KEP).Errors, notStructural)
	expect(t, createBeta(withHook, schema.Kubernetes).Errors, notPruned)
	expect(t, updateBeta(withHook, stored(t, betaDefinition(t, untyped)), schema.KEP).Errors, notStructural)
	expect(t, updateBeta(withHook, stored(t, withHook), schema.KEP).Errors) // already set stays
	expect(t, createBeta(betaDefinition(t, plain, webhook), schema.KEP).Errors)
	expect(t, createBeta(betaDefinition(t, plain, webhook, preserving(false)), schema.Kubernetes).Errors)
	legacy := func(c *v1beta1.CustomResourceDefinition) {
		c.Spec.Validation = &v1beta1.CustomResourceValidation{JSONSchema: props(t, `{type: object}`)}
	}
	expect(t, createBeta(betaDefinition(t, "", legacy, webhook), schema.KEP).Errors, notStructural)
	expect(t, createBeta(betaDefinition(t, "", legacy, preserving(false)), schema.KEP).Errors, "spec.preserveUnknownFields: Invalid value: false: must be true with a jsonSchema")

	// Defaults.
	const withDefault = `{type: object, properties: {a: {type: string, default: x}}}`
	const untypedDefault = `{properties: {a: {default: x}}}`
	expect(t, createBeta(betaDefinition(t, withDefault, preserving(false)), schema.KEP).Errors)
	expect(t, createBeta(betaDefinition(t, withDefault, preserving(false)), schema.Kubernetes).Errors,
		"properties[a].default: Forbidden: must not be set (cannot set default values in apiextensions.k8s.io/v1beta1 CRDs, must use apiextensions.k8s.io/v1)")
	errs := createBeta(betaDefinition(t, untypedDefault), schema.KEP).Errors
	if !containsError(errs, rootType) || !containsError(errs, "properties[a].type: Required value") {
		t.Error(errs)
	}

	// Unions.
	const union = `
type: object
properties: {kindOf: {type: string}, a: {type: string}, b: {type: string}}
x-kubernetes-unions: [{discriminator: kindOf, fields: {a: A, b: B}}]
`
	untypedUnion := strings.Replace(union, "type: object", "title: x", 1)
	expect(t, createBeta(betaDefinition(t, union), schema.KEP).Errors)
	expect(t, createBeta(betaDefinition(t, untypedUnion), schema.KEP).Errors, rootType)
	expect(t, createBeta(betaDefinition(t, untypedUnion), schema.Kubernetes).Errors)
}

func testNightlyJob(t *testing.T) {
	const at = "spec.validation.openAPIV3Schema"
	reasons := []string{
		at + ".type: Required value: .type must be non-empty",
		at + ".properties[spec].oneOf[0].properties[command].type: Forbidden",
		at + ".properties[spec].oneOf[1].properties[shell].type: Forbidden",
		at + ".properties[spec].properties[privileged]: Required value: because it is defined in " + at + ".properties[spec].not.properties[privileged]",
	}
	expect(t, create(definition(t, nightlyJob), schema.KEP).Errors, reasons...)
	// kube-apiserver does not look for the third reason below the root.
	errs := create(definition(t, nightlyJob), schema.Kubernetes).Errors
	expect(t, errs, at+".type: Required value: must not be empty at the root", reasons[1], reasons[2])
	// v1beta1 flags it.
	status := crd.Status(api.CustomResourceDefinitionStatus{}, compile(t, stored(t, betaDefinition(t, nightlyJob)), schema.KEP), nil, metav1.Now())
	for _, want := range []string{".type: Required", ".oneOf[0].properties[command].type: Forbidden", ".properties[privileged]: Required"} {
		if !strings.Contains(condition(t, status, api.NonStructuralSchema).Message, want) {
			t.Errorf("%q is not in the condition", want)
		}
	}
}

// condition returns a condition that must be there.
func condition(t testing.TB, s api.CustomResourceDefinitionStatus, typ api.CustomResourceDefinitionConditionType) api.CustomResourceDefinitionCondition {
	t.Helper()
	for _, c := range s.Conditions {
		if c.Type == typ {
			return c
		}
	}
	t.Fatalf("no condition %s in %v", typ, s.Conditions)
	return api.CustomResourceDefinitionCondition{}
}

func testSeveralShapes(t *testing.T) {
	field := func(keywords string) *api.CustomResourceDefinition {
		return definition(t, `{type: object, properties: {a: {type: object, `+keywords+`}}}`)
	}
	for _, sem := range both {
		for _, refused := range []string{
			`properties: {b: {type: string}}, additionalProperties: {type: string}`,
			`properties: {b: {type: string}}, additionalProperties: false`,
		} {
			if errs := create(field(refused), sem).Errors; !containsError(errs, "properties[a].additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive") {
				t.Errorf("%v: %s: %v", sem, refused, errs)
			}
		}
		for accepted, warning := range map[string]string{
			`properties: {b: {type: string}}, additionalProperties: true`: ".properties[a].additionalProperties must not be used beside properties",
			`properties: {b: {type: string}}, items: {type: string}`:      ".properties[a].items must not be used beside properties",
			`additionalProperties: {type: string}, items: {type: string}`: ".properties[a].items must not be used beside additionalProperties",
		} {
			r := create(field(accepted), sem)
			expect(t, r.Errors)
			if sem == schema.KEP {
				expectWarning(t, r, warning)
			} else if len(r.Warnings) > 0 {
				t.Errorf("kube-apiserver does not warn: %q", r.Warnings)
			}
		}
	}
}
