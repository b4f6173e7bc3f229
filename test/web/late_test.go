package web

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// chooseKind chooses a kind of a new object, as the mouse does.
func (b *tab) chooseKind(name string) {
	b.t.Helper()
	b.do(`document.querySelector(".kinds").dispatchEvent(new Event("pointerenter"))`)
	option := fmt.Sprintf(`[...document.querySelectorAll(".kinds option")].find((o) => o.textContent === %q)`, name)
	b.wait(option)
	b.do(`{ const s = document.querySelector(".kinds"); s.value = ` + option + `.value; s.dispatchEvent(new Event("change")); }`)
}

// TestLate shows that answers that come late change nothing that was edited meanwhile, with each editor.
func TestLate(t *testing.T) {
	t.Parallel()
	const deployment, namespaced = "Deployment (apps/v1)", "Namespace (v1)"
	withEditors(t, func(t *testing.T, serve func(args ...string) string) {
		b := open(t, serve(), 1440, 900, false)
		b.text("Rejected")
		object := b.eval(`editor("Object").value()`)
		// lint edits the CRDs in another view, and shows what is there when the answers have come.
		lint := func(t *testing.T) {
			t.Helper()
			b.click("Lint")
			b.wait(`document.querySelector("#view-lint .banner")`)
			const text = "# edited\nkind: CustomResourceDefinition\n"
			b.typeAt("CustomResourceDefinitions", text)
			b.release()
			b.has("CustomResourceDefinitions", text)
			b.click("Playground")
			b.has("CustomResourceDefinitions", text)
			b.has("Object", object)
			pick(b, b.eval(`picker.options[1].value`))
			b.wait(`editor("Object").value() === ` + quoted(t, object))
			b.text("Rejected")
		}
		t.Run("a new object, in another view", func(t *testing.T) {
			b.hold("sample")
			b.chooseKind(deployment)
			b.wait(`held.length === 1`)
			lint(t)
		})
		t.Run("a fix, in another view", func(t *testing.T) {
			b.hold("apply")
			b.click("Rename")
			b.wait(`held.length === 1`)
			lint(t)
		})
		t.Run("a new object, after typing", func(t *testing.T) {
			b.hold("sample")
			b.chooseKind(deployment)
			b.wait(`held.length === 1`)
			b.typeAt("Object", namespace("typed"))
			b.release()
			b.has("Object", namespace("typed"))
			b.text("The text has changed: choose the kind again.")
		})
		t.Run("two new objects", func(t *testing.T) {
			b.hold("sample")
			b.chooseKind(deployment)
			b.wait(`held.length === 1`)
			b.chooseKind(namespaced)
			b.wait(`held.length === 2`)
			if got := b.eval(`held.map((h) => h.signal.aborted).join()`); got != "true,false" {
				t.Errorf("the requests are canceled: %s", got)
			}
			b.do(`held.reverse()`)
			b.release()
			b.wait(`editor("Object").value().includes("kind: Namespace")`)
		})
	})
}

// TestLateCRD shows that a CRD of a cluster that comes late does not replace what was typed in another view.
func TestLateCRD(t *testing.T) {
	t.Parallel()
	_, b := newClusterHost(t, accepted)
	b.hold("cluster/crd")
	b.click("Schema")
	b.wait(`held.length === 1`)
	b.click("Playground")
	const text = "# typed\n"
	b.typeAt("CustomResourceDefinitions", text)
	b.release()
	b.has("CustomResourceDefinitions", text)
}

// TestCompletionsFollow shows, with each editor, that completions follow what is typed without another
// request, in the middle of a word, too.
func TestCompletionsFollow(t *testing.T) {
	t.Parallel()
	withEditors(t, func(t *testing.T, serve func(args ...string) string) {
		b := open(t, serve(), 1000, 700, false)
		b.text("Rejected")
		const start = "apiVersion: example.com/v1\nkind: CronTab\nmetadata: {name: a}\n"
		const want = start + "spec:\n  schedule: \"* * * * *\""
		t.Run("at the end", func(t *testing.T) {
			b.typeAt("Object", start)
			b.run(chromedp.KeyEvent("sp"))
			b.complete("Object", "spec")
			b.hold("complete")
			b.run(chromedp.KeyEvent("e"), chromedp.KeyEvent(kb.Enter))
			b.wait(`editor("Object").value().trimEnd() === ` + quoted(t, want))
			b.release()
		})
		t.Run("in a word", func(t *testing.T) {
			b.typeAt("Object", start+"sc")
			b.do(fmt.Sprintf(`editor("Object").select(%d, %[1]d)`, len(start)+1))
			b.run(chromedp.KeyEvent("p"))
			b.complete("Object", "spec")
			b.hold("complete")
			b.run(chromedp.KeyEvent("e"), chromedp.KeyEvent(kb.Enter))
			b.wait(`editor("Object").value().trimEnd() === ` + quoted(t, want))
			b.release()
		})
	})
}

