package web

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// typedCRD is documentedCRD without the line that a test types.
func typedCRD(t *testing.T, line string) (before, after string) {
	t.Helper()
	before, after, found := strings.Cut(documentedCRD, line)
	if !found {
		t.Fatalf("no line %q", line)
	}
	return before + line[:len(line)-len(strings.TrimLeft(line, " "))], after
}

// TestTypeCRD types in the editor of the CRD, with each editor: completion of keywords, values and CEL, and
// problems where they are.
func TestTypeCRD(t *testing.T) {
	t.Parallel()
	withEditors(t, func(t *testing.T, serve func(args ...string) string) {
		b := open(t, serve(), 1440, 900, false)
		b.text("Rejected")
		b.visit(link(t, map[string]any{"view": "playground", "crds": documentedCRD, "object": "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: a}\nspec: {ports: [{title: b}]}\n"}))
		b.text("Accepted")
		kind := b.eval(`editor("Object").kind`)
		const crds = "CustomResourceDefinitions"
		for _, c := range []struct{ name, line, typed, item, want string }{
			{"a keyword", "                maxItems: 8", "maxIt", "maxItems", "maxItems: "},
			{"a value", "  scope: Cluster", "scope: Clu", "Cluster", "scope: Cluster"},
			{"a list type", "                x-kubernetes-list-type: map", "x-kubernetes-list-type: ma", "map", "x-kubernetes-list-type: map"},
			{"a field", "    served: true", "serv", "served", "served: "},
			{"a function in a rule", "                      - rule: self != ''", "- rule: self.startsW", "startsWith", "- rule: self.startsWith("},
		} {
			t.Run(c.name, func(t *testing.T) {
				before, after := typedCRD(t, c.line)
				b.typeAt(crds, before+after)
				b.do(`{ const e = editor("` + crds + `"); e.select(` + quoted(t, before) + `.length, ` + quoted(t, before) + `.length); }`)
				b.frames()
				b.run(chromedp.KeyEvent(c.typed))
				b.complete(crds, c.item)
				b.screenshot(kind + "-complete-" + c.item)
				b.accept(crds, c.item)
				b.wait(`editor("` + crds + `").value().startsWith(` + quoted(t, before+c.want) + `)`)
			})
		}
		for _, c := range []struct{ name, old, new, underlined, message string }{
			{"a list type that does not exist", "list-type: map", "list-type: bag", "bag", `Unsupported value: "bag"`},
			{"a default of another type", "maxLength: 63", "default: 7", "7", "must be of type string"},
			{"a syntax error", "type: array", "type: array: 7", "7", "The result before:"},
		} {
			t.Run(c.name, func(t *testing.T) {
				b.typeAt(crds, strings.Replace(documentedCRD, c.old, c.new, 1))
				b.text(c.message)
				b.wait(`editor("` + crds + `").underlined().includes(` + quoted(t, c.underlined) + `)`)
				b.screenshot(kind + "-crd-" + strings.ReplaceAll(c.name, " ", "-"))
			})
		}
		t.Run("all is well again", func(t *testing.T) {
			b.typeAt(crds, documentedCRD)
			b.text("Accepted")
			b.wait(`editor("` + crds + `").underlined() === ""`)
		})
	})
}
