package crd_test

import (
	"testing"

	"espalier.dev/api"
	"espalier.dev/crd"
	"espalier.dev/schema"
)

// TestErrors holds some of kube-apiserver's errors, word by word. The comparison
// with kube-apiserver itself is in a module of its own.
func TestErrors(t *testing.T) {
	str := func(s string) *string { return &s }
	version := func(change func(*api.CustomResourceDefinitionVersion)) func(*api.CustomResourceDefinition) {
		return func(c *api.CustomResourceDefinition) { change(&c.Spec.Versions[0]) }
	}
	webhook := func(w *api.WebhookConversion) func(*api.CustomResourceDefinition) {
		return func(c *api.CustomResourceDefinition) {
			c.Spec.Conversion = &api.CustomResourceConversion{Strategy: api.WebhookConverter, Webhook: w}
		}
	}
	for name, c := range map[string]struct {
		schema string
		edit   func(*api.CustomResourceDefinition)
		want   []string
	}{
		"no storage": {edit: version(func(v *api.CustomResourceDefinitionVersion) { v.Storage = false }), want: []string{
			`spec.versions: Invalid value: "v1": must have exactly one version marked as storage version`, "status.storedVersions: Invalid value: null: must have at least one stored version"}},
		"no versions": {edit: func(c *api.CustomResourceDefinition) { c.Spec.Versions = nil }, want: []string{
			"must have exactly one version marked as storage version", "must have at least one stored version"}},
		"selectable fields": {edit: version(func(v *api.CustomResourceDefinitionVersion) {
			for _, p := range []string{".spec.a", ".spec.a", ".spec", ".spec.b", "spec", ".spec['a']", ""} {
				v.SelectableFields = append(v.SelectableFields, api.SelectableField{JSONPath: p})
			}
		}), want: []string{
			`spec.selectableFields[1].jsonPath: Duplicate value: ".spec.a"`,
			`spec.selectableFields[2].jsonPath: Invalid value: ".spec": must point to a field of type string, boolean or integer.`,
			`spec.selectableFields[3].jsonPath: Invalid value: ".spec.b": is an invalid path: does not refer to a valid field`,
			`spec.selectableFields[4].jsonPath: Invalid value: "spec": is an invalid path: expected [ or . but got: spec`,
			`spec.selectableFields[5].jsonPath: Invalid value: ".spec['a']": is an invalid path: array notation is not allowed`,
			"spec.selectableFields[6].jsonPath: Required value",
		}},
		"selectable values of a map": {schema: `{type: object, properties: {any: {type: object, additionalProperties: true}, map: {type: object, additionalProperties: {type: string}}}}`,
			edit: version(func(v *api.CustomResourceDefinitionVersion) {
				v.SelectableFields = []api.SelectableField{{JSONPath: ".any.k"}, {JSONPath: ".map.k"}}
			}), want: []string{`spec.selectableFields[0].jsonPath: Invalid value: ".any.k": must point to a field of type string, boolean or integer.`}},
		"no webhook": {edit: webhook(nil), want: []string{
			"spec.conversion.webhookClientConfig: Required value: required when strategy is set to Webhook", "spec.conversion.conversionReviewVersions: Required value"}},
		"webhook": {edit: webhook(&api.WebhookConversion{ClientConfig: &api.WebhookClientConfig{URL: str("http://u@x?y#z")}, ConversionReviewVersions: []string{"v2", "v2"}}), want: []string{
			`spec.conversion.webhookClientConfig.url: Invalid value: "http": 'https' is the only allowed URL scheme; desired format: https://host[/path]`,
			`spec.conversion.webhookClientConfig.url: Invalid value: "u": user information is not permitted in the URL`,
			`spec.conversion.webhookClientConfig.url: Invalid value: "z": fragments are not permitted in the URL`,
			`spec.conversion.webhookClientConfig.url: Invalid value: "y": query parameters are not permitted in the URL`,
			`spec.conversion.conversionReviewVersions[1]: Invalid value: "v2": duplicate version`,
			`spec.conversion.conversionReviewVersions: Invalid value: ["v2","v2"]: must include at least one of v1, v1beta1`,
		}},
		"nullable root": {schema: `{type: object, nullable: true}`, want: []string{"spec.validation.openAPIV3Schema.nullable: Forbidden: nullable cannot be true at the root"}},
		"types": {schema: `{type: object, properties: {a: {type: file}, b: {type: "null"}, c: {type: [string, integer]}}}`, want: []string{
			`properties[a].type: Unsupported value: "file": supported values: "array", "boolean", "integer", "number", "object", "string"`,
			`properties[b].type: Unsupported value: "null"`, `properties[b].type: Forbidden: type cannot be set to null, use nullable as an alternative`,
			`properties[c].type: Invalid value: ["string","integer"]: must be a single type, not a list of types`,
		}},
		"keywords of draft 4": {schema: `{type: object, properties: {a: {type: array, items: [{type: string}, {type: string, id: x}]}, b: {type: object, definitions: {c: {type: string}, d: {type: string, id: x}}}, e: {type: object, dependencies: {f: {id: x}, g: [h]}}}}`, want: []string{
			"properties[a].items: Forbidden: items must be a schema object and not an array", "properties[a].items[1].id: Forbidden: id is not supported",
			"properties[b].definitions: Forbidden: definitions is not supported", "properties[b].definitions[d].id: Forbidden: id is not supported",
			"properties[e].dependencies: Forbidden: dependencies is not supported", "properties[e].dependencies[f].id: Forbidden: id is not supported",
		}},
		"defaults": {schema: `{type: object, properties: {a: {type: integer, default: x}, b: {type: object, default: {c: 1, d: 2}, properties: {c: {type: integer}}}}}`, want: []string{
			`properties[a].default: Invalid value: "string":  in body must be of type integer: "string"`,
			`properties[b].default: Invalid value: {"c":1,"d":2}: must not have unknown fields`,
		}},
		"defaults with malformed metadata": {schema: `{type: object, properties: {a: {type: object, x-kubernetes-embedded-resource: true, properties: {b: {type: string}},
  default: {apiVersion: v1, kind: Pod, c: 1, metadata: {name: x, creationTimestamp: "", finalizers: null}}}}}`, want: []string{
			`properties[a].default: Invalid value: {"apiVersion":"v1","c":1,"kind":"Pod","metadata":{"creationTimestamp":"","finalizers":null,"name":"x"}}: must not have unknown fields`,
			`properties[a].default.metadata: Invalid value: {"creationTimestamp":"","finalizers":null,"name":"x"}: `,
		}},
		"defaults in metadata": {schema: `
type: object
properties:
  metadata: {type: object, properties: {name: {type: string, default: x}}}
  pod:
    type: object
    x-kubernetes-embedded-resource: true
    properties:
      metadata: {type: object, properties: {name: {type: string, default: a/b}, labels: {type: object, additionalProperties: {type: string, default: x}}}}
`, want: []string{
			"properties[metadata].properties[name].default: Forbidden: must not be set in top-level metadata",
			`properties[pod].properties[metadata].properties[name].default: Invalid value: "a/b": must result in valid metadata: metadata.name: Invalid value: "a/b": may not contain '/'`,
			"properties[pod].properties[metadata].properties[labels].additionalProperties.default: Forbidden: must not be set inside additionalProperties applying to object metadata",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if c.schema == "" {
				c.schema = plain
			}
			if c.edit == nil {
				c.edit = func(*api.CustomResourceDefinition) {}
			}
			d := definition(t, c.schema, c.edit)
			expect(t, create(d, schema.Kubernetes).Errors, c.want...)
		})
	}
}

