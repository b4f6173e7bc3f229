package web

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestStatic shows the page of a static host below a path, with the engine as WebAssembly. make web
// writes it.
func TestStatic(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(root, "dist", "web")
	if _, err := os.Stat(filepath.Join(dir, "espalier.wasm")); err != nil {
		t.Skip("SKIPPED: no WebAssembly: run make web to test it")
	}
	chromium(t)
	files := http.FileServer(http.Dir(dir))
	// The complete engine comes after the first result.
	first := make(chan struct{})
	s := httptest.NewServer(http.StripPrefix("/some/path", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/espalier.wasm" {
			select {
			case <-first:
			case <-r.Context().Done():
			}
		}
		files.ServeHTTP(w, r)
	})))
	t.Cleanup(s.Close)
	b := open(t, s.URL+"/some/path/", 1440, 900, false)
	b.text("Rejected: an API server would not create this object")
	t.Logf("the first result %s ms after the start of the load", b.eval("Math.round(performance.now())"))
	b.text("CEL rules are not evaluated yet")
	b.screenshot("static")
	close(first)
	b.wait(`!document.body.innerText.includes("CEL rules are not evaluated yet") && document.getElementById("loading").hidden`)
	t.Logf("rules %s ms after it", b.eval("Math.round(performance.now())"))
	pick(b, "Update: ratcheting and oldSelf")
	b.text("a volume cannot shrink")
	pick(b, "A Deployment of Kubernetes itself")
	b.text("spec.template.spec.containers[0].ports[0].containerPort")
	start := time.Now()
	b.typeAt("Object", "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: a\n")
	b.text("Accepted: an API server would create this object")
	t.Logf("another result after %v", time.Since(start).Round(time.Millisecond))
	hostile(t, b)
}
