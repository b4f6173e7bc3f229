package web

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestSession shows that the token leaves the address bar, that it survives a reload, and that the link
// to the content keeps what was typed.
func TestSession(t *testing.T) {
	t.Parallel()
	chromium(t)
	link := serve(t)
	b := open(t, link, 1440, 900, false)
	b.text("Rejected")
	if at := b.eval(`location.href + document.cookie`); strings.Contains(at, "token") {
		t.Errorf("the token is in %s", at)
	}
	b.run(chromedp.Reload())
	b.text("Rejected")
	b.typeAt("Object", "apiVersion: example.com/v1\nkind: CronTab\nmetadata:\n  name: typed\nspec:\n  schedule: 0 1 * * *\n")
	b.text("Accepted")
	b.run(chromedp.Evaluate(`document.querySelector(".skip").click()`, nil))
	b.wait(`location.hash === "#main"`)
	b.promise(`new Promise((r) => setTimeout(r, 500))`, nil)
	if got := b.eval(`editor("Object").value().includes("name: typed")`); got != "true" {
		t.Error("the link to the content discards what was typed")
	}
}
