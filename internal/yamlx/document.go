package yamlx

import (
	"bytes"
	"fmt"
	"sort"
	"sync"
	"unicode/utf8"
)

// Error describes what is wrong with a document, and the position in the file.
type Error struct {
	// Line and Column count from 1, Column in characters.
	Line, Column int
	Message      string
	// TooLarge is set if the document exceeds Options.MaxDocument.
	TooLarge bool
}

// Error returns the position and the message.
func (e *Error) Error() string {
	return fmt.Sprintf("%d:%d: %s", e.Line, e.Column, e.Message)
}

// Document is one document of a stream.
//
// It is not safe for concurrent use, because it analyzes its text lazily.
type Document struct {
	src    []byte
	line   int
	offset int64
	o      Options

	// form describes how the text is written.
	form form
	// index serves Find and Tree; it is nil until they are called.
	index *index
}

// Parse reads src, which must hold a single document; empty documents are ignored.
func Parse(src []byte) (*Document, error) {
	r := NewReader(bytes.NewReader(src), Options{MaxDocument: len(src) + 1})
	var only, empty *Document
	for {
		d, err := r.Next()
		if isEOF(err) {
			break
		}
		if err != nil {
			return nil, err
		}
		switch {
		case d.Empty():
			if empty == nil {
				empty = d
			}
		case only != nil:
			return nil, d.errorAt(d.start(), "a second document starts here: expected a single document")
		default:
			only = d
		}
	}
	if only == nil {
		only = empty
	}
	if only == nil {
		only = &Document{src: src, line: 1, o: Options{}.withDefaults()}
	}
	return only, nil
}

// Source returns the text of the document, including its start marker. The sources of all
// documents of a stream add up to the stream.
func (d *Document) Source() []byte { return d.src }

// Clone returns a copy of the document whose text has memory of its own.
func (d *Document) Clone() *Document {
	return &Document{src: bytes.Clone(d.src), line: d.line, offset: d.offset, o: d.o, form: d.form}
}

// Line returns the line of the file on which Source starts.
func (d *Document) Line() int { return d.line }

// Offset returns the number of bytes that the Reader has read before Source.
func (d *Document) Offset() int64 { return d.offset }

// Empty reports whether the document has only comments and markers.
func (d *Document) Empty() bool { return d.start() == len(d.src) }

// IsJSON reports whether the document is written as JSON.
func (d *Document) IsJSON() bool {
	if d.form == braced {
		d.form = yamlText
		if validJSON(d.src) {
			d.form = jsonText
		}
	}
	return d.form == jsonText
}

// form describes how a document is written.
type form uint8

const (
	yamlText form = iota
	// braced is text with balanced braces, which may be JSON.
	braced
	jsonText
)

// JSON returns the document's value as JSON text, as sigs.k8s.io/yaml converts it. Duplicate
// keys are kept, in order; the last one wins, as in that package. JSON documents are returned
// unchanged. Errors are of type *Error.
//
// The text may share memory with Source.
func (d *Document) JSON() ([]byte, error) {
	if len(d.src) > maxScratch {
		return d.JSONIn(&Scratch{})
	}
	if d.IsJSON() {
		return trimJSON(d.src), nil
	}
	// The length of the text is not known before, and the text may stay in memory for long.
	scratch := scratches.Get().(*Scratch)
	defer scratches.Put(scratch)
	if text, ok := d.fastJSON(scratch); ok {
		return bytes.Clone(text), nil
	}
	return d.slowJSON()
}

// JSONIn is JSON, but the text is valid only until the scratch is used again.
func (d *Document) JSONIn(scratch *Scratch) ([]byte, error) {
	if d.IsJSON() {
		return trimJSON(d.src), nil
	}
	if text, ok := d.fastJSON(scratch); ok {
		return text, nil
	}
	return d.slowJSON()
}

// Scratch is memory for JSON texts, each of which takes the place of the one before. It is not
// safe for concurrent use.
type Scratch struct{ out, tmp []byte }

// scratches are unused Scratches, and maxScratch is the length of the longest text that they are used for.
var scratches = sync.Pool{New: func() any { return new(Scratch) }}

const maxScratch = 4 << 20

// fastJSON returns the document's value if the parser supports its text.
func (d *Document) fastJSON(scratch *Scratch) ([]byte, bool) {
	p := parser{out: scratch.out, tmp: scratch.tmp}
	p.reset(d.src, false)
	_, ok := p.document()
	scratch.out, scratch.tmp = p.out, p.tmp
	return p.out, ok
}

// start returns the offset of the first byte that is not part of white space, a comment or a
// marker.
func (d *Document) start() int {
	src := d.src
	i := 0
	if bytes.HasPrefix(src, bom) {
		i = len(bom)
	}
	for i < len(src) {
		switch c := src[i]; {
		case c == ' ' || c == '\t' || c == '\r' || c == '\n':
			i++
		case c == '#':
			i = LineEnd(src, i)
		case (c == '-' || c == '.') && isMarker(src, i):
			i += 3
		default:
			return i
		}
	}
	return len(src)
}

// errorAt returns an error at an offset of the document.
func (d *Document) errorAt(offset int, format string, args ...any) *Error {
	line, col := place(d.src, offset)
	return &Error{Line: d.line + line - 1, Column: col, Message: fmt.Sprintf(format, args...)}
}

// place returns the line and column of an offset in src.
func place(src []byte, offset int) (line, col int) {
	offset = min(offset, len(src))
	start := bytes.LastIndexByte(src[:offset], '\n') + 1
	from := src[start:offset]
	if start == 0 {
		from = bytes.TrimPrefix(from, bom)
	}
	return 1 + bytes.Count(src[:start], []byte{'\n'}), 1 + utf8.RuneCount(from)
}

// lines holds the offsets at which the lines of a text start.
type lines []int

func linesOf(src []byte) lines {
	ls := lines{0}
	for i, c := range src {
		if c == '\n' {
			ls = append(ls, i+1)
		}
	}
	return ls
}

// line returns the number of the line that offset is on, from 0.
func (ls lines) line(offset int) int {
	return sort.SearchInts(ls, offset+1) - 1
}

// bom is the byte order mark in UTF-8.
var bom = []byte("\ufeff")

// LineEnd returns the offset of the line feed that ends the line of i, or the length of src.
func LineEnd(src []byte, i int) int {
	if n := bytes.IndexByte(src[i:], '\n'); n >= 0 {
		return i + n
	}
	return len(src)
}

// isMarker reports whether a document marker, "---" or "...", is at i, the start of a line.
func isMarker(src []byte, i int) bool {
	if i > 0 && src[i-1] != '\n' && !(i == len(bom) && bytes.HasPrefix(src, bom)) {
		return false
	}
	if len(src) < i+3 || src[i+1] != src[i] || src[i+2] != src[i] || src[i] != '-' && src[i] != '.' {
		return false
	}
	return len(src) == i+3 || isBlank(src[i+3])
}

// isBlank reports whether c separates tokens.
func isBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }
