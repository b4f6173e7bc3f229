package web

import (
	"testing"

	"github.com/chromedp/chromedp"
)

// versionsCRD has two versions, and rules.
const versionsCRD = `apiVersion: apiextensions.k8s.io/v1
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
            - {rule: self.size < 100}
            properties:
              size: {type: integer, description: The size.}
              limits:
                type: object
                x-kubernetes-validations:
                - {rule: self.low < 9}
                - {rule: self.low < self.high, message: low must be less than high}
                properties:
                  low: {type: integer, maximum: 50}
                  high: {type: integer}
  - name: v1alpha1
    served: true
    storage: false
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              size: {type: string, description: The size.}
              old: {type: string}
              limits: {type: object, properties: {low: {type: integer, maximum: 50}}}
`

// TestExplorer shows how violations lead to the explorer, and two versions side by side.
func TestExplorer(t *testing.T) {
	t.Parallel()
	b := open(t, serve(t), 1440, 900, false)
	b.text("Rejected")
	b.visit(link(t, map[string]any{"view": "playground", "crds": versionsCRD, "object": "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: a}\nspec: {size: 1, limits: {low: 8, high: 2}}\n"}))
	b.text("low must be less than high")
	t.Run("a rule", func(t *testing.T) {
		b.click("rule, line 26")
		if got := b.eval(`editor("CustomResourceDefinitions").value().slice(0, editor("CustomResourceDefinitions").area.selectionStart).split("\n").length`); got != "26" {
			t.Errorf("the cursor is in line %s", got)
		}
		b.click("rule in explorer")
		b.wait(`document.querySelector("#explorer-panel .target")?.textContent.includes("self.low < self.high")`)
		b.screenshot("explorer-rule")
	})
	t.Run("a field", func(t *testing.T) {
		b.click("Playground")
		b.typeAt("Object", "apiVersion: example.com/v1alpha1\nkind: Thing\nmetadata: {name: a}\nspec: {limits: {low: 80}}\n")
		b.text("should be less than or equal to 50")
		b.click("explorer")
		b.wait(`document.querySelector("#explorer-panel .target .name")?.textContent === "low"`)
		if got := b.eval(`document.querySelector("[aria-label=Version]").value`); got != "v1alpha1" {
			t.Errorf("the version is %s", got)
		}
	})
	t.Run("Kubernetes' own kinds", func(t *testing.T) {
		choose := func(name string) { b.set("select[aria-label=CRD]", name) }
		b.click("TypeScript")
		b.text("interface Thing")
		choose("deployments.apps")
		b.text("short names deploy")
		b.wait(`document.getElementById("tab-typescript").hidden && document.querySelector("#explorer-panel summary")`)
		b.click("template")
		b.text("The only allowed template.spec.restartPolicy")
		b.screenshot("explorer-deployment")
		choose("things.example.com")
		b.wait(`!document.getElementById("tab-typescript").hidden`)
		b.set("[aria-label=Version]", "v1alpha1")
	})
	t.Run("versions side by side", func(t *testing.T) {
		b.set("[aria-label='Version to show next to it']", "v1")
		row := func(version, name string) string {
			return `[...document.querySelectorAll("section[aria-label='Version ` + version + `'] summary")].find(e => e.querySelector(".name").textContent === "` + name + `")`
		}
		b.wait(row("v1alpha1", "old") + `?.textContent.includes("only in v1alpha1")`)
		b.wait(row("v1", "size") + `?.textContent.includes("differs")`)
		b.run(chromedp.Evaluate(row("v1", "limits")+".click()", nil))
		b.wait(row("v1alpha1", "low"))
		b.wait(row("v1", "high") + `?.textContent.includes("only in v1")`)
		if got := b.eval(row("v1", "low") + ".textContent"); got != "lowinteger" {
			t.Errorf("a field that is the same shows %q", got)
		}
		b.screenshot("explorer-versions")
		b.accessible("versions side by side")
		b.click("OpenAPI v3")
		b.wait(`document.querySelectorAll("#explorer-panel mark").length > 3`)
		b.screenshot("explorer-versions-text")
	})
}

// nestedCRD has the same rule for a list and for its items, and a map.
const nestedCRD = `apiVersion: apiextensions.k8s.io/v1
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
            properties:
              labels: {type: object, additionalProperties: {type: string, maxLength: 63}}
              lists:
                type: array
                maxItems: 5
                x-kubernetes-validations:
                - {rule: 'self.all(x, size(x) < 4)'}
                - {rule: size(self) < 9}
                items:
                  type: array
                  maxItems: 4000
                  items: {type: string, maxLength: 9}
                  x-kubernetes-validations:
                  - {rule: 'self.all(x, size(x) < 4)'}
`

// TestExplorerItems shows that values of maps and items of lists have their own facts, rules and costs.
func TestExplorerItems(t *testing.T) {
	t.Parallel()
	b := open(t, serve(t), 1000, 700, false)
	b.text("Rejected")
	b.visit(link(t, map[string]any{"view": "playground", "crds": nestedCRD, "object": "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: a}\nspec: {lists: [[long text]]}\n"}))
	b.click("rule in explorer")
	b.wait(`document.querySelector("#explorer-panel .target")?.closest("dd").previousElementSibling.textContent === "items rule"`)
	costs := `[...document.querySelectorAll("#explorer-panel [data-rule]")].filter((e) => e.textContent.includes("self.all")).map((e) => e.querySelector(".cost")?.textContent)`
	b.wait(costs + ".length === 2")
	if got := b.eval(`new Set(` + costs + `).size`); got != "2" {
		t.Errorf("a rule of a list and that of its items cost %s", b.eval(costs))
	}
	b.click("labels")
	b.wait(`[...document.querySelectorAll("#explorer-panel dt")].some((e) => e.textContent === "values maxLength")`)
}

// TestExplorerCancels shows that a field that comes late does not replace what is shown now.
func TestExplorerCancels(t *testing.T) {
	t.Parallel()
	b := open(t, serve(t), 1000, 700, false)
	b.text("Rejected")
	b.visit(link(t, map[string]any{"view": "explorer", "crds": richCRD, "query": "number"}))
	b.wait(`document.querySelector(".matches .path")?.textContent === "spec.ports[].number"`)
	b.hold("fields")
	b.click("spec.ports[].number")
	b.wait(`held.length === 1`)
	b.do(`{ const q = document.querySelector("input[aria-label='Search fields']"); q.value = "how large"; q.dispatchEvent(new Event("input")); }`)
	b.wait(`document.querySelector(".matches .path")?.textContent === "spec.size"`)
	b.release()
	if got := b.eval(`document.querySelector("#explorer-panel .path")?.textContent`); got != "spec.size" {
		t.Errorf("shows %s", got)
	}
}
