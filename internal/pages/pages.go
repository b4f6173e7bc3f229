// Package pages reads the project's documentation, Markdown files, so that tests can follow its links and
// run its commands. It knows as much of Markdown as the documentation uses.
package pages

import (
	"bufio"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

// A Page is a Markdown file.
type Page struct {
	// Name is the path of the file below the root of the repository, with slashes.
	Name string
	// Text is the whole file.
	Text string
	// Anchors has the names of its headings, as GitHub makes them.
	Anchors map[string]bool
	// Links are its links, those to other sites excluded.
	Links []Link
	// Blocks are its fenced code blocks.
	Blocks []Block
	// spans is the code within its text.
	spans []CodeLine
}

// A Link is a link to a file or a heading of the repository.
type Link struct {
	Line           int
	Target, Anchor string
}

// A Block is a fenced code block.
type Block struct {
	// Line is that of its first fence.
	Line int
	// Language is the first word after the fence.
	Language string
	// Attributes follow the language: name=value, or name="a value".
	Attributes map[string]string
	// Text is what is between the fences, with a newline at its end.
	Text string
}

// Root returns the root of the repository, which is above the working directory of a test.
func Root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if text, err := os.ReadFile(filepath.Join(dir, "go.mod")); err == nil && strings.HasPrefix(string(text), "module espalier.dev\n") {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("the working directory is not in the repository")
		}
		dir = parent
	}
}

// Below returns the pages in a directory below the root and in its subdirectories. Directories with
// test data, and those whose names begin with a dot, belong to others.
func Below(t testing.TB, root, dir string) (pages []Page) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "node_modules"):
			return fs.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".md":
			return nil
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		page, err := Read(root, filepath.ToSlash(name))
		pages = append(pages, page)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return pages
}

// Read reads the page with a name below the root.
func Read(root, name string) (Page, error) {
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	if err != nil {
		return Page{}, err
	}
	return Parse(name, string(text))
}

var (
	fence = regexp.MustCompile("^ *```+(.*)$")
	// attribute matches name=value and name="a value".
	attribute = regexp.MustCompile(`^([a-z]+)=(?:"([^"]*)"|(\S+))\s*`)
	heading   = regexp.MustCompile(`^#{1,6} +(.*?)\s*#*$`)
	link      = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	code      = regexp.MustCompile("`[^`]*`")
	linkText  = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
)

// Parse parses the text of a page.
func Parse(name, text string) (Page, error) {
	p := Page{Name: name, Text: text, Anchors: map[string]bool{}}
	var open *Block
	var body strings.Builder
	lines := bufio.NewScanner(strings.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		m := fence.FindStringSubmatch(line)
		switch {
		case m != nil && open == nil:
			b := Block{Line: n}
			rest := strings.TrimSpace(m[1])
			b.Language, rest, _ = strings.Cut(rest, " ")
			attributes, err := parseAttributes(rest)
			if err != nil {
				return p, fmt.Errorf("%s:%d: %w", name, n, err)
			}
			b.Attributes, open = attributes, &b
			body.Reset()
		case m != nil && strings.TrimSpace(m[1]) == "":
			open.Text = body.String()
			p.Blocks, open = append(p.Blocks, *open), nil
		case open != nil:
			body.WriteString(line + "\n")
		default:
			p.prose(n, line)
		}
	}
	if open != nil {
		return p, fmt.Errorf("%s:%d: the block has no end", name, open.Line)
	}
	return p, lines.Err()
}

func parseAttributes(text string) (map[string]string, error) {
	attributes := map[string]string{}
	for text = strings.TrimSpace(text); text != ""; {
		m := attribute.FindStringSubmatch(text)
		if m == nil {
			return nil, fmt.Errorf("attributes of blocks are name=value: %q", text)
		}
		attributes[m[1]] = m[2] + m[3]
		text = text[len(m[0]):]
	}
	return attributes, nil
}

// prose collects the heading, the links and the code in a line.
func (p *Page) prose(n int, line string) {
	for _, span := range code.FindAllString(line, -1) {
		p.spans = append(p.spans, CodeLine{Line: n, Text: strings.Trim(span, "`"), Inline: true})
	}
	if m := heading.FindStringSubmatch(line); m != nil {
		Anchor(m[1], p.Anchors)
	}
	for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(line, ""), -1) {
		if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
			continue
		}
		target, anchor, _ := strings.Cut(m[1], "#")
		p.Links = append(p.Links, Link{Line: n, Target: target, Anchor: anchor})
	}
}

// Anchor returns the name of a heading, as GitHub makes it, and adds it to those of the page: a heading that
// occurs again gets a number.
func Anchor(heading string, taken map[string]bool) string {
	name := anchor(heading)
	for i, unique := 1, name; ; i++ {
		if !taken[unique] {
			taken[unique] = true
			return unique
		}
		unique = fmt.Sprintf("%s-%d", name, i)
	}
}

// anchor returns the name of a heading that occurs once: lower-case letters, digits, hyphens and
// underscores, and hyphens for spaces.
func anchor(heading string) string {
	heading = linkText.ReplaceAllString(heading, "$1")
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-' || r == '_':
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
}
