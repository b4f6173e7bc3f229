package web

import (
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// TestSettings uses the semantics, the theme, and what a link has beside the texts.
func TestSettings(t *testing.T) {
	t.Parallel()
	b := open(t, serve(t), 1000, 700, false)
	b.text("Rejected")
	t.Run("semantics", func(t *testing.T) {
		pick(b, "Where the two semantics differ")
		first := `document.querySelector(".outcome .columns h3")?.textContent`
		b.wait(first + ` === "kep"`)
		b.set("#semantics", "kubernetes")
		b.wait(first + ` === "kubernetes"`)
	})
	t.Run("theme", func(t *testing.T) {
		background := func() string { return b.eval(`getComputedStyle(document.body).backgroundColor`) }
		light := background()
		b.click("Auto")
		b.click("Light")
		dark := background()
		if dark == light || b.eval(`document.getElementById("theme").textContent`) != "Dark" {
			t.Errorf("the dark theme has the background %s", dark)
		}
		b.run(chromedp.Reload())
		b.text("an API server would")
		if got := background(); got != dark {
			t.Errorf("the background is %s after a reload, want %s", got, dark)
		}
		b.click("Dark")
	})
	share := func() {
		t.Helper()
		before := b.eval("location.hash")
		b.click("Share")
		b.wait(`location.hash.startsWith("#s=") && location.hash !== ` + quoted(t, before))
		b.run(chromedp.Reload())
	}
	t.Run("the explorer in a link", func(t *testing.T) {
		b.visit(link(t, map[string]any{"view": "explorer", "crds": richCRD + "---\n" + costlyCRD}))
		b.wait(`document.querySelectorAll("select[aria-label=CRD] optgroup[label=CRDs] option").length === 2`)
		b.wait(`document.querySelector("select[aria-label=Version]").options.length === 3`)
		b.set("select[aria-label=Version]", "v1alpha1")
		b.set("select[aria-label='Version to show next to it']", "v0")
		b.form("skeleton", "")
		share()
		b.wait(`document.getElementById("tab-skeleton").ariaSelected === "true" && document.querySelectorAll("#explorer-panel pre").length === 2`)
		if got := b.eval(`[...document.querySelectorAll("#explorer-panel h2")].map((e) => e.textContent).join()`); got != "v1alpha1,v0" {
			t.Errorf("shows %s", got)
		}
		b.do(`{ const q = document.querySelector("input[aria-label='Search fields']"); q.value = "size"; q.dispatchEvent(new Event("input")); }`)
		b.wait(`document.querySelector(".matches .path")?.textContent.includes("size")`)
		share()
		b.wait(`document.querySelector(".matches .path")?.textContent.includes("size") && document.querySelector("input[aria-label='Search fields']").value === "size"`)
	})
	t.Run("lint in a link", func(t *testing.T) {
		b.visit(link(t, map[string]any{"view": "lint", "crds": richCRD}))
		b.click("API conventions")
		b.text("convention-enum")
		share()
		b.text("convention-enum")
		b.visit(link(t, map[string]any{"view": "lint", "crds": richCRD, "conventions": false}))
		b.wait(`!document.getElementById("conventions").checked`)
	})
}

// TestResult shows how a result is read aloud, and how its lines lead to the object without a mouse.
func TestResult(t *testing.T) {
	t.Parallel()
	withEditors(t, func(t *testing.T, serve func(args ...string) string) {
		b := open(t, serve(), 1440, 900, false)
		b.text("Rejected")
		t.Run("spoken", func(t *testing.T) {
			if got := b.eval(`document.querySelectorAll(".result[aria-live], .result [aria-live]").length`); got != "0" {
				t.Error("all of the result is read aloud")
			}
			b.wait(`/^Rejected: an API server would not create this object, \d+ error/.test(document.querySelector(".outcome .spoken[role=status]").textContent)`)
			b.typeAt("Object", namespace("a")+"---\n"+namespace("b")+"---\n"+namespace("NO"))
			b.wait(`document.querySelector(".outcome .spoken").textContent === "2 objects accepted, 1 object rejected"`)
		})
		t.Run("lines", func(t *testing.T) {
			b.tabTo(`at.classList.contains("to")`)
			b.run(chromedp.KeyEvent(kb.ArrowDown))
			b.screenshot(b.eval(`editor("Object").kind`) + "-line")
			// As a keyboard does it: the character of a key that the page handles is not typed.
			b.run(input.DispatchKeyEvent(input.KeyRawDown).WithKey("Enter").WithCode("Enter").WithWindowsVirtualKeyCode(13),
				input.DispatchKeyEvent(input.KeyChar).WithText("\r"), input.DispatchKeyEvent(input.KeyUp).WithKey("Enter").WithCode("Enter"))
			b.wait(`editor("Object").focused() && editor("Object").selected() === "kind"`)
		})
		t.Run("ratcheting", func(t *testing.T) {
			const crd = "CustomResourceDefinitions"
			b.typeAt(crd, versionsCRD)
			const object = "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: a}\nspec: {size: 1, limits: {low: 60, high: 70}}\n"
			b.typeAt("Object", object)
			b.text("Rejected")
			b.click("Update")
			b.wait(`editor("Object before the update")?.value() === ` + quoted(t, object))
			b.text("an API server would update this object")
			b.screenshot(b.eval(`editor("Object").kind`) + "-ratcheted")
			b.typeAt("Object before the update", "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: a}\nspec: {size: 1, limits: {low: 5, high: 70}}\n")
			b.text("Rejected: an API server would not update this object")
		})
	})
}
