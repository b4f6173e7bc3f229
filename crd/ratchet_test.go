package crd_test

import (
	"testing"

	"espalier.dev/api"
	"espalier.dev/api/v1beta1"
	"espalier.dev/schema"
)

// TestStoredRequirements checks which requirements an update must meet: those that the stored CRD
// meets.
func TestStoredRequirements(t *testing.T) {
	const notStructural = `{type: object, properties: {a: {minimum: 1}}}`
	const missing = "properties[a].type: Required value"
	structural := definition(t, plain, preservingV1)
	untyped := definition(t, notStructural, preservingV1)
	untyped.Spec.Versions[0].Schema.OpenAPIV3Schema.Description = "changed"
	for _, sem := range both {
		// A structural schema stays structural, also where nothing is pruned.
		expect(t, update(definition(t, notStructural, preservingV1), structural, sem).Errors, missing)
		expect(t, update(definition(t, notStructural, preservingV1), untyped, sem).Errors)
		// A stored schema that no server could convert is not structural either.
		odd := definition(t, `{type: object, $schema: x, properties: {a: {type: string, default: x}}}`, preservingV1)
		expect(t, update(definition(t, notStructural, preservingV1), odd, sem).Errors)
	}
	// Without a value, preserveUnknownFields counts as either.
	unset := betaDefinition(t, notStructural, preserving(true))
	unset.Spec.PreserveUnknownFields = nil
	expect(t, createBeta(unset, schema.Kubernetes).Errors, missing)
	// Both kinds of schemas are validated, but only one is used.
	two := jsonSchemaCRD(t, `{type: object, uniqueItems: true}`, preserving(true))
	two.Spec.Validation.OpenAPIV3Schema = props(t, `{type: object, id: x}`)
	expect(t, createBeta(two, schema.KEP).Errors, "spec.validation.openAPIV3Schema.id: Forbidden: id is not supported")
	// Where defaults are not allowed, they do not require a structural schema.
	with := betaDefinition(t, `{type: object, properties: {a: {default: 1}}}`, preserving(true))
	expect(t, createBeta(with, schema.Kubernetes).Errors, "properties[a].default: Forbidden: must not be set (cannot set default values in apiextensions.k8s.io/v1beta1 CRDs")
	expect(t, createBeta(with, schema.KEP).Errors, missing, "spec.preserveUnknownFields: Invalid value: true: must be false in order to use defaults in the schema")
}

// TestStoredSchemas checks that a CRD whose versions have schemas keeps one for each of them.
func TestStoredSchemas(t *testing.T) {
	two := func(second string) *api.CustomResourceDefinition {
		return definition(t, plain, preservingV1, func(c *api.CustomResourceDefinition) {
			v := api.CustomResourceDefinitionVersion{Name: "v2", Served: true}
			if second != "" {
				v.Schema = &api.CustomResourceValidation{OpenAPIV3Schema: props(t, second)}
			}
			c.Spec.Versions = append(c.Spec.Versions, v)
		})
	}
	all, half := two(`{type: object, description: other}`), two("")
	for _, sem := range both {
		expect(t, update(half, all, sem).Errors, "spec.versions[1].schema.openAPIV3Schema: Required value")
		expect(t, update(all, half, sem).Errors)
		expect(t, update(half.DeepCopy(), half, sem).Errors)
	}
}

// TestWebhookOfNonStructural checks that a conversion webhook needs structural schemas, unless the
// stored CRD has one already.
func TestWebhookOfNonStructural(t *testing.T) {
	url := "https://example.com"
	webhook := func(c *v1beta1.CustomResourceDefinition) {
		c.Spec.Conversion = &v1beta1.CustomResourceConversion{Strategy: api.WebhookConverter, WebhookClientConfig: &api.WebhookClientConfig{URL: &url}, ConversionReviewVersions: []string{"v1"}}
	}
	now := betaDefinition(t, `{properties: {a: {minimum: 1}}}`, preserving(true), webhook)
	without := stored(t, betaDefinition(t, `{properties: {a: {minimum: 1}}}`, preserving(true)))
	none := without.DeepCopy()
	none.Spec.Conversion = nil
	for _, old := range []*api.CustomResourceDefinition{without, none} {
		expect(t, updateBeta(now, old, schema.KEP).Errors, `spec.conversion.strategy: Invalid value: "Webhook": must be None if a schema is not structural`)
	}
	expect(t, updateBeta(now, stored(t, now), schema.KEP).Errors)
}
