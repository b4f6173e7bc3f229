package web

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// intercept answers the requests with a name with a function of JavaScript. It gets the signal of the
// request, and a function that sends the request.
func (b *tab) intercept(name, answer string) {
	b.t.Helper()
	b.do(`
window.reallyFetch ??= window.fetch;
window.fetch = (path, options) => String(path).endsWith(` + quoted(b.t, "api/"+name) + `)
  ? (` + answer + `)(options.signal, () => reallyFetch(path, {...options, signal: undefined}))
  : reallyFetch(path, options);
undefined`)
}

// hold keeps the requests with a name in held. One that is canceled fails at once.
func (b *tab) hold(name string) {
	b.t.Helper()
	b.do(`window.held = []; undefined`)
	b.intercept(name, `(signal, send) => new Promise((resolve, reject) => {
  signal?.addEventListener("abort", () => reject(new DOMException("canceled", "AbortError")));
  held.push({signal, answer: () => send().then(resolve)});
})`)
}

// holdCanceled is hold for requests that are answered even if they are canceled, as when the answer comes first.
func (b *tab) holdCanceled(name string) {
	b.t.Helper()
	b.do(`window.held = []; undefined`)
	b.intercept(name, `(signal, send) => new Promise((resolve) => held.push({signal, answer: () => send().then(resolve)}))`)
}

// release sends the requests that are held, and waits until the page has drawn what comes.
func (b *tab) release() {
	b.t.Helper()
	b.promise(`(async () => {
  window.fetch = reallyFetch;
  await Promise.all(held.map((h) => h.answer()));
  await new Promise((r) => setTimeout(r, 100));
  await new Promise(requestAnimationFrame);
})()`, nil)
}

// namespace returns an object that is accepted.
func namespace(name string) string {
	return "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: " + name + "\n"
}

// has fails the test if an editor does not have a text.
func (b *tab) has(label, text string) {
	b.t.Helper()
	if got := b.eval(fmt.Sprintf("editor(%q).value()", label)); got != text {
		b.t.Errorf("the text is %q, want %q", got, text)
	}
}

// TestEditsStay shows that neither broken links nor the way back in the history discard what was typed.
func TestEditsStay(t *testing.T) {
	t.Parallel()
	b := open(t, serve(t), 1000, 700, false)
	b.text("Rejected")
	t.Run("a broken link", func(t *testing.T) {
		b.typeAt("Object", namespace("typed"))
		b.shows("the link is not complete", func() { b.visit("#s=$$$") })
		b.has("Object", namespace("typed"))
	})
	t.Run("a link in the history", func(t *testing.T) {
		b.visit(link(t, map[string]any{"object": namespace("linked")}))
		b.wait(`editor("Object").value().includes("linked")`)
		b.typeAt("Object", namespace("later"))
		b.do(`document.querySelector(".skip").click()`)
		b.wait(`location.hash === "#main"`)
		b.shows("Your changes are kept", func() { b.do(`history.back()`) })
		b.has("Object", namespace("later"))
	})
	t.Run("a link that is pasted", func(t *testing.T) {
		b.visit(link(t, map[string]any{"object": namespace("pasted")}))
		b.wait(`editor("Object").value().includes("pasted")`)
		b.visit(link(t, map[string]any{"object": namespace("other")}))
		b.wait(`editor("Object").value().includes("other")`)
		b.do(`history.back()`)
		b.wait(`editor("Object").value().includes("pasted")`)
	})
	t.Run("typed while a link was read", func(t *testing.T) {
		text := namespace("meanwhile")
		b.do(`addEventListener("hashchange", () => editor("Object").replace(` + quoted(t, text) + `), {once: true})`)
		b.shows("Your changes are kept", func() { b.visit(link(t, map[string]any{"object": namespace("read")})) })
		b.do(`document.querySelector(".skip").click()`)
		b.wait(`location.hash === "#main"`)
		b.shows("Your changes are kept", func() { b.do(`history.back()`) })
		b.has("Object", text)
	})
	t.Run("the same example again", func(t *testing.T) {
		pick(b, "Where the two semantics differ")
		b.wait(`editor("Object").value().includes("name: demo")`)
		b.typeAt("Object", namespace("typed"))
		if got := b.eval(`picker.value + picker.selectedOptions[0].textContent`); got != "Choose an example…" {
			t.Errorf("the picker shows %q: it cannot be chosen again", got)
		}
		pick(b, "Where the two semantics differ")
		b.wait(`editor("Object").value().includes("name: demo")`)
	})
}

// TestLeave shows that the browser asks before it discards what was typed, unless a link has it.
func TestLeave(t *testing.T) {
	t.Parallel()
	b := open(t, serve(t), 1000, 700, false)
	b.text("Rejected")
	page := b.eval(`location.href`)
	b.run(chromedp.Navigate("about:blank"), chromedp.Navigate(page))
	b.text("Rejected")
	// Browsers do not ask if the user has done nothing on the page.
	b.do(`editor("Object").select(0, 0)`)
	b.run(chromedp.KeyEvent("x"))
	b.wait(`editor("Object").value().startsWith("x#")`)
	for _, script := range []string{"location.reload()", "history.back()"} {
		b.asked(false, script)
		b.wait(`editor("Object").value().startsWith("x#")`)
	}
	b.click("Share")
	b.wait(`location.hash.startsWith("#s=")`)
	b.run(chromedp.Reload())
	b.wait(`editor("Object").value().startsWith("x#")`)
	b.do(`editor("Object").select(0, 0)`)
	b.run(chromedp.KeyEvent("x"))
	b.wait(`editor("Object").value().startsWith("xx")`)
	b.asked(true, "location.reload()")
	b.wait(`editor("Object").value().startsWith("x#")`)
}

