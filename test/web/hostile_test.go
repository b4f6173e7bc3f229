package web

import (
	"bytes"
	"compress/flate"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// script is a text that runs if it is ever taken for markup.
const script = `<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>`

// hostileCRD has scripts in all of its texts.
const hostileCRD = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: 'things.example.com'
  annotations: {"a": 'SCRIPT'}
spec:
  group: example.com
  scope: Cluster
  names: {kind: Thing, plural: things, shortNames: ['SCRIPT']}
  versions:
  - name: v1
    served: true
    storage: true
    deprecated: true
    deprecationWarning: 'SCRIPT'
    schema:
      openAPIV3Schema:
        type: object
        description: 'SCRIPT'
        properties:
          spec:
            type: object
            description: '# SCRIPT [SCRIPT](javascript:window.hacked=1) **SCRIPT** ` + "`SCRIPT`" + `'
            required: ['SCRIPT']
            x-kubernetes-validations:
            - {rule: 'self.size > 1', message: 'SCRIPT'}
            properties:
              'SCRIPT': {type: string, default: 'SCRIPT', enum: ['SCRIPT'], description: 'SCRIPT'}
              size: {type: integer, format: 'SCRIPT', title: 'SCRIPT'}
              text: {type: string, pattern: 'SCRIPT', example: 'SCRIPT'}
`

const hostileObject = `apiVersion: example.com/v1
kind: Thing
metadata:
  name: 'SCRIPT'
spec:
  size: 0
  text: 'SCRIPT'
  'xSCRIPT': 'SCRIPT'
`

// link returns the fragment of a link that shares a state.
func link(t *testing.T, state any) string {
	t.Helper()
	text, err := json.Marshal(state)
	if err != nil {
		t.Fatal(err)
	}
	return "#s=" + packed(t, text)
}

func packed(t *testing.T, text []byte) string {
	t.Helper()
	var out bytes.Buffer
	w, err := flate.NewWriter(&out, flate.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return base64.RawURLEncoding.EncodeToString(out.Bytes())
}

// visit opens a fragment in a tab that is logged in.
func (b *tab) visit(fragment string) {
	b.t.Helper()
	b.run(chromedp.Evaluate(`location.hash = `+quoted(b.t, fragment), nil))
}

func quoted(t *testing.T, s string) string {
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestScripts shows that no text of a CRD, of an object or of a link is ever run.
func TestScripts(t *testing.T) {
	t.Parallel()
	b := open(t, serve(t), 1440, 900, false)
	b.text("Rejected")
	in := func(s string) string { return strings.ReplaceAll(s, "SCRIPT", script) }
	for _, view := range []string{"playground", "explorer", "compare", "lint", script} {
		b.visit(link(t, map[string]any{"view": view, "crds": in(hostileCRD), "object": in(hostileObject), "before": in(strings.Replace(hostileCRD, "size:", "sizes:", 1)), "semantics": script, "update": script, "old": 7}))
		b.wait(`document.querySelector("main > div:not([hidden])").innerText.includes("onerror")`)
		if view == "explorer" {
			for _, tab := range []string{"Full sample", "Skeleton", "Structural", "OpenAPI v2", "OpenAPI v3", "JSON Schema", "Go", "Protobuf", "TypeScript"} {
				b.click(tab)
				b.wait(`document.querySelector("#explorer-panel pre, #explorer-panel .finding, #explorer-panel .banner")`)
			}
			b.click("Fields")
			b.wait(`document.querySelector("#explorer-panel details")`)
		}
		b.screenshot("scripts-" + strings.Map(func(r rune) rune {
			if r >= 'a' && r <= 'z' {
				return r
			}
			return -1
		}, view)[:4])
		if got := b.eval(`document.querySelectorAll("main img, main script, iframe").length + " " + window.hacked`); got != "0 undefined" {
			t.Errorf("%s: %s", view, got)
		}
	}
}

// TestLinks shows that broken and huge links are answered with a message.
func TestLinks(t *testing.T) {
	t.Parallel()
	b := open(t, serve(t), 1000, 700, false)
	b.text("Rejected")
	for _, c := range []struct{ link, message string }{
		{packed(t, bytes.Repeat([]byte(" "), 64<<20)), "what the link contains is too large"},
		{"$$$", "the link is not complete"},
		{"AAAA", "the link is not complete"},
	} {
		b.shows(c.message, func() { b.visit("#s=" + c.link) })
	}
	b.visit(link(t, []int{1}))
	b.visit(link(t, map[string]any{"crds": "", "object": "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: shared\n"}))
	b.text("Accepted: an API server would create this object")
}

// TestShareLimit shows that a state that no browser opens as a link is not shared.
func TestShareLimit(t *testing.T) {
	t.Parallel()
	b := open(t, serve(t), 1000, 700, false)
	b.text("Rejected")
	b.do(`editor("Object").replace(Array.from({length: 200}, () => "# " + btoa(String.fromCharCode(...crypto.getRandomValues(new Uint8Array(4000))))).join("\n"))`)
	b.shows("The texts are too large for a link", func() { b.click("Share") })
	if got := b.eval("location.hash"); got != "" {
		t.Errorf("the address bar has %.20s", got)
	}
}

// TestDirectory shows the files of a directory, and what changes in them.
func TestDirectory(t *testing.T) {
	t.Parallel()
	chromium(t)
	dir := t.TempDir()
	for _, name := range []string{"crd.yaml", "nightly.yaml"} {
		text, err := os.ReadFile(filepath.Join(root, "examples", "crontab", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b := open(t, serve(t, dir), 1440, 900, true)
	b.text("nightly")
	b.text("Accepted: an API server would create this object")
	b.screenshot("directory")
	changed := "apiVersion: example.com/v1\nkind: CronTab\nmetadata:\n  name: nightly\nspec:\n  schedule: never\n"
	if err := os.WriteFile(filepath.Join(dir, "nightly.yaml"), []byte(changed), 0o644); err != nil {
		t.Fatal(err)
	}
	b.text("Rejected: an API server would not create this object")
}

// slowCRD has rules that cost nearly as much as is allowed. An object of it takes a while.
const slowCRD = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  scope: Cluster
  names: {kind: Thing, plural: things}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          list:
            type: array
            maxItems: 30
            items:
              type: object
              x-kubernetes-validations:
              - {rule: 'self.a.all(x, self.a.all(y, self.a.all(z, x + y != z + 1)))'}
              - {rule: 'self.a.all(x, self.a.all(y, self.a.all(z, x + y != z + 2)))'}
              - {rule: 'self.a.all(x, self.a.all(y, self.a.all(z, x + y != z + 3)))'}
              - {rule: 'self.a.all(x, self.a.all(y, self.a.all(z, x + y != z + 4)))'}
              properties:
                a: {type: array, maxItems: 30, items: {type: integer, maximum: 0}}
`

// hostile types what is large or slow, and then an object that gets its answer soon.
func hostile(t *testing.T, b *tab) {
	// Other processes may keep the machine busy.
	const limit = 20 * time.Second
	const good = "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: good\n"
	soon := func(t *testing.T) {
		t.Helper()
		start := time.Now()
		b.typeAt("Object", good)
		b.wait(`document.querySelector(".outcome .result:not(.stale)")?.innerText.includes("Accepted: an API server would create this object")`)
		took := time.Since(start)
		t.Logf("the next result after %v", took.Round(time.Millisecond))
		if took > limit {
			t.Errorf("the next result takes %v", took)
		}
	}
	t.Run("20 MB", func(t *testing.T) {
		before := b.eval(`editor("Object").value()`)
		start := time.Now()
		b.run(chromedp.Evaluate(`editor("Object").replace("a: 1 ".repeat(4 << 20))`, nil))
		b.text("Not inserted: the text would be larger than 4 MiB.")
		if took := time.Since(start); took > limit {
			t.Errorf("the page does not answer for %v", took)
		}
		if after := b.eval(`editor("Object").value()`); after != before {
			t.Errorf("the text is now %.100q…", after)
		}
		soon(t)
	})
	t.Run("slow rules", func(t *testing.T) {
		b.typeAt("CustomResourceDefinitions", slowCRD)
		b.typeAt("Object", strings.Repeat("apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: a}\nlist: ["+strings.Repeat("{a: ["+strings.Repeat("0,", 30)+"]},", 30)+"]\n---\n", 100))
		b.wait(`document.querySelector(".outcome .result.stale")`)
		b.run(chromedp.Sleep(300 * time.Millisecond))
		if got := b.eval(`document.querySelector(".outcome .result").classList.contains("stale")`); got != "true" {
			t.Error("it does not take long")
		}
		soon(t)
	})
}

// TestHostile shows that large and slow input is bounded, and canceled by the next keystroke.
func TestHostile(t *testing.T) {
	t.Parallel()
	withEditors(t, func(t *testing.T, serve func(args ...string) string) {
		b := open(t, serve(), 1200, 800, false)
		b.text("Rejected")
		hostile(t, b)
	})
}
