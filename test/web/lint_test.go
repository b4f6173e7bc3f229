package web

import (
	"strings"
	"testing"
)

// TestLint shows findings, the page of a rule, and applies a fix with one click.
func TestLint(t *testing.T) {
	t.Parallel()
	withEditors(t, func(t *testing.T, serve func(args ...string) string) {
		b := open(t, serve(), 1440, 900, false)
		b.text("Rejected")
		crd := strings.Replace(strings.Replace(versionsCRD, "old: {type: string}", "old: {type: string, allOf: [{type: string, minLength: 1}]}", 1), "size: {type: integer, description: The size.}", "size: {type: string, format: date-tim}", 1)
		b.visit(link(t, map[string]any{"view": "lint", "crds": crd}))
		b.text("unknown-format")
		b.wait(`editor("CustomResourceDefinitions").underlined() !== "" || document.querySelector(".finding.warning")`)
		t.Run("the page of a rule", func(t *testing.T) {
			b.click("unknown-format")
			b.wait(`document.querySelector("#view-lint .page h3")?.textContent.startsWith("unknown-format: ")`)
			b.screenshot(b.eval(`editor("CustomResourceDefinitions").kind`) + "-lint-rule")
			b.accessible("the page of a rule")
			b.click("Close")
			b.wait(`document.querySelector("#view-lint .page").hidden`)
		})
		t.Run("a finding leads to the CRD", func(t *testing.T) {
			b.do(`[...document.querySelectorAll("#view-lint .finding")].find(e => e.innerText.includes("unknown-format")).querySelector(".path").click()`)
			b.wait(`editor("CustomResourceDefinitions").selected().includes("date-tim")`)
		})
		t.Run("a fix", func(t *testing.T) {
			before := b.eval(`editor("CustomResourceDefinitions").value()`)
			findings := b.eval(`document.querySelectorAll("#view-lint .finding").length`)
			b.screenshot(b.eval(`editor("CustomResourceDefinitions").kind`) + "-lint-fix")
			b.do(`document.querySelector("#view-lint .fix").click()`)
			b.wait(`editor("CustomResourceDefinitions").value() !== ` + quoted(t, before))
			b.wait(`document.querySelectorAll("#view-lint .finding").length < ` + findings)
		})
		t.Run("API conventions", func(t *testing.T) {
			b.visit(link(t, map[string]any{"view": "lint", "crds": richCRD}))
			b.wait(`editor("CustomResourceDefinitions").value().includes("enum: [red, green]")`)
			b.text("pruned-empty")
			if got := b.eval(`document.querySelector("#view-lint .result").innerText.includes("convention-")`); got != "false" {
				t.Error("conventions are checked by default")
			}
			b.click("API conventions")
			b.text(`the value "red" is not in camel case`)
			kind := b.eval(`editor("CustomResourceDefinitions").kind`)
			b.screenshot(kind + "-conventions")
			b.click("convention-enum")
			b.wait(`document.querySelector("#view-lint .page h3")?.textContent.startsWith("convention-enum: ")`)
			b.screenshot(kind + "-convention-page")
			b.accessible("a convention")
			b.do(`[...document.querySelectorAll("#view-lint .finding")].find(e => e.innerText.includes('value "red"')).querySelector(".path").click()`)
			b.wait(`editor("CustomResourceDefinitions").selected() === "red"`)
			b.click("API conventions")
			b.wait(`!document.querySelector("#view-lint .result").innerText.includes("convention-")`)
		})
	})
}

// TestCompare shows what a change means for objects.
func TestCompare(t *testing.T) {
	t.Parallel()
	withEditors(t, func(t *testing.T, serve func(args ...string) string) {
		b := open(t, serve(), 1440, 900, false)
		b.text("Rejected")
		after := strings.Replace(versionsCRD, "high: {type: integer}", "high: {type: integer, minimum: 5}", 1)
		b.visit(link(t, map[string]any{"view": "compare", "before": versionsCRD, "crds": after}))
		b.wait(`document.querySelector("#view-compare .result").innerText.includes("spec.limits.high")`)
		b.typeAt("Objects", "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: a}\nspec: {limits: {high: 2}}\n---\napiVersion: example.com/v1\nkind: Thing\nmetadata: {name: b}\nspec: {limits: {high: 7}}\n")
		b.text("tried with 2 objects")
		b.text("1 object affected")
		b.screenshot(b.eval(`editor("Objects").kind`) + "-compare-objects")
		b.do(`[...document.querySelectorAll("#view-compare .finding")].find(e => e.innerText.includes("spec.limits.high")).querySelector(".path").click()`)
		b.wait(`editor("New CRD").selected() !== ""`)
		b.typeAt("New CRD", versionsCRD)
		b.text("No changes")
	})
}