// TestPollAgain shows that a change is not lost if its answer cannot be read.
func TestPollAgain(t *testing.T) {
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
	b.do(`{
  const really = window.fetch;
  window.fetch = async (path, options) => {
    const response = await really(path, options);
    if (window.broken || !String(path).endsWith("api/workspace") || response.status !== 200) return response;
    window.broken = true;
    return new Response("{", {headers: response.headers});
  };
}`)
	write("second")
	b.wait(`window.broken`)
	b.wait(`editor("Object").value().includes("name: second")`)
}

// TestPollFails shows that a failure is reported once, so that a screen reader does not repeat it.
func TestPollFails(t *testing.T) {
	t.Parallel()
	h, b := newClusterHost(t, accepted)
	b.do(`window.said = []; new MutationObserver(() => said.push(message.textContent)).observe(document.getElementById("message"), {childList: true, characterData: true, subtree: true})`)
	h.change(func() { h.status = http.StatusInternalServerError })
	b.text("espalier ui answers 500")
	before := h.count("cluster")
	for end := time.Now().Add(20 * time.Second); h.count("cluster") < before+3 && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
	}
	if got := b.eval(`said.length + " " + said[0]`); !strings.HasPrefix(got, "1 ") {
		t.Errorf("the message is shown again: %s", got)
	}
	h.change(func() { h.status = 0 })
	b.wait(`message.textContent === ""`)
	h.change(func() { h.status = http.StatusInternalServerError })
	b.text("espalier ui answers 500")
	b.mu.Lock()
	defer b.mu.Unlock()
	b.problems = slices.DeleteFunc(b.problems, func(p string) bool { return strings.Contains(p, "500") })
}

// TestFocusStays shows that what replaces a part of the page keeps the focus of the keyboard.
func TestFocusStays(t *testing.T) {
	t.Parallel()
	b := open(t, serve(t), 1440, 900, false)
	b.text("Rejected")
	// focused presses a key, and waits until an expression about document.activeElement is true.
	focused := func(key, expression string) {
		t.Helper()
		b.run(chromedp.KeyEvent(key))
		b.wait(`(() => { const at = document.activeElement; return ` + expression + `; })()`)
	}
	focus := func(selector, text string) {
		t.Helper()
		find := fmt.Sprintf(`[...document.querySelectorAll(%q)].find((e) => e.textContent.startsWith(%q))`, selector, text)
		b.wait(find)
		b.do(find + `.focus()`)
	}
	b.visit(link(t, map[string]any{"view": "explorer", "crds": versionsCRD, "query": "low"}))
	t.Run("a match and the way back", func(t *testing.T) {
		focus(".matches .path", "spec.limits.low")
		focused(kb.Enter, `at.querySelector(".name")?.textContent === "low"`)
		focus("#explorer-panel button", "← Back")
		focused(kb.Enter, `at.textContent === "spec.limits.low"`)
	})
	t.Run("a tab", func(t *testing.T) {
		focus("[role=tab]", "Skeleton")
		focused(" ", `at.id === "tab-skeleton" && at.ariaSelected === "true" && document.querySelector("#explorer-panel pre")`)
		focused(kb.Home, `at.id === "tab-skeleton"`)
	})
	t.Run("more fields", func(t *testing.T) {
		b.visit(link(t, map[string]any{"view": "explorer", "crds": wideCRD(), "tab": "tree", "query": ""}))
		focus(".more", "400 more fields")
		focused(kb.Enter, `at.querySelector(".name")?.textContent === "field300"`)
	})
	t.Run("the page of a rule", func(t *testing.T) {
		b.visit(link(t, map[string]any{"view": "lint", "crds": strings.ReplaceAll(versionsCRD, "{type: string}", "{type: string, format: date-tim}")}))
		focus("#view-lint button.rule", "unknown-format")
		focused(kb.Enter, `at.textContent === "Close"`)
		focused(kb.Enter, `at.textContent === "unknown-format" && document.querySelector("#view-lint .page").hidden`)
	})
	t.Run("kinds", func(t *testing.T) {
		pick(b, b.eval(`picker.options[1].value`))
		b.click("Playground")
		b.do(`document.querySelector(".kinds").focus()`)
		b.wait(`document.querySelectorAll(".kinds option").length > 20`)
		before := b.eval(`editor("Object").value()`)
		focused(kb.ArrowDown, `at.className === "kinds" && at.selectedIndex === 1 && editor("Object").value() !== `+quoted(t, before))
		first := b.eval(`editor("Object").value()`)
		focused(kb.ArrowDown, `at.className === "kinds" && at.selectedIndex === 2 && editor("Object").value() !== `+quoted(t, first))
		focused(kb.Tab, `at.id === "update"`)
		if got := b.eval(`document.querySelector(".kinds").value`); got != "" {
			t.Errorf("the list shows %q: the kind cannot be chosen again", got)
		}
	})
}

