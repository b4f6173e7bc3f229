package web

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// clusterHost answers as espalier ui does for a cluster with one CRD. It counts requests.
type clusterHost struct {
	t     *testing.T
	pages http.Handler
	index []byte

	mu sync.Mutex
	// revision is that of the CRD, seen the requests by name, last the last one of each name, and open the
	// number of watches.
	revision int
	seen     map[string]int
	last     map[string]string
	open     int
	// status is that of answers about the cluster, if it is not zero.
	status int
	// watch answers a watch, which stays open if the function returns true.
	watch func(send func(string)) bool
	// event is sent to the watch that is open.
	event chan string
}

// newClusterHost starts a clusterHost, and opens its page with the objects of the CRD.
func newClusterHost(t *testing.T, watch func(send func(string)) bool) (*clusterHost, *tab) {
	t.Helper()
	chromium(t)
	static := filepath.Join(root, "web", "page", "static")
	index, err := os.ReadFile(filepath.Join(static, "index.html"))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer(`content="wasm"`, `content="native"`, `content="no"`, `content="yes"`).Replace(string(index))
	h := &clusterHost{t: t, pages: http.FileServer(http.Dir(static)), index: []byte(text), seen: map[string]int{}, last: map[string]string{}, watch: watch, event: make(chan string)}
	s := httptest.NewServer(h)
	t.Cleanup(s.CloseClientConnections)
	b := open(t, s.URL, 1200, 800, false)
	b.click("Thing")
	b.text("first")
	return h, b
}

// accepted accepts a watch.
func accepted(send func(string)) bool {
	send(`{"type": "started"}`)
	return true
}

func (h *clusterHost) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, ok := strings.CutPrefix(r.URL.Path, "/api/")
	switch {
	case r.URL.Path == "/":
		_, _ = w.Write(h.index)
		return
	case !ok:
		h.pages.ServeHTTP(w, r)
		return
	}
	body, _ := io.ReadAll(r.Body)
	h.mu.Lock()
	h.seen[name]++
	h.last[name] = string(body)
	revision, status := h.revision, h.status
	h.mu.Unlock()
	if name == "cluster" && status != 0 && r.Header.Get("Espalier-Token") != "new" {
		http.Error(w, "open the link", status)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	answer := func(text string) { fmt.Fprintf(w, `{"answer": %s}`, text) }
	switch name {
	case "workspace":
		w.WriteHeader(http.StatusNoContent)
	case "cluster":
		fmt.Fprintf(w, `{"server": "test", "connected": true, "known": true, "crds": [{"name": "things.example.com", "group": "example.com", "kind": "Thing", "plural": "things", "namespaced": true,
			"versions": [{"name": "v1", "served": true, "storage": true}], "stored": ["v1"], "conditions": [], "conversion": "None", "revision": "%d"}]}`, revision)
	case "cluster/count":
		answer(`{"counts": {"things.example.com": 2}, "problems": {}}`)
	case "cluster/crd":
		answer(`{"text": "kind: CustomResourceDefinition\n"}`)
	case "cluster/audit":
		if strings.Contains(string(body), `"slow"`) {
			time.Sleep(500 * time.Millisecond)
		}
		answer(`{"inspected": true, "objects": 2, "failing": 1, "findings": [], "failures": [{"namespace": "x", "name": "first", "problems": 3}]}`)
	case "cluster/object":
		answer(`{"versions": [{"name": "v1", "storage": true, "text": "a: 1\nb: 2", "lines": [{"text": "a: 1", "pointer": "/a"}, {"text": "b: 2", "pointer": "/b"}]}], "findings": [], "inspected": true, "stored": []}`)
	case "cluster/objects":
		if strings.Contains(string(body), `"continue"`) {
			fmt.Fprint(w, `{"error": {"code": "expired", "message": "forgotten"}}`)
			return
		}
		answer(`{"version": "v1", "columns": [{"name": "Name", "type": "string"}, {"name": "Size", "type": "string"}], "continue": "token", "resourceVersion": "5", "rows": [
			{"namespace": "x", "name": "first", "cells": ["first", "1"]}, {"namespace": "x", "name": "second", "cells": ["second", "2"]}]}`)
	case "cluster/watch":
		h.serveWatch(w, r)
	default:
		fmt.Fprint(w, `{"error": {"code": "failed", "message": "no answer to this request"}}`)
	}
}

