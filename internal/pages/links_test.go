package pages

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestLinks checks that the links of all pages of the repository name files, directories and
// headings that exist, and that the index of the documentation leads to every page below docs: directly, or
// through a list in the reference.
func TestLinks(t *testing.T) {
	root := Root(t)
	pages := map[string]Page{}
	for _, p := range Below(t, root, ".") {
		pages[p.Name] = p
	}
	reached := map[string]bool{"docs/README.md": true}
	links := 0
	for _, p := range pages {
		for _, l := range p.Links {
			links++
			if text := dead(root, pages, p, l); text != "" {
				t.Errorf("%s:%d: %s", p.Name, l.Line, text)
			}
			if p.Name == "docs/README.md" || p.Name == "docs/reference/commands.md" {
				reached[path.Join(path.Dir(p.Name), l.Target)] = true
			}
		}
	}
	if links < 50 {
		t.Errorf("only %d links were found", links)
	}
	for name := range pages {
		if strings.HasPrefix(name, "docs/") && !reached[name] {
			t.Errorf("docs/README.md has no link to %s", name)
		}
	}
}

// dead reports what is wrong with a link, or returns "".
func dead(root string, pages map[string]Page, p Page, l Link) string {
	name := p.Name
	if l.Target != "" {
		name = path.Join(path.Dir(p.Name), l.Target)
		if strings.HasPrefix(name, "../") {
			return l.Target + " is outside of the repository"
		}
		if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(name))); err != nil {
			return l.Target + " does not exist"
		}
	}
	if l.Anchor == "" {
		return ""
	}
	target, ok := pages[name]
	if !ok {
		return "the link has an anchor, and " + name + " is not a page"
	}
	if !target.Anchors[l.Anchor] {
		return name + " has no heading #" + l.Anchor
	}
	return ""
}

func TestParse(t *testing.T) {
	p, err := Parse("a/b.md", "# The `x` of [y](z.md#q)\n## Same\n## Same\n`[no](no.md)` [one](../c.md) [two](#same-1) [site](https://example.com)\n"+
		"```sh skip=\"needs a network\" file=a.sh\n# no heading, [no](link.md)\n```\n")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"the-x-of-y", "same", "same-1"} {
		if !p.Anchors[want] {
			t.Errorf("no anchor %s: %v", want, p.Anchors)
		}
	}
	if len(p.Anchors) != 3 {
		t.Errorf("anchors: %v", p.Anchors)
	}
	if want := []Link{{1, "z.md", "q"}, {4, "../c.md", ""}, {4, "", "same-1"}}; !slices.Equal(p.Links, want) {
		t.Errorf("links %v, expected %v", p.Links, want)
	}
	if len(p.Blocks) != 1 || p.Blocks[0].Language != "sh" || p.Blocks[0].Attributes["skip"] != "needs a network" || p.Blocks[0].Attributes["file"] != "a.sh" ||
		p.Blocks[0].Text != "# no heading, [no](link.md)\n" {
		t.Errorf("blocks %+v", p.Blocks)
	}
	// The fixtures below are links that must be found to be dead.
	pages := map[string]Page{p.Name: p}
	for _, l := range []Link{{1, "missing.md", ""}, {1, "", "other"}, {1, "../../outside.md", ""}, {1, "../go.mod", "anchor"}} {
		if dead(Root(t), pages, p, l) == "" {
			t.Errorf("%v is not dead", l)
		}
	}
	for _, text := range []string{"```sh\nno end\n", "```sh what is this\n```\n"} {
		if _, err := Parse("a.md", text); err == nil {
			t.Errorf("%q is parsed", text)
		}
	}
}
