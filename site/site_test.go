package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestRead reads the documentation, without Hugo: every link leads to a page or a file of the site, and the
// pages that users look for can be found.
func TestRead(t *testing.T) {
	s, err := read("..")
	if err != nil {
		t.Fatal(err)
	}
	urls := map[string]bool{"/playground/index.html": true}
	for _, p := range s.pages {
		if urls[p.url] {
			t.Errorf("%s has the URL of another page: %s", p.name, p.url)
		}
		urls[p.url] = true
		if p.markdown.Name != "" && (strings.Contains(p.body, "<!--") || strings.HasPrefix(p.body, "# ")) {
			t.Errorf("%s has a comment or its title in the body", p.name)
		}
	}
	for name := range s.files {
		urls["/"+name] = true
	}
	links := 0
	for _, p := range s.pages {
		for _, m := range target.FindAllStringSubmatch(p.body, -1) {
			to, _, _ := strings.Cut(m[1], "#")
			if strings.HasPrefix(to, "/") {
				links++
				if !urls[to] {
					t.Errorf("%s links to %s, which does not exist", p.name, to)
				}
			}
		}
	}
	if len(s.pages) < 100 || links < 200 {
		t.Errorf("only %d pages and %d links", len(s.pages), links)
	}
	if len(s.nav) != 4 || s.nav[0].Title != "Tutorials" || s.nav[0].Links[0].URL != "/tutorials/first-controller.html" {
		t.Errorf("the navigation is %v", s.nav)
	}
	found := map[string]bool{}
	for _, e := range s.index() {
		if !urls[strings.Split(e.URL, "#")[0]] {
			t.Errorf("the search leads to %s", e.URL)
		}
		found[e.Title+"/"+e.Heading] = strings.Contains(e.Text, "--encryption-provider-config")
	}
	if !found["Run in production/Encrypt secrets"] {
		t.Error("the search does not find a flag in the guide")
	}
}

func TestRewrite(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"docs/README.md": "# Index\n\n## One\n- [A](a/a.md): text\n",
		"docs/a/a.md": "<!-- directory: x -->\n# The `a` page\n\n[up](../README.md) `[no](no.md)` [file](../../deploy/b.yaml) [site](https://example.com) [here](#b)\n" +
			"```yaml file=\"b.yaml\"\n[x](y.md)\n```\n```\n$ espalier\n```\n## B\n[dir](../../deploy)\n",
		"deploy/b.yaml": "b: 1\n",
	} {
		if err := writeFile(filepath.Join(root, name), []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	s, err := read(root)
	if err != nil {
		t.Fatal(err)
	}
	a := s.byName["docs/a/a.md"]
	want := "\n[up](/index.html) `[no](no.md)` [file](/source/deploy/b.yaml.html) [site](https://example.com) [here](#b)\n" +
		"```yaml {file=\"b.yaml\"}\n[x](y.md)\n```\n```text\n$ espalier\n```\n## B\n[dir](/source/deploy.html)\n"
	if a.body != want || a.title != "The a page" {
		t.Errorf("%s: got\n%s\nwant\n%s", a.title, a.body, want)
	}
	if got := s.byName["deploy"].body; got != "- [`b.yaml`](/source/deploy/b.yaml.html)\n" {
		t.Errorf("the directory is %s", got)
	}
	if err := os.Remove(filepath.Join(root, "deploy/b.yaml")); err != nil {
		t.Fatal(err)
	}
	if _, err := read(root); err == nil {
		t.Error("a dead link is no error")
	}
}

// TestUntracked reads a directory in which a server has run: its data is not part of the site.
func TestUntracked(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"docs/README.md":                   "# Index\n[example](../examples/a)\n",
		"examples/a/crd.yaml":              "a: 1\n",
		"examples/a/more/b.yaml":           "b: 1\n",
		"examples/a/espalier-data/etcd/db": "\xff\xfe",
		"examples/a/.hidden":               "h: 1\n",
	} {
		if err := writeFile(filepath.Join(root, name), []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	check := func(want string) {
		t.Helper()
		s, err := read(root)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.byName["examples/a"].body; got != want {
			t.Errorf("got\n%swant\n%s", got, want)
		}
	}
	all := "- [`crd.yaml`](/source/examples/a/crd.yaml.html)\n- [`more`](/source/examples/a/more.html)\n"
	check(all)
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	git := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("git", append([]string{"-C", root}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	git("init", "-q")
	git("add", "docs", "examples/a/crd.yaml", "examples/a/more")
	if err := writeFile(filepath.Join(root, "examples/a/kubeconfig"), []byte("secret")); err != nil {
		t.Fatal(err)
	}
	check(all)
	// A file that is tracked is part of the site, whatever its name is.
	git("add", "examples/a/.hidden")
	check("- [`.hidden`](/source/examples/a/.hidden.html)\n" + all)
}

// TestCheck finds dead links, links that depend on the host, and requests to other hosts.
func TestCheck(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"index.html": `<a href="a/b.html#x">ok</a><a href="https://example.com">ok</a><a href="a/c.html">dead</a><a href="a/b.html#y">dead</a><a href="/a/b.html">absolute</a>`,
		"a/b.html":   `<p id="x"><img src="../icon.svg"><script src="https://example.com/x.js"></script>`,
		"icon.svg":   `<svg/>`,
	} {
		if err := writeFile(filepath.Join(dir, name), []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	pages, links, err := check(dir)
	if err == nil || pages != 2 || links != 7 {
		t.Fatalf("%d pages, %d links: %v", pages, links, err)
	}
	if got := strings.Count(err.Error(), "\n") + 1; got != 4 {
		t.Errorf("%d problems: %v", got, err)
	}
}
