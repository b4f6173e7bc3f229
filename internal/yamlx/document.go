package yamlx

import (
	"bytes"
	"fmt"
	"sort"
	"unicode/utf8"
)

// Error says what is wrong with a document and where in the file.
type Error struct {
	// Line and Column count from 1, Column in characters.
	Line, Column int
	Message      string
}

// Error gives the place and the message.
func (e *Error) Error() string {
	return fmt.Sprintf("%d:%d: %s", e.Line, e.Column, e.Message)
}

// Document is one document of a stream.
//
// It is not safe for concurrent use: what it knows about its text it learns when
// it is asked.
type Document struct {
	src  []byte
	line int
	o    Options

	// form is what is known about how the text is written.
	form form
	// index is what Find and Tree need; nil until they are called.
	index *index
}

// Parse reads src, which must hold a single document beside empty ones.
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
			return nil, d.errorAt(d.start(), "a second document starts here: a single one is expected")
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

// Source is the text of the document, the line that marks its start included. The
// sources of a stream's documents, put together, are the stream.
func (d *Document) Source() []byte { return d.src }

// Line is the line of the file that Source starts on.
func (d *Document) Line() int { return d.line }

// Empty says that the document has nothing but comments and markers.
func (d *Document) Empty() bool { return d.start() == len(d.src) }

// IsJSON says that the document is written as JSON.
func (d *Document) IsJSON() bool {
	if d.form == braced {
		d.form = yamlText
		if validJSON(d.src) {
			d.form = jsonText
		}
	}
	return d.form == jsonText
}

// form is how a document is written.
type form uint8

const (
	yamlText form = iota
	// braced is a text of balanced braces, which may be JSON.
	braced
	jsonText
)

// JSON returns the document's value as JSON text: the value that sigs.k8s.io/yaml
// gives it. Keys that occur twice are kept, in order; the last one wins, as it does there.
// JSON documents are returned as they are. Errors are of type *Error.
//
// The text may share memory with Source.
func (d *Document) JSON() ([]byte, error) {
	if d.IsJSON() {
		return trimJSON(d.src), nil
	}
	var p parser
	p.reset(d.src, false)
	if _, ok := p.document(); ok {
		return p.out, nil
	}
	return d.slowJSON()
}

// start is the offset of the first byte that is neither space, comment nor marker.
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

// errorAt makes an error about the place at an offset of the document.
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

// lines are the offsets at which the lines of a text start.
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

// LineEnd returns the offset of the line feed that ends the line of i, or the end.
func LineEnd(src []byte, i int) int {
	if n := bytes.IndexByte(src[i:], '\n'); n >= 0 {
		return i + n
	}
	return len(src)
}

// isMarker reports whether a document marker, "---" or "...", stands at i, the start of a line.
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
