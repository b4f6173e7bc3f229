package web

import (
	"fmt"
	"strings"
	"testing"
)

// wideCRD has 700 fields with long descriptions.
func wideCRD() string {
	var b strings.Builder
	b.WriteString(`apiVersion: apiextensions.k8s.io/v1
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
          list: {type: array, items: {type: integer}}
          spec:
            type: object
            properties:
`)
	for i := range 700 {
		fmt.Fprintf(&b, "              field%03d: {type: integer, description: %s}\n", i, strings.Repeat("word ", 200))
	}
	return b.String()
}

// TestLimits shows that large results are shown in part, and copied as a whole.
func TestLimits(t *testing.T) {
	t.Parallel()
	b := open(t, serve(t), 1440, 900, false)
	b.clipboard()
	b.text("Rejected")
	object := func(name string) string {
		return "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: " + name + "}\nspec: {field699: text}\nlist: [" + strings.Repeat("0, ", 1500) + "0]\n"
	}
	b.visit(link(t, map[string]any{"view": "playground", "crds": wideCRD(), "object": object("a") + "---\n" + object("b") + "---\n" + object("c") + "---\n" + object("d")}))
	b.wait(`document.querySelectorAll(".outcome article").length === 4`)
	if got := b.eval(`document.querySelectorAll(".stored .row").length`); got != "4000" {
		t.Errorf("%s lines are shown", got)
	}
	b.text("more lines not shown: copy has all of them.")
	if got := b.eval(`document.querySelectorAll(".stored [tabindex='0']").length`); got != "3" {
		t.Errorf("3 objects with lines have %s tab stops", got)
	}
	b.click("explorer")
	b.wait(`document.querySelector("#explorer-panel .target .name")?.textContent === "field699"`)
	b.click("Structural")
	b.click("Fields")
	fields := func(want string) {
		t.Helper()
		b.wait(`document.querySelectorAll("#explorer-panel details details").length === ` + want)
	}
	fields("300")
	b.click("400 more fields")
	fields("600")
	b.click("100 more fields")
	fields("700")
	b.form("openapi-v3", "field000")
	b.text("more characters not shown: copy has all of them.")
	if got := len(b.copied()); got < 700*1000 {
		t.Errorf("copies %d characters", got)
	}
}

// TestMarkdownBrackets shows documentation that is nothing but brackets. A browser that tries each pair of
// them does not answer within the time of the test.
func TestMarkdownBrackets(t *testing.T) {
	t.Parallel()
	b := open(t, serve(t), 1000, 700, false)
	b.text("Rejected")
	b.visit(link(t, map[string]any{"view": "lint"}))
	b.wait(`document.querySelector("#view-lint .banner")`)
	b.intercept("hover", `async () => new Response(JSON.stringify({answer: {markdown: "[".repeat(1 << 20) + " [the text](of a link)"}}))`)
	b.describe("CustomResourceDefinitions", "apiVersion")
	b.wait(`editor("CustomResourceDefinitions").tip().endsWith("[ the text")`)
}

// TestHighlight shows the colors of keys, and that a line of blanks does not keep the plain editor busy.
func TestHighlight(t *testing.T) {
	t.Parallel()
	b := open(t, serve(t), 1000, 700, false)
	b.text("Rejected")
	b.typeAt("Object", strings.Join([]string{
		"a: 1", "- b: 2", "- - c d : 3", `"e: f": 4`, "'g''h': 5", "i:6: 7", "j#k: 8", "http://l", "? m", "-n: 9", "o:", `"p" : [q: 1, r]`, "a" + strings.Repeat(" ", 1990) + "b",
	}, "\n"))
	b.wait(`[...editor("Object").area.parentElement.querySelectorAll(".t-key")].map((e) => e.textContent).join("|") === ` + quoted(t, `a|b|c d|"e: f"|'g''h'|i:6|-n|o|"p"`))
}
