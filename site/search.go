package main

import (
	"regexp"
	"strings"

	"espalier.dev/internal/pages"
)

// An entry is a part of a page that the search can find: what is below a heading.
type entry struct {
	// Title is that of the page, and Heading the heading of the part; it is empty for the beginning of the page.
	Title   string `json:"t"`
	Heading string `json:"h,omitempty"`
	URL     string `json:"u"`
	Text    string `json:"x"`
}

// index returns what the search can find: all pages for users. An index of our own is enough: a script
// looks through all of it in milliseconds. Pagefind is for sites that are too large to load, and is neither a
// Go tool nor part of Hugo.
func (s *site) index() (entries []entry) {
	for _, p := range s.pages {
		if p.section != "" && p.markdown.Name != "" {
			entries = append(entries, p.entries()...)
		}
	}
	return entries
}

var (
	subheading = regexp.MustCompile(`^#{2,6} +(.*?)\s*#*$`)
	linkText   = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	rule       = regexp.MustCompile(`^\|[-|: ]+\|$`)
	marks      = strings.NewReplacer("`", "", "**", "", `\|`, "|", `\<`, "<", `\*`, "*", `\[`, "[", `\_`, "_", "|", " ")
)

// entries returns the parts of a page.
func (p *page) entries() []entry {
	entries := []entry{{Title: p.title, URL: p.url}}
	seen := map[string]bool{}
	var text []string
	end := func() {
		entries[len(entries)-1].Text = strings.Join(strings.Fields(strings.Join(text, " ")), " ")
		text = nil
	}
	open := false
	for line := range strings.Lines(p.body) {
		line = strings.TrimSpace(line)
		if fence.MatchString(line) {
			open = !open
			continue
		}
		if open {
			text = append(text, line)
			continue
		}
		if rule.MatchString(line) {
			continue
		}
		line = linkText.ReplaceAllString(line, "$1")
		if m := subheading.FindStringSubmatch(line); m != nil {
			end()
			entries = append(entries, entry{Title: p.title, Heading: marks.Replace(m[1]), URL: p.url + "#" + pages.Anchor(m[1], seen)})
			continue
		}
		text = append(text, marks.Replace(line))
	}
	end()
	return entries
}