func (h *clusterHost) serveWatch(w http.ResponseWriter, r *http.Request) {
	h.change(func() { h.open++ })
	defer h.change(func() { h.open-- })
	w.Header().Set("Content-Type", "application/x-ndjson")
	send := func(text string) {
		fmt.Fprintln(w, strings.ReplaceAll(text, "\n", ""))
		w.(http.Flusher).Flush()
	}
	if !h.watch(send) {
		return
	}
	for {
		select {
		case text := <-h.event:
			send(text)
		case <-r.Context().Done():
			return
		}
	}
}

// send sends a text to the watch that is open.
func (h *clusterHost) send(text string) {
	h.t.Helper()
	select {
	case h.event <- text:
	case <-time.After(10 * time.Second):
		h.t.Fatalf("no watch for %s", text)
	}
}

func (h *clusterHost) change(do func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	do()
}

// count returns the number of requests with a name.
func (h *clusterHost) count(name string) (n int) {
	h.change(func() { n = h.seen[name] })
	return n
}

// semantics returns those of the last request with a name.
func (h *clusterHost) semantics(name string) string {
	var r struct{ Semantics string }
	h.change(func() { _ = json.Unmarshal([]byte(h.last[name]), &r) })
	return r.Semantics
}

// watches waits for a number of open watches.
func (h *clusterHost) watches(want int) {
	h.t.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		var n int
		if h.change(func() { n = h.open }); n == want {
			return
		}
		if time.Now().After(end) {
			h.t.Fatalf("%d watches, want %d", n, want)
		}
	}
}

func hide(b *tab, hidden bool) {
	b.t.Helper()
	b.run(chromedp.Evaluate(fmt.Sprintf(`Object.defineProperty(document, "hidden", {value: %v, configurable: true}); document.dispatchEvent(new Event("visibilitychange"))`, hidden), nil))
}

// TestWatches shows when the page watches: while it shows objects, and its tab is visible.
func TestWatches(t *testing.T) {
	t.Parallel()
	h, b := newClusterHost(t, accepted)
	b.wait(`document.querySelector(".liveness")?.textContent === "live"`)
	h.watches(1)
	t.Run("hidden tabs", func(t *testing.T) {
		hide(b, true)
		h.watches(0)
		hide(b, false)
		h.watches(1)
	})
	t.Run("other views", func(t *testing.T) {
		b.click("Schema")
		b.wait(`!document.getElementById("view-explorer").hidden`)
		h.watches(0)
		lists := h.count("cluster/objects")
		h.change(func() { h.revision++ })
		b.run(chromedp.Sleep(2500 * time.Millisecond))
		if n := h.count("cluster/objects"); n != lists {
			t.Errorf("a CRD that is not shown is listed %d times", n-lists)
		}
		b.click("Cluster")
		h.watches(1)
	})
	t.Run("the focus stays", func(t *testing.T) {
		b.wait(`document.querySelector(".liveness")?.textContent === "live"`)
		b.run(chromedp.Evaluate(`[...document.querySelectorAll("td button")].find(e => e.textContent === "second").focus()`, nil))
		h.send(`{"type": "MODIFIED", "row": {"namespace": "x", "name": "second", "cells": ["second", "changed"]}}`)
		h.send(`{"type": "ADDED", "row": {"namespace": "x", "name": "third", "cells": ["third", "3"]}}`)
		h.send(`{"type": "ADDED", "row": {"namespace": "x", "name": "fourth", "cells": ["fourth", "4"], "unchecked": "no connection"}}`)
		b.text("third")
		b.text("changed")
		b.wait(`[...document.querySelectorAll("tr")].find(e => e.textContent.includes("fourth"))?.textContent.includes("not checked")`)
		if got := b.eval(`[...document.querySelectorAll("tr")].find(e => e.textContent.includes("third")).textContent`); !strings.HasSuffix(got, "yes") {
			t.Errorf("a row that was checked shows %q", got)
		}
		if got := b.eval(`document.activeElement.textContent`); got != "second" {
			t.Errorf("the focus is on %q", got)
		}
	})
	t.Run("a list that the server has forgotten", func(t *testing.T) {
		b.shows("The server has forgotten this list", func() { b.click("Next") })
		b.wait(`document.querySelector(".liveness")?.textContent === "live"`)
		if got := b.eval(`document.querySelector(".pager").innerText`); strings.Contains(got, "page") || strings.Contains(got, "Previous") {
			t.Error(got)
		}
	})
	t.Run("another namespace", func(t *testing.T) {
		choose := func(namespace string) {
			b.set(".namespace", namespace)
			b.text("first")
		}
		choose("slow")
		b.click("Check all objects")
		b.text("Checking…")
		choose("y")
		b.run(chromedp.Sleep(time.Second))
		var last string
		h.change(func() { last = h.last["cluster/objects"] })
		if got := b.eval(`document.querySelector(".crd-page").innerText`); strings.Contains(got, "not comply") || strings.Contains(got, "Checking") || !strings.Contains(last, `"namespace":"y"`) {
			t.Errorf("%s: %s", last, got)
		}
		choose("")
	})
	t.Run("other semantics", func(t *testing.T) {
		b.click("Check all objects")
		b.text("1 of 2 objects does not comply")
		b.text("3 problems")
		choose := func(semantics string) { b.set("#semantics", semantics) }
		choose("kubernetes")
		b.wait(`[...document.querySelectorAll("td")].some(e => e.textContent === "first")`)
		if got := b.eval(`document.querySelector(".crd-page").innerText`); strings.Contains(got, "does not comply") || strings.Contains(got, "3 problems") || h.semantics("cluster/objects") != "kubernetes" {
			t.Errorf("%s: %s", h.semantics("cluster/objects"), got)
		}
		b.click("first")
		b.text("complies with the CRD")
		objects := h.count("cluster/object")
		choose("kep")
		for end := time.Now().Add(10 * time.Second); h.count("cluster/object") == objects && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		}
		if got := h.semantics("cluster/object"); got != "kep" {
			t.Errorf("the object is checked in %q", got)
		}
	})
}

