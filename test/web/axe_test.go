package web

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"
)

// axeSource is the text of axe-core, which npm ci installs. It is empty if it is not there.
var axeSource = sync.OnceValue(func() string {
	text, err := os.ReadFile(filepath.Join("node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		return ""
	}
	return string(text)
})

// violation is what axe-core finds.
type violation struct {
	ID, Impact, Help string
	Nodes            []struct{ HTML, FailureSummary string }
}

// serious reports whether it keeps people from using the page.
func (v *violation) serious() bool { return v.Impact == "serious" || v.Impact == "critical" }

// axe returns what axe-core finds in what the page shows. It reports false if there is no axe-core.
func (b *tab) axe(where string) (found []violation, ok bool) {
	b.t.Helper()
	source := axeSource()
	if source == "" {
		b.t.Logf("SKIPPED: accessibility of %s: no axe-core: install npm, and run npm ci in test/web", where)
		return nil, false
	}
	var report string
	b.do(source + "; undefined")
	b.promise(`axe.run(document, {resultTypes: ["violations"]}).then(r => JSON.stringify(r.violations))`, &report)
	if err := json.Unmarshal([]byte(report), &found); err != nil {
		b.t.Fatal(err)
	}
	return found, true
}

// accessible fails the test if axe-core finds a serious problem in what the page shows.
func (b *tab) accessible(where string) {
	b.t.Helper()
	found, _ := b.axe(where)
	for _, f := range found {
		if !f.serious() {
			b.t.Logf("%s: %s: %s: %s", where, f.Impact, f.ID, f.Help)
			continue
		}
		for _, n := range f.Nodes[:min(len(f.Nodes), 3)] {
			b.t.Errorf("%s: %s: %s: %.200s: %s", where, f.Impact, f.ID, n.HTML, strings.ReplaceAll(n.FailureSummary, "\n", " "))
		}
	}
}

// TestAxe shows that a button without a name is found.
func TestAxe(t *testing.T) {
	t.Parallel()
	b := open(t, serve(t), 1000, 700, false)
	b.text("Rejected")
	b.run(chromedp.Evaluate(`document.querySelector("main").appendChild(document.createElement("button"))`, nil))
	found, ok := b.axe("a button")
	if !ok {
		t.Skip("SKIPPED: no axe-core: install npm, and run npm ci in test/web")
	}
	if !slices.ContainsFunc(found, func(v violation) bool { return v.ID == "button-name" && v.serious() }) {
		t.Errorf("found %+v", found)
	}
}
