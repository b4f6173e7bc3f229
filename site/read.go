package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"unicode/utf8"

	"espalier.dev/internal/pages"
)

// home is the URL of the index.
const home = "/index.html"

// A site is what the site has: pages, files, and the navigation.
type site struct {
	root  string
	pages []*page
	// byName has the pages by their path in the repository.
	byName map[string]*page
	// files are copied as they are.
	files map[string][]byte
	nav   []navSection
	// tracked has the files that Git tracks, and their directories. It is nil without a Git repository.
	tracked map[string]bool
}

// A page is a page of the site: a Markdown file, the source of another file, or a list of files.
type page struct {
	// name is the path in the repository.
	name, title, url, section string
	// markdown is the page as the repository has it, and empty if it is not Markdown there.
	markdown pages.Page
	body     string
}

// A navSection is a part of the navigation: a heading of docs/README.md and the links below it.
type navSection struct {
	Title string    `json:"title"`
	Links []navLink `json:"links"`
}

type navLink struct {
	Title string `json:"title"`
	URL   string `json:"url"`
}

// read reads docs and everything that its pages link to.
func read(root string) (*site, error) {
	tracked, err := trackedFiles(root)
	if err != nil {
		return nil, err
	}
	s := &site{root: root, byName: map[string]*page{}, files: map[string][]byte{}, tracked: tracked}
	index, err := s.add("docs/README.md")
	if err != nil {
		return nil, err
	}
	// Pages are appended while their links are followed.
	for i := 0; i < len(s.pages); i++ {
		p := s.pages[i]
		for _, l := range p.markdown.Links {
			if l.Target == "" {
				continue
			}
			if _, err := s.add(path.Join(path.Dir(p.name), l.Target)); err != nil {
				return nil, fmt.Errorf("%s:%d: %w", p.name, l.Line, err)
			}
		}
	}
	for _, p := range s.pages {
		if p.markdown.Name != "" {
			p.body = s.rewrite(p)
		}
	}
	s.nav = s.navigation(index)
	return s, nil
}

// urlOf returns the URL of a file or directory of the repository.
func urlOf(name string) string {
	stem := strings.TrimSuffix(name, ".md")
	switch below, inDocs := strings.CutPrefix(stem, "docs/"); {
	case name == "docs/README.md":
		return home
	case strings.HasSuffix(name, ".schema.json"):
		return "/" + strings.TrimPrefix(name, "docs/")
	case inDocs:
		return "/" + below + ".html"
	case path.Dir(stem) == "analysis/lint/docs":
		return "/reference/rules/" + path.Base(stem) + ".html"
	}
	return "/source/" + stem + ".html"
}

// section returns the title above a page.
func section(name string) string {
	for prefix, title := range map[string]string{
		"docs/tutorials/": "Tutorials", "docs/how-to/": "How-to guides", "docs/reference/": "Reference", "docs/explanation/": "Explanation",
		"analysis/lint/docs/": "Reference",
	} {
		if strings.HasPrefix(name, prefix) {
			return title
		}
	}
	return ""
}

