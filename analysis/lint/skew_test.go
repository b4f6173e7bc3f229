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
		}
	})
}
