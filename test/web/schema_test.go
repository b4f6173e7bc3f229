package web

import (
	"fmt"
	"testing"
)

// richCRD uses most of what a schema can say.
const richCRD = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Thing, plural: things, shortNames: [th]}
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
            required: [size]
            properties:
              size: {type: integer, minimum: 1, maximum: 9, default: 3, description: How large it is.}
              color: {type: string, enum: [red, green], nullable: true}
              pattern: {type: string, pattern: ^a+$, maxLength: 7}
              ports:
                type: array
                maxItems: 4
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [name]
                items:
                  type: object
                  required: [name]
                  x-kubernetes-validations:
                  - {rule: 'self.number > 0', message: must be positive}
                  properties:
                    name: {type: string}
                    number: {type: integer}
              atomic: {type: object, x-kubernetes-map-type: atomic, properties: {a: {type: string}}}
              anything: {type: object, x-kubernetes-preserve-unknown-fields: true}
              template: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}
  - name: v1alpha1
    served: true
    storage: false
    deprecated: true
    deprecationWarning: v1alpha1 goes away
    schema:
      openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: string}}}}}
  - name: v0
    served: false
    storage: false
    schema:
      openAPIV3Schema: {type: object}
`

// field opens a field of the tree, and waits until it shows a text.
func (b *tab) field(name string, texts ...string) {
	b.t.Helper()
	find := fmt.Sprintf(`[...document.querySelectorAll("#explorer-panel details")].find(e => e.querySelector(".name").textContent === %q)`, name)
	b.wait(find)
	b.do(`{ const e = ` + find + `; e.open = true; }`)
	for _, text := range texts {
		b.wait(fmt.Sprintf("%s.innerText.replace(/\\s+/g, ' ').includes(%q)", find, text))
	}
}

// TestSchema shows what a schema says about each field.
func TestSchema(t *testing.T) {
	t.Parallel()
	b := open(t, serve(t), 1440, 1200, false)
	b.text("Rejected")
	b.visit(link(t, map[string]any{"view": "explorer", "crds": richCRD}))
	b.text("Namespaced resource things of group example.com")
	t.Run("fields", func(t *testing.T) {
		b.field("size", "integer", "required", "default 3", "How large it is.", "minimum 1", "maximum 9")
		b.field("color", `enum "red", "green"`, "nullable")
		b.field("pattern", "^a+$", "maxLength 7")
		b.field("ports", "CEL", "list type map by name", "self.number > 0", "must be positive", "of the limit", "maxItems 4")
		b.field("atomic", "map type atomic")
		b.field("anything", "preserves unknown fields")
		b.field("template", "embedded resource")
		b.screenshot("schema")
		b.accessible("schema")
	})
}
