package web

import (
	"strings"
	"testing"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// clipboard lets the page use the clipboard, which needs the focus.
func (b *tab) clipboard() {
	b.t.Helper()
	b.run(browser.GrantPermissions([]browser.PermissionType{browser.PermissionTypeClipboardReadWrite, browser.PermissionTypeClipboardSanitizedWrite}),
		emulation.SetFocusEmulationEnabled(true))
}

// copied clicks the button that copies what the explorer shows, and returns the text of the clipboard.
func (b *tab) copied() string {
	b.t.Helper()
	b.promise(`navigator.clipboard.writeText("nothing")`, nil)
	b.shows("Copied", func() {
		b.do(`[...document.querySelectorAll("#explorer-panel button")].find(e => ["Copy", "Copied"].includes(e.textContent)).click()`)
	})
	var text string
	b.promise(`navigator.clipboard.readText()`, &text)
	return text
}

// form opens a tab of the explorer, and waits for its text.
func (b *tab) form(id, want string) {
	b.t.Helper()
	b.do(`for (const e of document.querySelectorAll("#explorer-panel pre")) e.dataset.old = "true"; document.getElementById("tab-` + id + `").click()`)
	b.wait(`document.getElementById("tab-` + id + `").ariaSelected === "true" && [...document.querySelectorAll("#explorer-panel pre:not([data-old])")].some(e => e.textContent.includes(` + quoted(b.t, want) + `))`)
}

// TestForms uses the explorer: search, all forms of a schema, copies, samples, versions.
func TestForms(t *testing.T) {
	t.Parallel()
	b := open(t, serve(t), 1440, 900, false)
	b.clipboard()
	b.text("Rejected")
	b.visit(link(t, map[string]any{"view": "explorer", "crds": richCRD}))
	b.text("Namespaced resource things of group example.com, short names th.")
	search := func(query string) {
		t.Helper()
		b.do(`{ const q = document.querySelector("input[aria-label='Search fields']"); q.focus(); q.select(); }`)
		b.run(chromedp.KeyEvent(query))
	}
	t.Run("search", func(t *testing.T) {
		search("number")
		b.wait(`document.querySelector(".matches .path")?.textContent === "spec.ports[].number"`)
		b.screenshot("explorer-search")
		b.accessible("search")
		b.click("spec.ports[].number")
		b.wait(`document.querySelector("#explorer-panel details[open] .name")?.textContent === "number"`)
		b.click("← Back")
		b.wait(`document.querySelector(".matches .path")?.textContent === "spec.ports[].number"`)
		search("how large")
		b.wait(`document.querySelector(".matches .path")?.textContent === "spec.size"`)
		search("nonsense")
		b.text("No field matches.")
		b.do(`{ const q = document.querySelector("input[aria-label='Search fields']"); q.value = ""; q.dispatchEvent(new Event("input")); }`)
		b.wait(`document.querySelector("#explorer-panel .tree summary")`)
	})
	for _, c := range []struct{ id, want string }{
		{"skeleton", "number:"},
		{"structural", "x-kubernetes-list-map-keys"},
		{"openapi-v2", "number"},
		{"openapi-v3", "x-kubernetes-list-map-keys"},
		{"json-schema", "$schema"},
		{"go", "type ThingSpec struct"},
		{"proto", "message ThingSpec"},
		{"typescript", "interface Thing"},
	} {
		t.Run(c.id, func(t *testing.T) {
			b.form(c.id, c.want)
			if got, shown := b.copied(), b.eval(`document.querySelector("#explorer-panel pre").textContent`); got != shown {
				t.Errorf("copies %.200q instead of %.200q", got, shown)
			}
			b.screenshot("explorer-" + c.id)
			b.accessible(c.id)
		})
	}
	for _, c := range []struct{ id, want string }{{"sample", "kind: Thing"}, {"sample-full", "ports:"}} {
		t.Run(c.id, func(t *testing.T) {
			b.form(c.id, c.want)
			sample := b.copied()
			b.click("Open in playground")
			b.wait(`editor("Object")?.value() === ` + quoted(t, sample))
			b.text("Accepted: an API server would create this object")
			b.click("Explorer")
			b.wait(`document.querySelector("#explorer-panel pre")`)
		})
	}
	t.Run("versions", func(t *testing.T) {
		if got := b.eval(`[...document.querySelector("select[aria-label=Version]").options].map(o => o.textContent).join("; ")`); got != "v1, storage; v1alpha1, deprecated; v0, not served" {
			t.Errorf("the versions are %s", got)
		}
		b.set("select[aria-label=Version]", "v1alpha1")
		b.wait(`document.querySelector("strong.deprecated")?.textContent.includes("v1alpha1 goes away")`)
		b.screenshot("explorer-deprecated")
		b.accessible("a deprecated version")
	})
}

// TestCopyWithoutClipboard copies on a page that has no clipboard, as those that come over plain http.
func TestCopyWithoutClipboard(t *testing.T) {
	t.Parallel()
	b := open(t, serve(t), 1000, 700, false)
	b.clipboard()
	b.text("Rejected")
	b.do(`window.clipboard = navigator.clipboard; Object.defineProperty(navigator, "clipboard", {value: undefined}); undefined`)
	read := func() (text string) {
		t.Helper()
		b.promise(`clipboard.readText()`, &text)
		return text
	}
	// press presses a button, which keeps the focus.
	press := func(button, message string) {
		t.Helper()
		b.do(`window.pressed = ` + button + `; pressed.focus()`)
		b.shows(message, func() { b.run(chromedp.KeyEvent(kb.Enter)) })
		if got := b.eval(`document.activeElement === pressed`); got != "true" {
			t.Errorf("the focus is not on %s", button)
		}
	}
	press(`[...document.querySelectorAll(".stored button")].find((e) => e.textContent === "Copy")`, "Copied")
	if got := read(); !strings.HasPrefix(got, "apiVersion: example.com/v1") {
		t.Errorf("copies %q", got)
	}
	b.shows("This link works on this machine only", func() { press(`document.getElementById("share")`, "Link copied") })
	if got := read(); got != b.eval("location.href") {
		t.Errorf("copies %q", got)
	}
}

// TestFormsSizes shows the explorer in all sizes, light and dark.
func TestFormsSizes(t *testing.T) {
	t.Parallel()
	chromium(t)
	for _, s := range sizes {
		t.Run(s.name, func(t *testing.T) {
			b := open(t, serve(t), s.width, s.height, s.dark)
			b.text("Rejected")
			b.visit(link(t, map[string]any{"view": "explorer", "crds": richCRD}))
			b.text("Namespaced resource things of group example.com")
			b.field("ports", "CEL", "self.number > 0", "of the limit")
			b.field("template", "embedded resource")
			b.screenshot(s.name + "-schema")
			for id, want := range map[string]string{"skeleton": "number:", "typescript": "interface Thing"} {
				b.form(id, want)
				b.screenshot(s.name + "-" + id)
			}
			b.narrow("the explorer")
		})
	}
}
