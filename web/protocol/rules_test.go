package protocol_test

import (
	"fmt"
	"slices"
	"testing"

	"espalier.dev/web/protocol"
)

// TestRuleLocation checks that a finding about a CEL rule has the position of the rule, at the field of the
// finding or, with a fieldPath, around it.
func TestRuleLocation(t *testing.T) {
	const crd = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  scope: Cluster
  names: {kind: Thing, plural: things}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            x-kubernetes-validations:
            - {rule: "true"}
            - {rule: self.size > 3, message: too small, fieldPath: .size}
            properties:
              size: {type: integer}
              list:
                type: array
                maxItems: 3
                items:
                  type: object
                  properties: {x: {type: integer}}
                  x-kubernetes-validations:
                  - rule: |-
                      self.x
                        > 5
`
	const object = "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: a}\nspec: {size: 2, list: [{x: 1}]}\n"
	answer := ask[protocol.CheckAnswer](t, engine(), "check", protocol.CheckRequest{CRDs: crd, Objects: object})
	var got []string
	for _, f := range answer.Objects[0].Findings {
		if f.Schema == nil || f.Schema.Range == nil {
			t.Fatalf("no position: %+v", f)
		}
		got = append(got, fmt.Sprintf("%s %s %d", f.Path, f.Schema.Path, f.Schema.Range.Line))
	}
	want := []string{
		"spec.size .properties[spec].x-kubernetes-validations[1] 20",
		"spec.list[0] .properties[spec].properties[list].items.x-kubernetes-validations[0] 30",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
