package web

import (
	"context"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// tabTo presses Tab until an expression about document.activeElement is true.
func (b *tab) tabTo(expression string) {
	b.t.Helper()
	for range 60 {
		if b.eval("!!(() => { const at = document.activeElement; return "+expression+"; })()") == "true" {
			return
		}
		b.run(chromedp.KeyEvent(kb.Tab))
	}
	b.screenshot("failed")
	b.t.Fatalf("Tab does not reach %s", expression)
}

// TestKeyboard uses the page without a mouse, with each editor.
func TestKeyboard(t *testing.T) {
	t.Parallel()
	withEditors(t, func(t *testing.T, serve func(args ...string) string) {
		b := open(t, serve(), 1440, 900, false)
		b.text("Rejected")
		t.Run("skip to the content", func(t *testing.T) {
			b.tabTo(`at.classList.contains("skip") && at.getBoundingClientRect().left >= 0`)
		})
		t.Run("a finding, its schema, its fix", func(t *testing.T) {
			b.tabTo(`at.textContent === "spec.schedule"`)
			b.run(chromedp.KeyEvent(kb.Enter))
			b.wait(`editor("Object").focused() && editor("Object").selected() === "0 * * *"`)
			b.tabTo(`at.textContent.startsWith("Rename")`)
			b.run(chromedp.KeyEvent(kb.Enter))
			b.wait(`editor("Object").value().includes("  replicas: 3")`)
		})
		t.Run("the views", func(t *testing.T) {
			b.do(`document.querySelector(".skip").focus()`)
			b.tabTo(`at.textContent === "Explorer"`)
			if got := b.eval(`getComputedStyle(document.activeElement).outlineStyle`); got != "solid" {
				t.Errorf("the focus is not visible: %s", got)
			}
			b.run(chromedp.KeyEvent(kb.Enter))
			b.wait(`document.querySelector("#explorer-panel details")`)
		})
		t.Run("the tabs", func(t *testing.T) {
			b.tabTo(`at.id === "tab-tree"`)
			b.run(chromedp.KeyEvent(kb.ArrowRight))
			b.wait(`document.activeElement.id === "tab-sample" && document.querySelector("#explorer-panel pre")?.textContent.includes("kind: CronTab")`)
			b.run(chromedp.KeyEvent(kb.ArrowLeft))
			b.wait(`document.activeElement.id === "tab-tree"`)
		})
		t.Run("the tree", func(t *testing.T) {
			b.tabTo(`at.querySelector?.(".name")?.textContent === "replicas"`)
			b.run(chromedp.KeyEvent(kb.Enter))
			b.wait(`document.activeElement.parentElement.open && document.activeElement.parentElement.innerText.includes("minimum")`)
		})
	})
}

// printed checks how a view is printed: dark on white, no wider than the paper, and nothing to click.
func (b *tab) printed(view string, hidden []string) {
	t := b.t
	t.Helper()
	media := func(name string) {
		b.run(emulation.SetEmulatedMedia().WithMedia(name).WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}}))
	}
	media("print")
	b.screenshot("print-" + view)
	for _, name := range append([]string{".editor", ".fix", ".tabs"}, hidden...) {
		if got := b.eval(`[...document.querySelectorAll("#view-` + view + ` ` + name + `, .top nav, .settings")].filter(e => e.offsetParent).length`); got != "0" {
			t.Errorf("%s: %s is printed", view, name)
		}
	}
	if got := b.eval(`getComputedStyle(document.body).color + " " + getComputedStyle(document.documentElement).getPropertyValue("--panel")`); got != "rgb(0, 0, 0) #ffffff" {
		t.Errorf("%s: colors %s", view, got)
	}
	b.narrow(view + " on paper")
	// What is scrolled on the screen would be cut off.
	if got := b.eval(`[...document.querySelectorAll("#view-` + view + ` *")].filter(e => e.offsetParent && getComputedStyle(e).overflowY === "auto" && e.scrollHeight > e.clientHeight + 1).map(e => e.className).join()`); got != "" {
		t.Errorf("%s: %s is cut off", view, got)
	}
	var pdf []byte
	b.run(chromedp.ActionFunc(func(ctx context.Context) (err error) {
		pdf, _, err = page.PrintToPDF().Do(ctx)
		return err
	}))
	if pages := strings.Count(string(pdf), "/Type /Page\n"); pages == 0 || pages > 3 {
		t.Errorf("%s: %d pages", view, pages)
	}
	media("screen")
}

// TestPrint shows what is printed: results.
func TestPrint(t *testing.T) {
	t.Parallel()
	b := open(t, serve(t), 1440, 900, true)
	b.text("Rejected")
	b.printed("playground", nil)
	b.click("Explorer")
	b.click("schedule")
	b.text("Cron schedule with five fields.")
	b.printed("explorer", nil)
	b.click("Compare")
	b.text("timeZone")
	b.printed("compare", nil)
	b.click("Lint")
	b.wait(`document.querySelector("#view-lint .banner")`)
	b.printed("lint", nil)
}
