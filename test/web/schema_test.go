package web

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"
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

// TestSchema shows what a schema says about each field, and the schema in all forms.
func TestSchema(t *testing.T) {
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
		b.do(`{ const e = [...document.querySelectorAll("#explorer-panel details")].find(e => e.querySelector(".name").textContent === "ports"); e.querySelector("summary").click(); }`)
		b.wait(`![...document.querySelectorAll("#explorer-panel .name")].some(e => e.offsetParent && e.textContent === "number")`)
	})
	t.Run("search", func(t *testing.T) {
		b.run(chromedp.Focus("[aria-label='Search fields']"), chromedp.KeyEvent("numb"))
		b.click("spec.ports[].number")
		b.wait(`document.querySelector("#explorer-panel .name")?.textContent === "number"`)
		b.click("← Back")
		b.text("spec.ports[].number")
		b.run(chromedp.Focus("[aria-label='Search fields']"), chromedp.KeyEvent("\b\b\b\b"))
		b.wait(`document.querySelector("#explorer-panel details")`)
	})
	t.Run("forms", func(t *testing.T) {
		for tab, want := range map[string]string{
			"Sample": "kind: Thing", "Full sample": "color: ", "Skeleton": "size", "Structural": "x-kubernetes-list-map-keys",
			"OpenAPI v2": "x-kubernetes-group-version-kind", "OpenAPI v3": "x-kubernetes-group-version-kind", "JSON Schema": `"$schema"`,
			"Go": "type ThingSpec struct", "Protobuf": "message Thing", "TypeScript": "interface Thing",
		} {
			b.do(fmt.Sprintf(`[...document.querySelectorAll("[role=tab]")].find(e => e.textContent === %q).click()`, tab))
			b.wait(fmt.Sprintf(`[...document.querySelectorAll("#explorer-panel pre")].some(e => e.textContent.includes(%q))`, want))
			b.screenshot("schema-" + tab)
		}
	})
	t.Run("copy", func(t *testing.T) {
		b.do(`navigator.clipboard.writeText = (text) => { window.copied = text; return Promise.resolve(); }`)
		b.do(`document.getElementById("tab-sample").click()`)
		b.wait(`document.querySelector("#explorer-panel pre")?.textContent.startsWith("apiVersion: example.com/v1\n")`)
		b.click("Copy")
		b.text("Copied")
		b.click("Copied")
		b.wait(`[...document.querySelectorAll("#explorer-panel button")].some(e => e.textContent === "Copy")`)
		if got := b.eval(`window.copied === document.querySelector("#explorer-panel pre").textContent`); got != "true" {
			t.Errorf("copies %q", b.eval("window.copied"))
		}
	})
	t.Run("a sample in the playground", func(t *testing.T) {
		b.click("Open in playground")
		b.text("Accepted: an API server would create this object")
		b.click("Explorer")
		b.do(`document.getElementById("tab-tree").click()`)
	})
	t.Run("deprecated versions", func(t *testing.T) {
		if got := b.eval(`[...document.querySelector("select[aria-label=Version]").options].map(o => o.textContent).join("; ")`); got != "v1, storage; v1alpha1, deprecated; v0, not served" {
			t.Errorf("versions: %s", got)
		}
		b.do(`{ const s = document.querySelector("select[aria-label=Version]"); s.value = "v1alpha1"; s.dispatchEvent(new Event("change")); }`)
		b.text("v1alpha1 goes away")
	})
}
