package explain_test

import (
	"bytes"
	"testing"

	"sigs.k8s.io/yaml"

	"espalier.dev/analysis/explain"
	"espalier.dev/analysis/explain/sample"
	"espalier.dev/api/codec"
	"espalier.dev/crd"
	"espalier.dev/crd/cel"
	"espalier.dev/schema"
)

// FuzzExplain explains any schema and generates samples of it. A sample that is not valid must
// be reported as such.
func FuzzExplain(f *testing.F) {
	f.Add("spec.mode", "type: object\nproperties: {spec: {type: object, properties: {mode: {type: string}}}}")
	f.Add(`["a.b"][0].*`, "type: object\nproperties: {a.b: {type: array, minItems: 3, items: {type: object, additionalProperties: {type: integer, minimum: 5, multipleOf: 7}}}}")
	f.Add("", "type: object\noneOf: [{required: [a]}, {properties: {b: {enum: [1, null]}}, not: {required: [b]}}]\nproperties: {a: {type: string, pattern: '[a-z]{3,5}$', format: byte}, b: {x-kubernetes-int-or-string: true, default: 1}}")
	f.Add("x", "type: object\nproperties: {x: {type: object, x-kubernetes-embedded-resource: true}, u: {type: string}}\nx-kubernetes-unions: [{discriminator: u, fields: {x: X, y: Y}}]\nx-kubernetes-validations: [{rule: 'self.x.size() > oldSelf.x'}, {rule: ''}]")
	f.Fuzz(func(t *testing.T, path, text string) {
		var props map[string]any
		if yaml.Unmarshal([]byte(text), &props) != nil {
			return
		}
		data, err := yaml.Marshal(map[string]any{
			"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "things.example.com"},
			"spec": map[string]any{
				"group": "example.com", "names": map[string]any{"kind": "Thing", "plural": "things"}, "scope": "Cluster",
				"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "schema": map[string]any{"openAPIV3Schema": props}}},
			},
		})
		if err != nil {
			return
		}
		if data, err = yaml.YAMLToJSON(data); err != nil {
			return
		}
		c, err := codec.DecodeLenient(data)
		if err != nil {
			return
		}
		for _, sem := range []schema.Semantics{schema.KEP, schema.Kubernetes} {
			d, err := crd.New(c, crd.Options{Semantics: sem, Rules: cel.Checker{}})
			if err != nil {
				return
			}
			for _, p := range []string{"", path} {
				doc, err := explain.Describe(d.Version("v1"), p, explain.Options{Recursive: true})
				if err != nil {
					continue
				}
				if err := doc.WriteText(&bytes.Buffer{}, explain.TextOptions{}); err != nil {
					t.Error(err)
				}
			}
			for _, size := range []sample.Size{sample.Minimal, sample.Full} {
				s, err := sample.New(t.Context(), d.Version("v1"), size)
				if err == nil && s.Object == nil {
					t.Error("there is no attempt")
				}
			}
		}
	})
}
