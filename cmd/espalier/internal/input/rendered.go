package input

import (
	"strings"
	"sync"

	"espalier.dev/internal/yamlx"
)

// template is a file from which a program has rendered documents. Their lines are not those of the
// file.
type template struct {
	// by is the name of the program.
	by   string
	in   tree
	path string
	// root is the directory of the kustomization, and source the object that it has changed, if
	// that is certain. They are for kustomize only.
	root   string
	source *Item

	once sync.Once
	// built and was are the values of the object and of the source.
	built, was any
	// lines has the lines of the file by their text, and keys by the text up to the end of a key.
	// Those that occur several times are negative.
	lines, keys map[string]int
}

// The programs that render documents.
const (
	byHelm      = "helm"
	byKustomize = "kustomize"
)

// Rendered reports whether a program has rendered the object from its file.
func (it *Item) Rendered() bool { return it.rendered != nil }

// Rendered reports whether a program has rendered the document from its file.
func (d *Document) Rendered() bool { return d.rendered != nil }

// Kustomization returns the directory of the kustomization that has changed or generated the object,
// or "".
func (it *Item) Kustomization() string {
	if it.rendered == nil {
		return ""
	}
	return it.rendered.root
}

// SourceDoc returns the document of the file that the object comes from. It is the rendered one for
// Helm templates, which are no documents, and nil if there is none.
func (it *Item) SourceDoc() *yamlx.Document {
	switch t := it.rendered; {
	case t == nil || t.by == byHelm:
		return it.Doc
	case t.source == nil:
		return nil
	default:
		return t.source.Doc
	}
}

// Locate returns the position of the value that a pointer into the object names, the document that it
// is in, and the program that has rendered the value, or "". Lines of rendered values are those of
// the file, and 0 if they are unknown.
func (it *Item) Locate(pointer string) (yamlx.Span, *yamlx.Document, string) {
	if it.Doc == nil {
		return yamlx.Span{}, nil, ""
	}
	t := it.rendered
	if t != nil && t.by == byKustomize {
		if span, ok := t.locate(it, pointer); ok {
			return span, t.source.Doc, ""
		}
	}
	span := it.Doc.Find(it.Base + pointer)
	if t == nil {
		return span, it.Doc, ""
	}
	span.Key, span.Value = t.place(it.Doc, span.Key), t.place(it.Doc, span.Value)
	return span, it.Doc, t.by
}

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
	if t.in == nil {
		return 0
	}
	t.once.Do(func() {
		t.lines, t.keys = map[string]int{}, map[string]int{}
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
