package web

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// siteDir returns the directory that make docs writes. Without it, the test is skipped, or fails if
// ESPALIER_SITE is set.
func siteDir(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join(root, "dist", "site"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "index.html")); err != nil {
		if os.Getenv("ESPALIER_SITE") != "" {
			t.Fatal("no site: run make docs")
		}
		t.Skip("SKIPPED: no site: run make docs to test it")
	}
	chromium(t)
	return dir
}

// TestSite opens every page of the documentation on a narrow screen: nothing is wider than the screen, and
// nothing fails or is loaded from another host, which ends the test otherwise. make docs follows all links.
func TestSite(t *testing.T) {
	t.Parallel()
	dir := siteDir(t)
	s := httptest.NewServer(http.StripPrefix("/some/path", http.FileServer(http.Dir(dir))))
	t.Cleanup(s.Close)
	b := browseFor(t, 15*time.Minute, s.URL+"/some/path/index.html", 390, 844, false)
	pages := 0
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(name) != ".html" || strings.HasPrefix(name, "playground/") {
			return err
		}
		pages++
		b.run(chromedp.Navigate(s.URL + "/some/path/" + name))
		b.narrow(name)
		if title := b.eval(`document.querySelector("main h1").textContent`); title == "" {
			t.Errorf("%s has no title", name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if pages < 100 {
		t.Errorf("only %d pages", pages)
	}
}

// TestSiteSearch searches on a host, and in a directory of files: no server is needed.
func TestSiteSearch(t *testing.T) {
	t.Parallel()
	dir := siteDir(t)
	s := httptest.NewServer(http.FileServer(http.Dir(dir)))
	t.Cleanup(s.Close)
	for name, at := range map[string]string{"host": s.URL, "files": "file://" + filepath.ToSlash(dir)} {
		t.Run(name, func(t *testing.T) {
			b := browse(t, at+"/tutorials/first-controller.html", 1440, 900, false)
			typeQuery(b, "encrypt secrets")
			b.wait(`document.querySelector("#results a")`)
			b.screenshot("site-search-" + name)
			b.run(chromedp.KeyEvent("\r"))
			b.wait(`location.pathname.endsWith("/how-to/run-in-production.html") && location.hash === "#encrypt-secrets"`)
			if gone := b.eval(`document.querySelector(".menu a").getBoundingClientRect().bottom < 0`); gone != "false" {
				t.Error("the contents are not beside the text")
			}
			typeQuery(b, "nosuchword")
			b.text("Nothing found.")
		})
	}
}

// typeQuery types after the key that moves to the search. The browser of a test would type that key, too.
func typeQuery(b *tab, query string) {
	b.t.Helper()
	b.wait(`document.readyState === "complete"`)
	b.run(chromedp.Evaluate(`document.dispatchEvent(new KeyboardEvent("keydown", {key: "/"}))`, nil))
	b.wait(`document.activeElement.id === "search"`)
	b.run(chromedp.KeyEvent(query))
}

// TestSiteLooks shows pages in all sizes. Its pictures are for people.
func TestSiteLooks(t *testing.T) {
	t.Parallel()
	dir := siteDir(t)
	s := httptest.NewServer(http.FileServer(http.Dir(dir)))
	t.Cleanup(s.Close)
	for _, size := range sizes {
		t.Run(size.name, func(t *testing.T) {
			b := browse(t, s.URL+"/index.html", size.width, size.height, size.dark)
			b.screenshot("site-" + size.name + "-index")
			for _, name := range []string{"tutorials/first-controller", "reference/commands/serve", "reference/kinds"} {
				b.run(chromedp.Navigate(s.URL + "/" + name + ".html"))
				b.screenshot("site-" + size.name + "-" + filepath.Base(name))
			}
			dark := b.eval(`getComputedStyle(document.body).backgroundColor`) != "rgb(255, 255, 255)"
			if dark != size.dark {
				t.Errorf("the page is dark: %v", dark)
			}
			// The contents are above the page on a narrow screen, and closed.
			if open := b.eval(`document.querySelector(".menu").open`) == "true"; open != (size.width > 500) {
				t.Errorf("the contents are open: %v", open)
			}
		})
	}
	t.Run("playground", func(t *testing.T) {
		b := browse(t, s.URL+"/index.html", 1440, 900, false)
		b.run(chromedp.Click("a.playground"))
		b.text("Rejected: an API server would not create this object")
	})
}
