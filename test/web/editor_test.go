package web

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// editorScript lets tests use both editors in the same way. The one with CodeMirror is in a shadow root.
const editorScript = `
window.editors = () => [...document.querySelectorAll(".editor")].map((e) => {
  const area = e.querySelector("textarea");
  if (area) return {
    kind: "plain", label: area.ariaLabel, shown: !!area.offsetParent, area,
    value: () => area.value,
    selected: () => area.value.slice(area.selectionStart, area.selectionEnd),
    focused: () => document.activeElement === area,
    select: (from, to) => { area.focus(); area.setSelectionRange(from, to); },
    replace: (text) => { area.focus(); area.value = text; area.setSelectionRange(text.length, text.length); area.dispatchEvent(new InputEvent("input", {bubbles: true})); },
    completion: () => e.querySelector(".popup:not([hidden]) [aria-selected=true] .label")?.textContent,
    tip: () => e.querySelector(".tip:not([hidden])")?.innerText ?? "",
    underlined: () => [...e.querySelectorAll(".line .error")].map((x) => x.textContent).join(""),
    place: (text) => [...e.querySelectorAll(".line span")].find((x) => x.textContent === text)?.getBoundingClientRect(),
  };
  const root = e.querySelector(".host").shadowRoot;
  const content = root.querySelector(".cm-content");
  const view = content.cmTile.root.view;
  const select = (from, to) => { view.focus(); view.dispatch({selection: {anchor: from, head: to}}); };
  return {
    kind: "codemirror", label: content.ariaLabel, shown: !!e.offsetParent, view,
    value: () => view.state.doc.toString(),
    selected: () => view.state.sliceDoc(view.state.selection.main.from, view.state.selection.main.to),
    focused: () => root.activeElement === content,
    select,
    replace: (text) => {
      select(0, view.state.doc.length);
      if (text === "") return view.dispatch({changes: {from: 0, to: view.state.doc.length}});
      const clipboardData = new DataTransfer();
      clipboardData.setData("text/plain", text);
      content.dispatchEvent(new ClipboardEvent("paste", {clipboardData, bubbles: true, cancelable: true, composed: true}));
    },
    completion: () => root.querySelector(".cm-tooltip-autocomplete:not(.cm-tooltip-autocomplete-disabled) [aria-selected] .cm-completionLabel")?.textContent,
    tip: () => root.querySelector(".cm-about")?.innerText ?? "",
    underlined: () => [...root.querySelectorAll(".cm-lintRange-error")].map((x) => x.textContent).join(""),
    place: (text) => [...root.querySelectorAll(".cm-line span")].find((x) => x.textContent === text)?.getBoundingClientRect(),
  };
});
window.editor = (label) => editors().find((e) => e.shown && e.label === label);
`

// editors are the implementations of the editor, as flags of the build.
var editors = []struct{ name, tags string }{
	{"plain", ""},
	{"codemirror", ",codemirror"},
}

// withEditors runs a test with each implementation of the editor.
func withEditors(t *testing.T, test func(t *testing.T, serve func(args ...string) string)) {
	t.Helper()
	chromium(t)
	for i, e := range editors {
		t.Run(e.name, func(t *testing.T) {
			if _, err := os.Stat(filepath.Join(root, "web", "page", "bundle", "codemirror.js")); err != nil && i > 0 {
				t.Skip("SKIPPED: no CodeMirror: install npm, and run make editor")
			}
			test(t, func(args ...string) string { return serveWith(t, i, args...) })
		})
	}
}

// point moves the mouse to a text in an editor.
func (b *tab) point(label, text string) {
	b.t.Helper()
	place := fmt.Sprintf("editor(%q).place(%q)", label, text)
	b.wait(place)
	var x, y float64
	b.run(chromedp.Evaluate(place+".left + 5", &x), chromedp.Evaluate(place+".top + 8", &y))
	b.run(chromedp.MouseEvent(input.MouseMoved, x-2, y), chromedp.MouseEvent(input.MouseMoved, x, y))
}

// typeAt replaces the text of an editor.
func (b *tab) typeAt(label, text string) {
	b.t.Helper()
	b.wait(fmt.Sprintf("editor(%q)", label))
	b.run(chromedp.Evaluate(fmt.Sprintf("editor(%q).replace(%s)", label, quoted(b.t, text)), nil))
}

// accept accepts the selected completion in the editor of the object with Enter. CodeMirror ignores keys for
// 75 ms after each change of its list, so it must have been the same for longer.
func (b *tab) accept(label string) {
	b.t.Helper()
	selected := fmt.Sprintf(`editor("Object").completion() === %q`, label)
	b.wait(fmt.Sprintf(`(window.since = %s ? window.since || Date.now() : 0) && Date.now() - window.since > 300`, selected))
	b.run(chromedp.Evaluate("window.since = 0", nil), chromedp.KeyEvent(kb.Enter))
}
