package web

import (
	"path/filepath"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
)

// sizes are those that the page is looked at.
var sizes = []struct {
	name          string
	width, height int64
	dark          bool
}{
	{"wide-dark", 1440, 900, true},
	{"phone", 390, 844, false},
}

// TestViews shows all views in all sizes, and those of a phone with each editor, without an error.
func TestViews(t *testing.T) {
	t.Parallel()
	chromium(t)
	for _, s := range sizes {
		t.Run(s.name, func(t *testing.T) {
			testViews(t, open(t, serve(t), s.width, s.height, s.dark), s.name, s.width < 500)
		})
	}
	withEditors(t, func(t *testing.T, serve func(args ...string) string) {
		b := open(t, serve(), 390, 844, true)
		b.wait(`editor("Object")`)
		if kind := b.eval(`editor("Object").kind`); kind != "plain" {
			testViews(t, b, kind+"-phone-dark", true)
		}
	})
}

func testViews(t *testing.T, b *tab, name string, isPhone bool) {
	see := func(view string) {
		t.Helper()
		b.screenshot(name + "-" + view)
		b.accessible(view)
		b.narrow(view)
	}
	b.text("Rejected: an API server would not create this object")
	b.text("pruned: not specified by the schema")
	b.text("defaulted to 1")
	see("playground")
	if isPhone {
		b.run(chromedp.Evaluate(`document.querySelector(".outcome").scrollIntoView()`, nil))
		b.screenshot(name + "-playground-result")
	}
	b.click("Explorer")
	b.click("schedule")
	b.text("Cron schedule with five fields.")
	b.click("replicas")
	b.text("minimum")
	see("explorer")
	b.click("Compare")
	b.text("timeZone")
	see("compare")
	b.click("Lint")
	b.wait(`document.querySelector("#view-lint .banner")`)
	see("lint")
}

// TestPlayground uses the playground, with each editor.
func TestPlayground(t *testing.T) {
	t.Parallel()
	withEditors(t, testPlayground)
}

func testPlayground(t *testing.T, serve func(args ...string) string) {
	b := open(t, serve(), 1440, 900, false)
	editor := b.eval(`editor("Object").kind`)
	b.text("Rejected: an API server would not create this object")
	t.Run("a finding leads to the object and to the schema", func(t *testing.T) {
		b.click("spec.schedule")
		if got := b.eval(`editor("Object").selected()`); got != "0 * * *" {
			t.Errorf("selects %q", got)
		}
		b.click("schema, line")
		b.wait(`editor("CustomResourceDefinitions").focused()`)
	})
	t.Run("a fix is applied", func(t *testing.T) {
		b.click("Rename")
		b.wait(`editor("Object").value().includes("  replicas: 3")`)
	})
	t.Run("a valid object is accepted", func(t *testing.T) {
		b.typeAt("Object", "apiVersion: example.com/v1\nkind: CronTab\nmetadata:\n  name: a\nspec:\n  schedule: 0 1 * * *\n")
		b.text("Accepted: an API server would create this object")
		b.text("defaulted to \"Allow\"")
	})
	t.Run("a broken text keeps the last result", func(t *testing.T) {
		b.typeAt("Object", "apiVersion: example.com/v1\nkind: CronTab\nmetadata:\n  name: a\nspec: [\n")
		b.text("The object cannot be read")
		b.text("The result before:")
		b.text("defaulted to \"Allow\"")
		b.screenshot(editor + "-broken")
		b.typeAt("Object", "apiVersion: example.com/v1\nkind: CronTab\nmetadata:\n  name: a\nspec:\n  schedule: 0 1 * * *\n")
		b.wait(`!document.body.innerText.includes("The result before:")`)
	})
	t.Run("completion", func(t *testing.T) {
		b.typeAt("Object", "apiVersion: example.com/v1\nkind: CronTab\nmetadata:\n  name: a\nspec:\n  schedule: 0 1 * * *\n  ")
		b.run(chromedp.KeyEvent("conc"))
		b.complete("Object", "concurrencyPolicy")
		b.screenshot(editor + "-completion")
		b.accept("Object", "concurrencyPolicy")
		b.wait(`editor("Object").value().includes("  concurrencyPolicy:")`)
	})
	t.Run("completion of values", func(t *testing.T) {
		b.typeAt("Object", "apiVersion: example.com/v1\nkind: CronTab\nmetadata:\n  name: a\nspec:\n  schedule: 0 1 * * *\n  concurrencyPolicy: ")
		b.run(chromedp.KeyEvent("F"))
		b.accept("Object", "Forbid")
		b.wait(`editor("Object").value().trimEnd().endsWith("\n  concurrencyPolicy: Forbid")`)
		b.text("Accepted: an API server would create this object")
	})
	t.Run("a finding is underlined where it is", func(t *testing.T) {
		b.typeAt("Object", "# 🌲 é\napiVersion: example.com/v1\nkind: CronTab\nmetadata: {name: a}\nspec: {schedule: 0 * * *, replicas: 0}\n")
		b.wait(`editor("Object").underlined() === "0 * * *0"`)
	})
	t.Run("hover with the mouse", func(t *testing.T) {
		b.typeAt("Object", "apiVersion: example.com/v1\nkind: CronTab\nmetadata:\n  name: a\nspec:\n  schedule: never\n")
		b.wait(`editor("Object").underlined() === "never"`)
		b.point("Object", "schedule")
		b.wait(`editor("Object").tip().includes("Cron schedule with five fields")`)
		b.point("Object", "never")
		b.wait(`editor("Object").tip().includes("should match")`)
		b.screenshot(editor + "-hover-finding")
		b.run(chromedp.MouseEvent(input.MouseMoved, 3, 3))
	})
	t.Run("update", func(t *testing.T) {
		pick(b, "Update: ratcheting and oldSelf")
		b.text("a volume cannot shrink")
		b.text("would not update this object")
		b.screenshot(editor + "-update")
	})
	t.Run("semantics side by side", func(t *testing.T) {
		pick(b, "Where the two semantics differ")
		b.text("The two schema semantics differ for this object.")
		b.screenshot(editor + "-semantics")
	})
	t.Run("files that are chosen", func(t *testing.T) {
		files := []string{filepath.Join(root, "examples", "crontab", "crd.yaml"), filepath.Join(root, "examples", "crontab", "nightly.yaml")}
		for i := range files {
			var err error
			if files[i], err = filepath.Abs(files[i]); err != nil {
				t.Fatal(err)
			}
		}
		b.run(chromedp.SetUploadFiles("#chooser", files, chromedp.ByQuery, chromedp.NodeReady))
		b.wait(`editor("Object").value().includes("name: nightly")`)
		b.text("Accepted: an API server would")
	})
	t.Run("a new object", func(t *testing.T) {
		b.chooseKind("Deployment (apps/v1)")
		b.wait(`editor("Object").value().startsWith("apiVersion: apps/v1\nkind: Deployment\n")`)
		b.text("Accepted: an API server would create this object")
		b.chooseKind("CronTab (example.com/v1)")
		b.wait(`editor("Object").value().includes("kind: CronTab")`)
	})
	t.Run("built-in kinds", func(t *testing.T) {
		pick(b, "A Deployment of Kubernetes itself")
		b.text("spec.template.spec.containers[0].ports[0].containerPort")
		b.screenshot(editor + "-deployment")
	})
}

// pick chooses an example.
func pick(b *tab, name string) {
	b.t.Helper()
	b.set("#picker", name)
}
