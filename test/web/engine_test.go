package web

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// engineWorker is a worker whose small engine answers at once. The host decides whether the complete one
// can be loaded, and whether it answers requests.
const engineWorker = `
const answer = (unevaluated) => JSON.stringify({answer: {crds: [], text: [], old: [], objects: [
  {apiVersion: "example.com/v1", kind: "CronTab", name: "a", semantics: "kep", verdict: "accepted", findings: [], unevaluated}]}});
const host = async (what) => (await fetch(what, {cache: "no-store"})).text();
onmessage = async (e) => {
  const small = self.name === "small.wasm";
  if (!("name" in e.data)) {
    const problem = small ? "" : await host("load");
    postMessage(problem ? {problem: "the engine cannot be loaded: " + problem} : {ready: true});
  } else if (small) postMessage({response: answer(true)});
  else {
    const problem = await host("ask");
    postMessage(problem ? {ended: "the engine has ended: " + problem} : {response: answer(false)});
  }
};`

// engineHost is a static host with engineWorker.
type engineHost struct {
	// load and ask have the problems of the complete engine, and loads and asked count.
	load, ask    atomic.Value
	loads, asked atomic.Int64
	url          string
}

func newEngineHost(t *testing.T, load, ask string) *engineHost {
	t.Helper()
	h := &engineHost{}
	h.load.Store(load)
	h.ask.Store(ask)
	files := http.FileServer(http.Dir(filepath.Join(root, "web", "page", "static")))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/worker.js":
			w.Header().Set("Content-Type", "text/javascript")
			_, _ = io.WriteString(w, engineWorker)
		case "/load":
			h.loads.Add(1)
			_, _ = io.WriteString(w, h.load.Load().(string))
		case "/ask":
			h.asked.Add(1)
			_, _ = io.WriteString(w, h.ask.Load().(string))
		default:
			files.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(s.Close)
	h.url = s.URL
	return h
}

// TestEngineType shows that the page loads WebAssembly from a host that sends it as another type.
func TestEngineType(t *testing.T) {
	t.Parallel()
	chromium(t)
	files := http.FileServer(http.Dir(filepath.Join(root, "web", "page", "static")))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/wasm_exec.js":
			w.Header().Set("Content-Type", "text/javascript")
			_, _ = io.WriteString(w, `self.Go = class {
  importObject = {};
  run() {
    self.espalierAnswer = async () => '{"answer": {"crds": [], "text": [], "old": [], "rules": [], "findings": [], "objects": [{"semantics": "kep", "verdict": "accepted", "findings": []}]}}';
    return new Promise(() => {});
  }
};`)
		case "/small.wasm", "/espalier.wasm":
			w.Header().Set("Content-Type", "text/plain")
			_, _ = io.WriteString(w, "\x00asm\x01\x00\x00\x00")
		default:
			files.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(s.Close)
	b := open(t, s.URL, 1000, 700, false)
	b.text("Accepted: an API server would create this object")
	b.wait(`document.getElementById("loading").hidden`)
}

// TestEngineEnds shows that a request that ends the engine is not repeated.
func TestEngineEnds(t *testing.T) {
	t.Parallel()
	h := newEngineHost(t, "", "out of memory")
	b := open(t, h.url, 1200, 800, false)
	b.text("the engine has ended: out of memory")
	before := h.asked.Load()
	b.run(chromedp.Sleep(time.Second))
	if after := h.asked.Load(); after != before {
		t.Errorf("the request is sent %d more times in a second", after-before)
	}
	h.ask.Store("")
	b.typeAt("Object", "kind: CronTab\n")
	b.text("Accepted: an API server would create this object")
}

// TestEngineMissing shows that the page does not accept objects while it cannot load the rules, and that
// it loads them later.
func TestEngineMissing(t *testing.T) {
	t.Parallel()
	h := newEngineHost(t, "no connection", "")
	b := open(t, h.url, 1200, 800, false)
	b.text("CEL rules could not be loaded: no connection.")
	if got := b.eval(`document.querySelector(".result .banner").className + ": " + document.querySelector(".result .banner").innerText`); strings.Contains(got, "accepted") || !strings.Contains(got, "CEL rules are not evaluated") {
		t.Error(got)
	}
	b.run(chromedp.Sleep(time.Second))
	if n := h.loads.Load(); n != 1 {
		t.Errorf("without a request, the engine is loaded %d times", n)
	}
	const problem = `document.querySelector(".result [role=alert]:not(.old)")`
	b.do(problem + `.classList.add("old")`)
	b.typeAt("Object", "kind: CronTab\n")
	for end := time.Now().Add(10 * time.Second); h.loads.Load() < 2; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the next request does not load the engine again")
		}
	}
	b.wait(problem + `?.textContent.includes("CEL rules could not be loaded: no connection.")`)
	h.load.Store("")
	b.click("Try again")
	b.text("Accepted: an API server would create this object")
	b.wait(`!document.body.innerText.includes("CEL rules")`)
}
