package web

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// largeCRD returns a CRD whose schema has about 14,000 nodes, with descriptions.
func largeCRD() string {
	var b strings.Builder
	b.WriteString(`apiVersion: apiextensions.k8s.io/v1
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
          spec:
            type: object
            properties:
`)
	for i := range 140 {
		fmt.Fprintf(&b, "              part%d:\n                type: object\n                properties:\n", i)
		for j := range 99 {
			fmt.Fprintf(&b, "                  field%d:\n                    description: Field %d of part %d.\n                    type: string\n", j, j, i)
		}
	}
	return b.String()
}

// typing types in an editor, and returns how long each keystroke takes until the browser has drawn it, in
// milliseconds. Between them, the page validates.
const typing = `(async () => {
  const out = [];
  const e = editor("Object");
  const end = e.value().length;
  e.select(end, end);
  for (let i = 0; i < 100; i++) {
    const start = performance.now();
    document.execCommand("insertText", false, "x");
    await new Promise((r) => requestAnimationFrame(() => { const c = new MessageChannel(); c.port1.onmessage = r; c.port2.postMessage(0); }));
    out.push(performance.now() - start);
    await new Promise((r) => setTimeout(r, i % 5 === 4 ? 400 : 60));
  }
  return JSON.stringify(out);
})()`

// TestKeystroke measures how long keystrokes take beside a CRD with 14,000 nodes, with each editor: make
// bench-web.
func TestKeystroke(t *testing.T) {
	if os.Getenv("ESPALIER_BENCH_WEB") == "" {
		t.Skip("make bench-web measures keystrokes")
	}
	withEditors(t, func(t *testing.T, serve func(args ...string) string) {
		b := open(t, serve(), 1440, 900, false)
		b.text("Rejected")
		crd := largeCRD()
		b.typeAt("CustomResourceDefinitions", crd)
		b.typeAt("Object", "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: a}\nspec:\n  part7:\n    field9: ")
		b.wait(`document.querySelector(".outcome .result:not(.stale)")?.innerText.includes("Accepted: an API server would create this object")`)
		var text string
		b.promise(typing, &text)
		b.wait(`document.querySelector(".outcome .result:not(.stale)")?.innerText.includes("field9: ` + strings.Repeat("x", 100) + `")`)
		var times []float64
		if err := json.Unmarshal([]byte(text), &times); err != nil {
			t.Fatal(err)
		}
		slices.Sort(times)
		t.Logf("a keystroke beside a CRD of %d bytes: median %.0f ms, 95th percentile %.0f ms, maximum %.0f ms", len(crd), times[len(times)/2], times[len(times)*95/100], times[len(times)-1])
	})
}