// TestUpdateErrors holds what only an update can do wrong, or is forgiven.
func TestUpdateErrors(t *testing.T) {
	old := served(t, named(t, "things", "Thing"), nil).CRD()
	change := func(edit func(*api.CustomResourceDefinition)) *api.CustomResourceDefinition {
		c := old.DeepCopy()
		edit(c)
		return c
	}
	for _, sem := range both {
		expect(t, update(old.DeepCopy(), old, sem).Errors)
		expect(t, update(change(func(c *api.CustomResourceDefinition) { c.Spec.Scope, c.Spec.Names.Kind = api.ClusterScoped, "Other" }), old, sem).Errors,
			`spec.scope: Invalid value: "Cluster": field is immutable`, `spec.names.kind: Invalid value: "Other": field is immutable`)
		expect(t, update(change(func(c *api.CustomResourceDefinition) { c.Spec.Group, c.Spec.Names.Plural = "other.com", "others" }), old, sem).Errors,
			`spec.group: Invalid value: "other.com": field is immutable`, `spec.names.plural: Invalid value: "others": field is immutable`)
		gone := change(func(c *api.CustomResourceDefinition) { c.Spec.Versions[0].Name = "v2" })
		crd.PrepareUpdate(gone, old)
		expect(t, update(gone, old, sem).Errors,
			`status.storedVersions[0]: Invalid value: "v1": missing from spec.versions; v1 was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in v1 and removes v1 from status.storedVersions`)
	}
}