// TestDirectoryMissing shows that the files of a directory that do not fit are named, as long as they are missing.
func TestDirectoryMissing(t *testing.T) {
	t.Parallel()
	chromium(t)
	dir := t.TempDir()
	large := namespace("large") + "  annotations: {a: " + strings.Repeat("a", 3<<20) + "}\n"
	for name, text := range map[string]string{"a.yaml": namespace("small"), "b.yaml": large, "c.yaml": large} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b := open(t, serve(t, dir), 1000, 700, false)
	const missing = "4 MiB of manifests are shown, without c.yaml"
	b.text(missing)
	b.shows("the link is not complete", func() { b.visit("#s=$$$") })
	if got := b.eval(`document.body.innerText`); !strings.Contains(got, missing) {
		t.Errorf("the page does not show %q after another message: %s", missing, got)
	}
	if err := os.Remove(filepath.Join(dir, "b.yaml")); err != nil {
		t.Fatal(err)
	}
	b.wait(`!document.body.innerText.includes("of manifests are shown")`)
}

// TestDirectoryEdits shows that the files of a directory can be chosen after a link was opened, and again.
func TestDirectoryEdits(t *testing.T) {
	t.Parallel()
	chromium(t)
	dir := t.TempDir()
	write := func(name string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "object.yaml"), []byte(namespace(name)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("first")
	b := open(t, serve(t, dir), 1000, 700, false)
	b.wait(`editor("Object").value().includes("name: first")`)
	b.visit(link(t, map[string]any{"object": namespace("linked")}))
	b.wait(`editor("Object").value().includes("linked")`)
	if got := b.eval(`[...picker.options].map((o) => o.textContent).join()`); got != "Choose an object of the directory…,object.yaml" {
		t.Errorf("the picker has %s", got)
	}
	b.shows("The files have changed: choose one to load it again.", func() { write("second") })
	b.has("Object", namespace("linked"))
	if got := b.eval(`picker.value`); got != "" {
		t.Errorf("%s cannot be chosen again", got)
	}
	pick(b, "object.yaml")
	b.wait(`editor("Object").value().includes("name: second")`)
}

// TestCompletionsMove shows that completions close when the cursor moves.
func TestCompletionsMove(t *testing.T) {
	t.Parallel()
	b := open(t, serve(t), 1000, 700, false)
	b.text("Rejected")
	const start = "apiVersion: example.com/v1\nkind: CronTab\nmetadata: {name: a}\n"
	for name, key := range map[string]string{"Left": kb.ArrowLeft, "Right": kb.ArrowRight, "Home": kb.Home, "End": kb.End} {
		b.typeAt("Object", start)
		b.run(chromedp.KeyEvent("sp"))
		b.complete("Object", "spec")
		b.run(chromedp.KeyEvent(key))
		if got := b.eval(`editor("Object").completion()`); got != "undefined" {
			t.Errorf("after %s, %s is shown", name, got)
		}
	}
}

// TestUndo shows that an editor forgets its history with another example.
func TestUndo(t *testing.T) {
	t.Parallel()
	withEditors(t, func(t *testing.T, serve func(args ...string) string) {
		b := open(t, serve(), 1000, 700, false)
		b.text("Rejected")
		undo := func() {
			t.Helper()
			b.do(`{ const e = editor("Object"); e.select(0, 0); if (e.kind === "plain") document.execCommand("undo"); }`)
			if b.eval(`editor("Object").kind`) != "plain" {
				b.run(chromedp.KeyEvent("z", chromedp.KeyModifiers(input.ModifierCtrl)))
			}
		}
		before := b.eval(`editor("Object").value()`)
		b.do(`editor("Object").select(0, 0)`)
		b.run(chromedp.KeyEvent("#"))
		b.wait(`editor("Object").value().startsWith("#")`)
		undo()
		b.has("Object", before)
		b.do(`editor("Object").select(0, 9)`)
		b.run(chromedp.KeyEvent(kb.Backspace))
		b.wait(`editor("Object").value() === ` + quoted(t, before[9:]))
		pick(b, "A Deployment of Kubernetes itself")
		b.wait(`editor("Object").value().includes("kind: Deployment")`)
		picked := b.eval(`editor("Object").value()`)
		undo()
		b.has("Object", picked)
	})
}

// TestCancel shows that typing cancels a check at once, with each editor.
func TestCancel(t *testing.T) {
	t.Parallel()
	withEditors(t, func(t *testing.T, serve func(args ...string) string) {
		b := open(t, serve(), 1000, 700, false)
		b.text("Rejected")
		b.hold("check")
		b.typeAt("Object", namespace("first"))
		b.wait(`held.length === 1`)
		if got := b.eval(`(editor("Object").replace("kind: Other\n"), held[0].signal.aborted)`); got != "true" {
			t.Error("the check of the text before continues")
		}
		b.release()
	})
}

// TestDragText shows that the page leaves text that is dragged to the editors.
func TestDragText(t *testing.T) {
	t.Parallel()
	b := open(t, serve(t), 1000, 700, false)
	b.text("Rejected")
	if got := b.eval(`["dragover", "drop"].filter((kind) => {
  const dataTransfer = new DataTransfer();
  dataTransfer.setData("text/plain", "text");
  return !editor("Object").area.dispatchEvent(new DragEvent(kind, {dataTransfer, bubbles: true, cancelable: true}));
}).join()`); got != "" {
		t.Errorf("the page handles %s of text", got)
	}
}
