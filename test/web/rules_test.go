package web

import (
	"testing"
)

// costlyCRD has a rule that is too expensive, and a cheap one.
const costlyCRD = `apiVersion: apiextensions.k8s.io/v1
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
            - rule: self.list.all(x, self.list.exists(y, x.name == y.name))
              message: names must exist
            - {rule: self.size < 100}
            properties:
              size: {type: integer}
              list:
                type: array
                items:
                  type: object
                  properties:
                    name: {type: string, maxLength: 63}
`

// TestRules shows the costs of rules, and adds the bounds that a rejected one needs.
func TestRules(t *testing.T) {
	t.Parallel()
	withEditors(t, func(t *testing.T, serve func(args ...string) string) {
		b := open(t, serve(), 1440, 900, false)
		b.text("Rejected")
		b.visit(link(t, map[string]any{"view": "playground", "crds": costlyCRD, "object": "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: a}\nspec: {size: 1, list: [{name: b}]}\n"}))
		b.text("an API server rejects this CRD")
		b.wait(`/estimated cost is [\d.,]+ times the limit/.test(document.querySelector(".rules").innerText)`)
		b.wait(`/estimated cost is less than 0.1% of the limit/.test(document.querySelector(".rules").innerText)`)
		b.wait(`editor("CustomResourceDefinitions").underlined().includes("rule")`)
		b.accessible("rules")
		b.screenshot(b.eval(`editor("Object").kind`) + "-rules")
		b.do(`[...document.querySelectorAll(".rules .path")][0].click()`)
		b.wait(`editor("CustomResourceDefinitions").focused() && editor("CustomResourceDefinitions").selected() !== ""`)
		b.click("Add maxItems: ")
		b.wait(`/^ {16}maxItems: \d+$/m.test(editor("CustomResourceDefinitions").value())`)
		b.wait(`!document.body.innerText.includes("an API server rejects this CRD") && document.querySelector(".rules summary").innerText.includes("for all rules")`)
		b.click("CEL rules")
		b.wait(`/estimated cost is [\d.]+% of the limit/.test(document.querySelector(".rules li").innerText)`)
		b.screenshot(b.eval(`editor("Object").kind`) + "-rules-bounded")
		b.click("Explorer")
		b.wait(`/estimated cost is [\d.]+% of the limit/.test(document.querySelector("#explorer-panel").innerText)`)
	})
}