// TestFilesLate shows that files that are read late do not replace others, nor what was typed meanwhile, and
// that files without documents change nothing.
func TestFilesLate(t *testing.T) {
	t.Parallel()
	b := open(t, serve(t), 1000, 700, false)
	b.text("Rejected")
	dir := t.TempDir()
	choose := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name+".yaml")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		b.run(chromedp.SetUploadFiles("#chooser", []string{path}, chromedp.ByQuery, chromedp.NodeReady))
	}
	const empty = "The files have no documents."
	example := b.eval("picker.value")
	choose("empty", "")
	b.text(empty)
	if got := b.eval("picker.value"); got != example {
		t.Errorf("after files without documents, %q is chosen, not %q", got, example)
	}
	b.do(`{
  const really = File.prototype.text;
  window.waiting = [];
  File.prototype.text = async function () {
    if (this.name === "slow.yaml") await new Promise((resolve) => waiting.push(resolve));
    return really.call(this);
  };
}`)
	// late starts to read a file, and returns a function that ends it.
	late := func() func() {
		t.Helper()
		choose("slow", namespace("slow"))
		b.wait(`waiting.length === 1`)
		return func() {
			t.Helper()
			b.do(`waiting.pop()()`)
			b.run(chromedp.Sleep(200 * time.Millisecond))
		}
	}
	end := late()
	choose("fast", namespace("fast"))
	b.wait(`editor("Object").value().includes("fast")`)
	end()
	b.has("Object", namespace("fast"))
	end = late()
	b.typeAt("Object", namespace("typed"))
	end()
	b.has("Object", namespace("typed"))
	b.text("The text has changed: open the files again.")
}

// TestDescribed shows, with each editor, that screen readers learn of the documentation that is asked for with
// the keyboard.
func TestDescribed(t *testing.T) {
	t.Parallel()
	withEditors(t, func(t *testing.T, serve func(args ...string) string) {
		b := open(t, serve(), 1000, 700, false)
		b.typeAt("Object", "apiVersion: example.com/v1\nkind: CronTab\nmetadata:\n  name: a\nspec:\n  replicas: 0\n")
		b.do(`{ const e = editor("Object"); const at = e.value().indexOf("replicas") + 2; e.select(at, at); }`)
		b.run(chromedp.KeyEvent(" ", chromedp.KeyModifiers(input.ModifierCtrl|input.ModifierShift)))
		const described = `((e) => e.kind === "plain" ? document.getElementById(e.area.getAttribute("aria-describedby"))?.innerText : e.view.dom.querySelector(".cm-announced").textContent)(editor("Object"))`
		b.wait(described + `?.includes("Number of concurrent runs")`)
		b.run(chromedp.KeyEvent(kb.Escape))
		b.wait(`editor("Object").tip() === "" && !editor("Object").area?.hasAttribute("aria-describedby")`)
	})
}

// TestClusterFocus shows that the focus goes to an object of a cluster, and back to its row.
func TestClusterFocus(t *testing.T) {
	t.Parallel()
	_, b := newClusterHost(t, accepted)
	b.do(`[...document.querySelectorAll("td button")].find((e) => e.textContent === "second").focus()`)
	b.run(chromedp.KeyEvent(kb.Enter))
	b.wait(`document.activeElement.textContent === "← Objects"`)
	b.run(chromedp.KeyEvent(kb.Enter))
	b.wait(`document.activeElement.textContent === "second" && document.activeElement.closest("td")`)
}

// TestStaleRules shows, with each editor, that marks of rules do not stay where another text is, and that
// rules do not lead there.
func TestStaleRules(t *testing.T) {
	t.Parallel()
	withEditors(t, func(t *testing.T, serve func(args ...string) string) {
		b := open(t, serve(), 1440, 900, false)
		b.text("Rejected")
		b.visit(link(t, map[string]any{"view": "playground", "crds": costlyCRD, "object": "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: a}\nspec: {size: 1, list: [{name: b}]}\n"}))
		b.text("an API server rejects this CRD")
		const marked = `editor("CustomResourceDefinitions").underlined()`
		b.wait(marked + `.includes("rule")`)
		b.typeAt("CustomResourceDefinitions", "# moved\n"+costlyCRD+": [\n")
		b.text("The CRDs cannot be read")
		b.wait(marked + `.includes("maxLength: 63")`)
		if got := b.eval(marked); strings.Contains(got, "rule") || strings.Contains(got, "self") {
			t.Errorf("%q is marked", got)
		}
		b.do(`[...document.querySelectorAll(".rules .path")][0].click()`)
		b.text("The text has changed")
		b.typeAt("CustomResourceDefinitions", costlyCRD)
		b.wait(marked + `.includes("rule")`)
	})
}
