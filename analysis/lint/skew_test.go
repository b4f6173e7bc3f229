package lint_test

import (
	"testing"

	"espalier.dev/schema"
)

// TestVersionSkew covers additionalProperties: false, which rejects the fields that newer
// clients send.
func TestVersionSkew(t *testing.T) {
	t.Run("V-10", func(t *testing.T) {
		for _, sem := range []schema.Semantics{schema.KEP, schema.Kubernetes} {
			fs := lintAll(t, sem, only("version-skew"), v1(`{type: object, properties: {a: {type: object, additionalProperties: false}, b: {type: object, additionalProperties: {type: string}}}}`))[0]
			expect(t, fs, "warning .properties[a].additionalProperties")
			says(t, fs[0], "a field that a later version adds is rejected here")

			// Wherever it is, but not below not, where it rejects nothing.
			fs = lintAll(t, sem, only("version-skew"), v1(`
type: object
additionalProperties: false
properties:
  list: {type: array, items: {type: object, additionalProperties: false}}
  map: {type: object, additionalProperties: {type: object, additionalProperties: false}}
  all: {type: object, allOf: [{}, {additionalProperties: false}]}
  any: {type: object, anyOf: [{properties: {a: {additionalProperties: false}}}]}
  one: {type: object, oneOf: [{items: {allOf: [{additionalProperties: false}]}}]}
  none: {type: object, not: {additionalProperties: false, properties: {a: {additionalProperties: false}}}}
`))[0]
			expect(t, fs,
				"warning .additionalProperties",
				"warning .properties[all].allOf[1].additionalProperties",
				"warning .properties[any].anyOf[0].properties[a].additionalProperties",
				"warning .properties[list].items.additionalProperties",
				"warning .properties[map].additionalProperties.additionalProperties",
				"warning .properties[one].oneOf[0].items.allOf[0].additionalProperties",
			)
			// In every version, and in both places of v1beta1.
			fs = lintAll(t, sem, only("version-skew"), v1beta1(`validation: {openAPIV3Schema: {type: object, properties: {a: {type: object, additionalProperties: false}}}}`))[0]
			expect(t, fs, "warning spec.validation.openAPIV3Schema.properties[a].additionalProperties")
			fs = lintAll(t, sem, only("version-skew"), v1beta1(`
versions:
- {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
- {name: v2, served: true, storage: false, schema: {openAPIV3Schema: {type: object, additionalProperties: false}}}
`))[0]
			expect(t, fs, "warning spec.versions[1].schema.openAPIV3Schema.additionalProperties")
		}
	})
}
