package web

import (
	"strings"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// documentedCRD has keywords of a CRD and of its schema, and few lines.
const documentedCRD = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  scope: Cluster
  preserveUnknownFields: false
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
              ports:
                type: array
                description: The ports of the thing.
                maxItems: 8
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [title]
                items:
                  type: object
                  required: [title]
                  properties:
                    title:
                      type: string
                      maxLength: 63
                      x-kubernetes-validations:
                      - rule: self != ''
            required: [ports]
`

// TestHoverCRD shows the documentation of the keywords of a CRD, with each editor.
func TestHoverCRD(t *testing.T) {
	t.Parallel()
	withEditors(t, func(t *testing.T, serve func(args ...string) string) {
		b := open(t, serve(), 1440, 900, false)
		b.text("Rejected")
		b.visit(link(t, map[string]any{"view": "playground", "crds": documentedCRD, "object": "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: a}\nspec: {ports: [{title: b}]}\n"}))
		b.text("Accepted")
		kind := b.eval(`editor("Object").kind`)
		const crds = "CustomResourceDefinitions"
		for _, c := range []struct{ text, want string }{
			{"scope", "scope is Namespaced or Cluster"},
			{"preserveUnknownFields", "preserveUnknownFields disables pruning"},
			{"x-kubernetes-list-type", "How server-side apply merges the list"},
			{"x-kubernetes-list-map-keys", "The fields that identify an item"},
			{"maxLength", "The highest number of characters"},
			{"storage", "storage marks the storage version"},
			{"plural", "plural is the name of the resource in URLs"},
			{"title", "The fields that identify an item"},
			{"required", "The fields that the object must have"},
			{"ports", "The ports of the thing."},
			{"rule", "Estimated cost"},
		} {
			t.Run(c.text, func(t *testing.T) {
				b.hover(crds, c.text)
				b.wait(`editor("` + crds + `").tip().includes(` + quoted(t, c.want) + `)`)
				if got := b.eval(`editor("` + crds + `").tip()`); strings.ContainsAny(got, "*`\\") {
					t.Errorf("shows %q", got)
				}
				b.screenshot(kind + "-hover-" + c.text)
			})
		}
		t.Run("Escape", func(t *testing.T) {
			b.do(`{ const e = editor("` + crds + `"); e.select(0, 0); }`)
			b.hover(crds, "scope")
			b.wait(`editor("` + crds + `").tip() !== ""`)
			b.run(chromedp.KeyEvent(kb.Escape))
			b.wait(`editor("` + crds + `").tip() === ""`)
		})
		t.Run("the mouse leaves", func(t *testing.T) {
			b.hover(crds, "served")
			b.wait(`editor("` + crds + `").tip().includes("served enables the version")`)
			b.leave()
			b.wait(`editor("` + crds + `").tip() === ""`)
		})
		t.Run("the mouse leaves before the answer", func(t *testing.T) {
			b.holdCanceled("hover")
			b.hover(crds, "scope")
			b.wait(`held.length > 0`)
			b.leave()
			b.release()
			if got := b.eval(`editor("` + crds + `").tip()`); got != "" {
				t.Errorf("shows %q", got)
			}
		})
		t.Run("with the keyboard", func(t *testing.T) {
			b.describe(crds, "maxItems")
			b.wait(`editor("` + crds + `").tip().includes("The highest number of items")`)
			b.accessible("documentation")
			b.run(chromedp.KeyEvent(kb.Escape))
			b.wait(`editor("` + crds + `").tip() === ""`)
		})
		t.Run("a finding", func(t *testing.T) {
			b.typeAt(crds, strings.Replace(documentedCRD, "self != ''", "self > 7", 1))
			b.text("an API server rejects this CRD")
			b.wait(`editor("` + crds + `").underlined() === "self > 7"`)
			b.hover(crds, "self > 7")
			b.wait(`/no matching overload[^]*a CEL expression that must be true/.test(editor("` + crds + `").tip())`)
			b.screenshot(kind + "-hover-rule-finding")
		})
		t.Run("while the text is broken", func(t *testing.T) {
			b.typeAt(crds, documentedCRD+"    broken: [\n")
			b.text("The CRDs cannot be read")
			b.hover(crds, "maxLength")
			b.wait(`editor("` + crds + `").tip().includes("The highest number of characters")`)
		})
	})
}

// leave moves the mouse away from all editors.
func (b *tab) leave() {
	b.t.Helper()
	b.run(chromedp.MouseEvent(input.MouseMoved, 3, 3))
}

// describe asks with the keyboard what is known about a text in an editor.
func (b *tab) describe(label, text string) {
	b.t.Helper()
	b.do(`{ const e = editor(` + quoted(b.t, label) + `); const at = e.value().indexOf(` + quoted(b.t, text) + `) + 2; e.select(at, at); }`)
	// An editor may scroll when it gets the focus. The event that comes with the next frame hides what is shown.
	b.frames()
	b.run(chromedp.KeyEvent(" ", chromedp.KeyModifiers(input.ModifierCtrl|input.ModifierShift)))
}

// hover moves the mouse to a text in an editor, which is scrolled to it.
func (b *tab) hover(label, text string) {
	b.t.Helper()
	b.do(`{ const e = editor(` + quoted(b.t, label) + `); e.scroll(e.value().indexOf(` + quoted(b.t, text) + `)); }`)
	b.point(label, text)
}
