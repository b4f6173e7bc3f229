package input

import (
	"strings"
	"sync"

	"espalier.dev/internal/yamlx"
)

// template is a file from which a program has rendered documents. Their lines are not those of the
// file.
type template struct {
	in   tree
	path string

	once sync.Once
	// lines has the lines of the file by their text, and keys by the text up to the end of a key.
	// Those that occur several times are negative.
	lines, keys map[string]int
}

// Rendered reports whether a program has rendered the object from its file.
func (it *Item) Rendered() bool { return it.rendered != nil }

// place returns a position in a rendered document as one in the template, if a line of the template
// has the same text, or the same key. The line is 0 otherwise. Offsets remain those of the document.
func (t *template) place(d *yamlx.Document, p yamlx.Position) yamlx.Position {
	if p.Line == 0 {
		return p // there is no key
	}
	line := t.line(lineAt(d.Source(), p.Offset))
	switch {
	case line == 0:
		p.Line, p.EndLine = 0, 0
	case p.EndLine == p.Line:
		p.Line, p.EndLine = line, line
	default:
		p.Line, p.EndLine, p.EndColumn = line, 0, 0
	}
	return p
}

// line returns the line of the template from which a line of text was rendered, or 0.
func (t *template) line(text string) int {
	t.once.Do(func() {
		t.lines, t.keys = map[string]int{}, map[string]int{}
		if t.in == nil {
			return
		}
		data, err := contentOf(t.in, t.path)
		if err != nil {
			return // there is no position then
		}
		add := func(lines map[string]int, text string, line int) {
			if text == "" {
				return
			}
			if lines[text] != 0 {
				line = -1
			}
			lines[text] = line
		}
		number := 0
		for text := range strings.Lines(string(data)) {
			number++
			text = strings.TrimRight(text, " \t\r\n")
			add(t.lines, text, number)
			add(t.keys, keyOf(text), number)
		}
	})
	text = strings.TrimRight(text, " \t\r\n")
	if line := t.lines[text]; line != 0 {
		return max(line, 0)
	}
	return max(t.keys[keyOf(text)], 0)
}

// keyOf returns the text up to the end of the key of a line, or "".
func keyOf(text string) string {
	key, _, ok := strings.Cut(text, ":")
	if !ok || strings.Contains(key, "{{") {
		return ""
	}
	return key
}

// lineAt returns the line of a text at an offset.
func lineAt(src []byte, offset int) string {
	offset = min(max(offset, 0), len(src))
	text := string(src[:offset])
	start := strings.LastIndexByte(text, '\n') + 1
	rest, _, _ := strings.Cut(string(src[offset:]), "\n")
	return text[start:] + rest
}