// add adds a file or directory of the repository, once. Schemas stay files, so that programs can use them.
func (s *site) add(name string) (*page, error) {
	if p := s.byName[name]; p != nil {
		return p, nil
	}
	file := filepath.Join(s.root, filepath.FromSlash(name))
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if strings.HasSuffix(name, ".schema.json") {
		text, err := os.ReadFile(file)
		s.files[strings.TrimPrefix(urlOf(name), "/")] = text
		return nil, err
	}
	p := &page{name: name, title: name, url: urlOf(name), section: section(name)}
	s.byName[name] = p
	s.pages = append(s.pages, p)
	switch {
	case info.IsDir():
		return p, s.list(p, file)
	case path.Ext(name) != ".md":
		return p, p.source(file)
	}
	if p.markdown, err = pages.Read(s.root, name); err != nil {
		return nil, err
	}
	if m := title.FindStringSubmatch(p.markdown.Text); m != nil {
		p.title = strings.NewReplacer("`", "", `\`, "").Replace(m[1])
	}
	return p, nil
}

// listed reports whether the files of a directory are part of the site. The source of the program is not.
func listed(name string) bool {
	top, _, _ := strings.Cut(name, "/")
	return top == "examples" || top == "deploy"
}

// trackedFiles returns the files that Git tracks, and their directories. It returns nil if the root is not that
// of a Git repository, such as in a source archive, or if Git is not installed.
func trackedFiles(root string) (map[string]bool, error) {
	if _, err := os.Stat(filepath.Join(root, ".git")); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	out, err := exec.Command("git", "-C", root, "ls-files", "-z").Output()
	if errors.Is(err, exec.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			err = errors.New(strings.TrimSpace(string(exit.Stderr)))
		}
		return nil, fmt.Errorf("git ls-files in %s: %w", root, err)
	}
	tracked := map[string]bool{}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		for ; name != "." && !tracked[name]; name = path.Dir(name) {
			tracked[name] = true
		}
	}
	return tracked, nil
}

// published reports whether a file in a listed directory belongs to the repository. Files that somebody made
// there, such as the data of a server, do not.
func (s *site) published(name string) bool {
	if s.tracked != nil {
		return s.tracked[name]
	}
	base := path.Base(name)
	return base != "espalier-data" && !strings.HasPrefix(base, ".")
}

// list fills a page with the list of a directory.
func (s *site) list(p *page, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var b strings.Builder
	for _, e := range entries {
		name := path.Join(p.name, e.Name())
		if !s.published(name) {
			continue
		}
		if !listed(name) || e.Name() == "go.sum" {
			fmt.Fprintf(&b, "- %s\n", pages.Code(e.Name()))
			continue
		}
		if _, err := s.add(name); err != nil {
			return err
		}
		fmt.Fprintf(&b, "- [%s](%s)\n", pages.Code(e.Name()), urlOf(name))
	}
	p.body = b.String()
	return nil
}

// source fills a page with the text of a file.
func (p *page) source(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if !utf8.Valid(text) {
		return fmt.Errorf("%s is no text", p.name)
	}
	language := map[string]string{".go": "go", ".yaml": "yaml", ".yml": "yaml", ".json": "json", ".sh": "sh", ".toml": "toml", ".lua": "lua", ".el": "elisp"}[path.Ext(p.name)]
	p.body = "`````" + language + "\n" + strings.TrimRight(string(text), "\n") + "\n`````\n"
	return nil
}

var (
	title   = regexp.MustCompile(`(?m)^# +(.*)$`)
	target  = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	comment = regexp.MustCompile(`(?m)^<!--.*-->\n?`)
	fence   = regexp.MustCompile("^( *```+)(\\S*)(.*)$")
	file    = regexp.MustCompile(`\bfile="([^"]*)"`)
)

// rewrite returns the body of a page for Hugo: without its title and comments, with the URLs of the site, and
// with attributes of code blocks in Hugo's form.
func (s *site) rewrite(p *page) string {
	var b strings.Builder
	open, titled := false, false
	for line := range strings.Lines(p.markdown.Text) {
		m := fence.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		switch {
		case m != nil && !open:
			open = true
			language := m[2]
			if language == "" || language == "console" {
				language = "text"
			}
			b.WriteString(m[1] + language)
			if f := file.FindStringSubmatch(m[3]); f != nil {
				fmt.Fprintf(&b, " {file=%q}", f[1])
			}
			b.WriteString("\n")
		case m != nil:
			open = false
			b.WriteString(line)
		case open:
			b.WriteString(line)
		case !titled && title.MatchString(strings.TrimSuffix(line, "\n")):
			titled = true
		case comment.MatchString(line):
		default:
			b.WriteString(s.links(p, line))
		}
	}
	return b.String()
}

// links replaces the targets of links in a line by URLs. Code stays as it is.
func (s *site) links(p *page, line string) string {
	parts := strings.Split(line, "`")
	for i := 0; i < len(parts); i += 2 {
		parts[i] = target.ReplaceAllStringFunc(parts[i], func(link string) string {
			to, anchor, anchored := strings.Cut(target.FindStringSubmatch(link)[1], "#")
			if to == "" || strings.Contains(to, "://") || strings.HasPrefix(to, "mailto:") {
				return link
			}
			to = urlOf(path.Join(path.Dir(p.name), to))
			if anchored {
				to += "#" + anchor
			}
			return "](" + to + ")"
		})
	}
	return strings.Join(parts, "`")
}

// navigation returns the links of the index by heading.
func (s *site) navigation(index *page) (nav []navSection) {
	item := regexp.MustCompile(`^- \[([^\]]+)\]\(([^)#]+)\)`)
	for line := range strings.Lines(index.markdown.Text) {
		if heading, ok := strings.CutPrefix(line, "## "); ok {
			nav = append(nav, navSection{Title: strings.TrimSpace(heading)})
		} else if m := item.FindStringSubmatch(line); m != nil && len(nav) > 0 {
			last := &nav[len(nav)-1]
			last.Links = append(last.Links, navLink{m[1], urlOf(path.Join("docs", m[2]))})
		}
	}
	return nav
}
