package pages

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A Generator checks that the generated parts of the documentation are current, or writes them.
type Generator struct {
	// Command is the command that writes them. Generated pages name it.
	Command string
	// Update is set if it runs.
	Update bool
}

// Page compares a page with a text, which begins with a heading.
func (g Generator) Page(t testing.TB, name, text string) {
	t.Helper()
	g.File(t, name, fmt.Sprintf("<!-- Generated from the source by %s: do not edit. -->\n%s", g.Command, text))
}

// Part compares a part of a page, which is between "<!-- generated: PART -->" and "<!-- end: PART -->".
func (g Generator) Part(t testing.TB, name, part, text string) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(Root(t), filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	from, to := "<!-- generated: "+part+" -->\n", "<!-- end: "+part+" -->\n"
	before, rest, begins := strings.Cut(string(page), from)
	_, after, ends := strings.Cut(rest, to)
	if !begins || !ends {
		t.Fatalf("%s does not have %s and %s", name, strings.TrimSpace(from), strings.TrimSpace(to))
	}
	g.File(t, name, before+from+text+to+after)
}

// File compares a file of the repository with a text.
func (g Generator) File(t testing.TB, name, text string) {
	t.Helper()
	path := filepath.Join(Root(t), filepath.FromSlash(name))
	if g.Update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	have, err := os.ReadFile(path)
	if err != nil {
		t.Errorf("%v: run %s", err, g.Command)
		return
	}
	if string(have) != text {
		t.Errorf("%s is out of date: run %s\n%s", name, g.Command, firstDifference(string(have), text))
	}
}

// Only removes the files of a directory that are not named, or reports them.
func (g Generator) Only(t testing.TB, dir string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(Root(t), filepath.FromSlash(dir)))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		switch {
		case slices.Contains(names, e.Name()):
		case g.Update:
			if err := os.Remove(filepath.Join(Root(t), filepath.FromSlash(dir), e.Name())); err != nil {
				t.Fatal(err)
			}
		default:
			t.Errorf("%s/%s is not generated any more: run %s", dir, e.Name(), g.Command)
		}
	}
}

// firstDifference returns the first lines that differ.
func firstDifference(have, want string) string {
	h, w := strings.Split(have, "\n"), strings.Split(want, "\n")
	for i := range max(len(h), len(w)) {
		var a, b string
		if i < len(h) {
			a = h[i]
		}
		if i < len(w) {
			b = w[i]
		}
		if a != b {
			return fmt.Sprintf("line %d is\n%s\nand should be\n%s", i+1, a, b)
		}
	}
	return ""
}

// Table returns a Markdown table. The cells are Markdown.
func Table(head []string, rows [][]string) string {
	var b strings.Builder
	line := func(cells []string) {
		b.WriteString("|")
		for _, c := range cells {
			if c = strings.ReplaceAll(strings.ReplaceAll(c, "\n", " "), "|", `\|`); c != "" {
				c = " " + c
			}
			b.WriteString(c + " |")
		}
		b.WriteString("\n")
	}
	line(head)
	b.WriteString(strings.Repeat("|---", len(head)) + "|\n")
	for _, cells := range rows {
		line(cells)
	}
	return b.String()
}

// Code returns a text as code in a line of Markdown.
func Code(text string) string {
	if strings.Contains(text, "`") {
		return "`` " + text + " ``"
	}
	return "`" + text + "`"
}

// Escape returns a plain text as Markdown. Code in backquotes stays as it is.
func Escape(text string) string {
	parts := strings.Split(text, "`")
	for i := 0; i < len(parts); i += 2 {
		parts[i] = escaper.Replace(parts[i])
	}
	return strings.Join(parts, "`")
}

var escaper = strings.NewReplacer("<", `\<`, "*", `\*`, "[", `\[`, "_", `\_`)

// Help returns a help text as Markdown: paragraphs, and code where lines are indented.
func Help(text string) string {
	var b strings.Builder
	var code []string
	end := func() {
		if len(code) > 0 {
			b.WriteString("```text\n" + strings.TrimRight(strings.Join(code, "\n"), "\n") + "\n```\n")
			code = nil
		}
	}
	for line := range strings.SplitSeq(strings.Trim(text, "\n"), "\n") {
		switch {
		case strings.HasPrefix(line, "  "):
			code = append(code, strings.TrimPrefix(line, "  "))
		case line == "" && len(code) > 0:
			code = append(code, "")
		default:
			if len(code) > 0 {
				end()
				b.WriteString("\n")
			}
			b.WriteString(Escape(line) + "\n")
		}
	}
	end()
	return b.String()
}
