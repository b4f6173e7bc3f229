package object_test

import (
	"testing"

	"espalier.dev/analysis/object"
	"espalier.dev/schema"
)

// TestOtherSemanticsFails checks objects of a CRD that only one of the semantics reads: the other knows
// the annotation with a schema, which is none. There is nothing to compare with.
func TestOtherSemanticsFails(t *testing.T) {
	t.Parallel()
	for _, spec := range []string{
		`{type: object, properties: {e: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}, count: {type: integer}}}`,
		`{type: object, x-kubernetes-preserve-unknown-fields: true, properties: {count: {type: integer}}}`,
	} {
		document := `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition,
metadata: {name: things.example.com, annotations: {espalier.dev/json-schema: text}},
spec: {group: example.com, scope: Cluster, names: {plural: things, kind: Thing}, versions: [{name: v1, served: true, storage: true,
schema: {openAPIV3Schema: ` + spec + `}}]}}`
		c := checker(t, document, schema.Kubernetes, nil)
		for fields, want := range map[string][]string{
			`"count": 1`: nil,
			`"count": ""`: {`error validation/wrong-type /count: Invalid value: "string": count in body must be of type integer: "string"`,
				`  schema: .properties[count]`},
		} {
			expect(t, c.Check(t.Context(), thing(fields), nil, object.Warn), want...)
			p := c.Prune(thing(fields))
			expect(t, p.Failures)
			expect(t, p.Difference())
		}
	}
}

// TestEmbeddedNames checks that all values of a wrong type are reported, also in embedded resources.
func TestEmbeddedNames(t *testing.T) {
	t.Parallel()
	c := checker(t, thingsWith(`{type: object, properties: {e: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}}}`), schema.KEP, nil)
	expect(t, c.Check(t.Context(), []byte(`{"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": 1.5},
		"e": {"apiVersion": 1, "kind": null, "metadata": {"name": true, "labels": {"a": {}}}}}`), nil, object.Warn),
		`error decode /e/apiVersion: must be a string, is an integer`,
		`error decode /e/kind: must be a string, is null`,
		`error decode /e/metadata/labels/a: must be a string, is an object`,
		`error decode /e/metadata/name: must be a string, is a boolean`,
		`error decode /metadata/name: must be a string, is a number`,
	)
}