// TestChangeBroken shows that a change that cannot be read ends its watch, and that another one starts.
func TestChangeBroken(t *testing.T) {
	t.Parallel()
	h, b := newClusterHost(t, accepted)
	b.wait(`document.querySelector(".liveness")?.textContent === "live"`)
	b.shows("not live: ", func() { h.send("nonsense") })
	b.wait(`document.querySelector(".liveness")?.textContent === "live"`)
	h.watches(1)
	t.Run("print", func(t *testing.T) {
		b.printed("cluster", []string{"aside", ".pager", ".liveness"})
	})
	t.Run("an object is one tab stop", func(t *testing.T) {
		b.click("first")
		b.text("a: 1")
		b.do(`document.querySelector(".lines .field").focus()`)
		for _, c := range []struct{ key, text string }{{kb.ArrowDown, "b: 2"}, {kb.Home, "a: 1"}, {kb.End, "b: 2"}, {kb.ArrowUp, "a: 1"}} {
			b.run(chromedp.KeyEvent(c.key))
			if got := b.eval(`document.activeElement.textContent`); got != c.text {
				t.Errorf("the focus is on %s, want %s", got, c.text)
			}
		}
		if got := b.eval(`document.querySelectorAll(".lines [tabindex='0'], .lines[tabindex='0']").length`); got != "1" {
			t.Errorf("%s tab stops", got)
		}
	})
}

// TestTokenRejected shows that a token that was rejected is not sent again, and that another one is.
func TestTokenRejected(t *testing.T) {
	t.Parallel()
	h, b := newClusterHost(t, accepted)
	h.change(func() { h.status = http.StatusUnauthorized })
	b.text("espalier ui answers 401: open the link that it has printed")
	before := h.count("cluster")
	b.run(chromedp.Sleep(2 * time.Second))
	if after := h.count("cluster"); after != before {
		t.Errorf("it is asked %d more times", after-before)
	}
	b.visit("#token=new")
	for end := time.Now().Add(10 * time.Second); h.count("cluster") == before; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it is not asked with a new token")
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.problems = slices.DeleteFunc(b.problems, func(p string) bool { return strings.Contains(p, "401") })
}

// TestWatchesEnd shows that the page does not keep a server busy that ends each watch.
func TestWatchesEnd(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{"expired": `{"type": "expired"}`, "rejected": `{"type": "rejected", "message": "forbidden"}`} {
		t.Run(name, func(t *testing.T) {
			h, b := newClusterHost(t, func(send func(string)) bool {
				if name == "expired" {
					send(`{"type": "started"}`)
				}
				send(text)
				return false
			})
			before := h.count("cluster/objects")
			b.run(chromedp.Sleep(2500 * time.Millisecond))
			// The pauses are 1 s, 2 s, 4 s and so on, and the first one may have passed.
			if n := h.count("cluster/objects") - before; n > 2 {
				t.Errorf("the objects are listed %d more times", n)
			}
			if name == "rejected" {
				b.text("not live: forbidden")
				if n := h.count("cluster/watch"); n != 1 {
					t.Errorf("%d watches", n)
				}
			}
		})
	}
}
