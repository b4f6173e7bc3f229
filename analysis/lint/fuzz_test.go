package lint_test

import (
	"context"
	"encoding/json"
	"testing"

	"espalier.dev/analysis"
	"espalier.dev/analysis/lint"
	"espalier.dev/crd/cel"
	"espalier.dev/schema"
)

// FuzzRun lints arbitrary input. Invalid JSON has one finding. All other findings must have
// a position.
func FuzzRun(f *testing.F) {
	seed := func(text string) {
		data, err := toJSONText(text)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, false)
	}
	seed(v1(`{type: object, properties: {a: {type: array, items: {default: 1}, anyOf: [{required: [b]}]}}, x-kubernetes-unions: [{fields: {a: b}}]}`))
	seed(v1(`{type: object, x-kubernetes-preserve-unknown-fields: true, properties: {l: {type: array, items: {type: object, pattern: '(?=', enum: [null, 1]}}}, x-kubernetes-validations: [{rule: "self.l.all(x, true)"}]}`))
	seed(v1beta1(`validation: {jsonSchema: {definitions: {a: {$ref: '#/definitions/a'}}, items: [{type: [string, "null"]}], dependencies: {a: [b]}}}`))
	f.Add([]byte(`{"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v1","spec":{"versions":[null],"names":null},"metadata":null}`), true)
	f.Add([]byte(`{"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v1beta1","spec":{"versions":[null],"prune":null,"validation":{"openAPIV3Schema":{"x-no-pruning":3}}}}`), true)
	f.Fuzz(func(t *testing.T, text []byte, kubernetes bool) {
		sem := schema.KEP
		if kubernetes {
			sem = schema.Kubernetes
		}
		found, err := lint.Run(context.Background(), [][]byte{text, text}, lint.Options{Rules: cel.Checker{}, Semantics: sem, Configs: []lint.Config{{Enable: []string{lint.All}}}})
		if err != nil {
			t.Fatal(err)
		}
		if !json.Valid(text) && len(found[0]) != 1 {
			t.Errorf("got %v", found[0])
		}
		for _, f := range found[0] {
			if f.Message == "" || f.Rule == "" || f.Severity == "" || f.Path != "" && f.Pointer == "" {
				t.Errorf("got %+v", f)
			}
			if f.Severity == analysis.Error && f.Rule == "name-collision" {
				t.Errorf("the first definition collides: %v", f)
			}
		}
	})
}
