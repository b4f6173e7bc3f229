package web

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// editorScript lets tests use both editors in the same way, and see what disappears. The editor with CodeMirror is in a shadow root.
const editorScript = `
// expect adds a text to seen as soon as an element changes and shows it.
window.seen = new Set();
window.expect = (text) => {
  seen.delete(text);
  const observer = new MutationObserver((records) => {
    const changed = new Set(records.map((r) => r.target instanceof Text ? r.target.parentElement : r.target));
    if (![...changed].some((e) => e?.checkVisibility() && e.innerText.includes(text))) return;
    seen.add(text);
    observer.disconnect();
  });
  observer.observe(document.body, {subtree: true, childList: true, characterData: true});
};
// shown returns where the first of elements with a text is, if it is in the visible part of an editor.
const shown = (editor, elements, text) => {
  const all = editor.getBoundingClientRect();
  const at = [...elements].find((x) => x.textContent === text)?.getBoundingClientRect();
  return at && at.top >= all.top && at.bottom <= all.bottom ? at : undefined;
};
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
    scroll: (offset) => { area.scrollTop = area.value.slice(0, offset).split("\n").length * 20 - area.clientHeight / 2; },
    place: (text) => shown(area, e.querySelectorAll(".line span"), text),
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
    scroll: (offset) => view.dispatch({effects: view.constructor.scrollIntoView(offset, {y: "center"})}),
    place: (text) => shown(view.scrollDOM, root.querySelectorAll(".cm-line span"), text),
  };
});
window.editor = (label) => editors().find((e) => e.shown && e.label === label);
`

// editors are the implementations of the editor, with the flavor of espalier that has it.
var editors = []struct{ name, program string }{
	{"plain", "espalier-cli"},
	{"codemirror", "espalier-editor"},
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
	// An editor that was scrolled is drawn with the next frame. The event that comes with it hides what is shown.
	var at, before []float64
	for end := time.Now().Add(30 * time.Second); at == nil || !slices.Equal(at, before); {
		if time.Now().After(end) {
			b.t.Fatalf("%q does not stay at the same place: %v, %v", text, before, at)
		}
		before, at = at, nil
		b.frames()
		b.run(chromedp.Evaluate(`(() => { const at = `+place+`; return at ? [at.left + 5, at.top + 8] : null; })()`, &at))
	}
	b.run(chromedp.MouseEvent(input.MouseMoved, at[0]-2, at[1]), chromedp.MouseEvent(input.MouseMoved, at[0], at[1]))
}

// typeAt replaces the text of an editor.
func (b *tab) typeAt(label, text string) {
	b.t.Helper()
	b.wait(fmt.Sprintf("editor(%q)", label))
	b.run(chromedp.Evaluate(fmt.Sprintf("editor(%q).replace(%s)", label, quoted(b.t, text)), nil))
	// The event that tells that the editor was scrolled comes with the next frame, and closes completions.
	b.frames()
}

// complete waits until a completion is selected in an editor. CodeMirror ignores keys for 75 ms after its list
// opens, so it must have been selected for longer. Its list is also disabled from each keystroke to the next
// answer: nothing is selected then.
func (b *tab) complete(label, item string) {
	b.t.Helper()
	selected := fmt.Sprintf(`editor(%q).completion() === %q`, label, item)
	b.wait(fmt.Sprintf(`(window.since = %s ? window.since || Date.now() : 0) && Date.now() - window.since > 300`, selected))
	b.do("window.since = 0")
}

// accept accepts the selected completion in an editor with Enter.
func (b *tab) accept(label, item string) {
	b.t.Helper()
	b.complete(label, item)
	b.run(chromedp.KeyEvent(kb.Enter))
}
