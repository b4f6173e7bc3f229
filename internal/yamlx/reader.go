package yamlx

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// Options limit the size of documents, and describe the start of the text. Zero means the
// default.
type Options struct {
	// Line is the number of the first line; the default is 1.
	Line int
	// MaxDocument is the maximum size of a document in bytes; the default is 64 MiB.
	MaxDocument int
	// MaxExpanded is the maximum size of the JSON text that a document's aliases expand to;
	// the default is MaxDocument.
	MaxExpanded int
}

// DefaultMaxDocument is the default of Options.MaxDocument.
const DefaultMaxDocument = 64 << 20

func (o Options) withDefaults() Options {
	if o.Line <= 0 {
		o.Line = 1
	}
	if o.MaxDocument <= 0 {
		o.MaxDocument = DefaultMaxDocument
	}
	if o.MaxExpanded <= 0 {
		o.MaxExpanded = max(o.MaxDocument, DefaultMaxDocument)
	}
	return o
}

// Reader reads a stream document by document: YAML with document markers, a JSON value, or
// consecutive JSON values. It holds one document in memory.
type Reader struct {
	in io.Reader
	o  Options

	// buf[pos:] has been read but not returned.
	buf  []byte
	pos  int
	line int
	// offset is the number of bytes before buf[pos:].
	offset int64
	// eof is set when in is exhausted; err is the error of in.
	eof bool
	err error
	// keeps is set if buf is not reused.
	keeps bool
}

// NewReader returns a Reader of r.
func NewReader(r io.Reader, o Options) *Reader {
	o = o.withDefaults()
	return &Reader{in: r, o: o, line: o.Line}
}

// Rest returns the text after the last document, and the number of its first line. The Reader
// must not be used afterwards.
func (r *Reader) Rest() (rest io.Reader, line int) {
	unread := bytes.NewReader(r.buf[r.pos:])
	switch {
	case r.err != nil:
		return io.MultiReader(unread, failedReader{r.err}), r.line
	case r.eof:
		return unread, r.line
	}
	return io.MultiReader(unread, r.in), r.line
}

// failedReader returns an error that has occurred before.
type failedReader struct{ err error }

func (r failedReader) Read([]byte) (int, error) { return 0, r.err }

// Next returns the next document, or io.EOF at the end of the stream. Documents may be Empty.
// An *Error concerns one document; the next call continues with the document after it. Other
// errors come from the underlying reader and are final.
func (r *Reader) Next() (*Document, error) {
	n, form, err := r.end()
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, io.EOF
	}
	src := r.buf[r.pos : r.pos+n : r.pos+n]
	if !r.keeps || n < len(r.buf)/2 {
		// Documents outlive the buffer if it is reused, and one that is kept should not keep a large text.
		src = bytes.Clone(src)
	}
	d := &Document{src: src, line: r.line, offset: r.offset, o: r.o, form: form}
	r.skip(n)
	if at, problem := unreadable(src); problem != "" {
		return nil, d.errorAt(at, "%s", problem)
	}
	return d, nil
}

// skip drops the next n bytes.
func (r *Reader) skip(n int) {
	r.line += bytes.Count(r.buf[r.pos:r.pos+n], []byte{'\n'})
	r.pos += n
	r.offset += int64(n)
}

// end finds the end of the next document and returns its length, 0 at the end of the stream.
func (r *Reader) end() (n int, f form, err error) {
	if n, ok, err := r.bracedEnd(); ok || err != nil {
		return n, braced, err
	}
	n, err = r.markerEnd()
	return n, yamlText, err
}

// fill reads more input. It returns false at the end of the stream.
func (r *Reader) fill() (bool, error) {
	if r.err != nil {
		return false, r.err
	}
	if r.eof {
		return false, nil
	}
	const chunk = 64 << 10
	if r.pos > 0 {
		n := copy(r.buf, r.buf[r.pos:])
		r.buf, r.pos = r.buf[:n], 0
	}
	if cap(r.buf)-len(r.buf) < chunk {
		r.buf = append(make([]byte, 0, 2*cap(r.buf)+chunk), r.buf...)
	}
	for range 100 {
		n, err := r.in.Read(r.buf[len(r.buf):cap(r.buf)])
		r.buf = r.buf[:len(r.buf)+n]
		switch {
		case errors.Is(err, io.EOF):
			r.eof = true
		case err != nil:
			r.err = fmt.Errorf("reading: %w", err)
		}
		if n > 0 {
			return true, nil
		}
		if err != nil {
			return false, r.err
		}
	}
	r.err = fmt.Errorf("reading: %w", io.ErrNoProgress)
	return false, r.err
}

// more reads until byte i after pos is buffered. It returns false if the stream ends before
// it.
func (r *Reader) more(i int) (bool, error) {
	for len(r.buf)-r.pos <= i {
		ok, err := r.fill()
		if !ok {
			return false, err
		}
	}
	return true, nil
}

// bracedEnd finds the end of a document that starts with a brace or bracket, if the braces
// alone determine it: JSON, and text that looks like it.
func (r *Reader) bracedEnd() (n int, ok bool, err error) {
	i := 0
	for ; ; i++ {
		more, err := r.more(i)
		if !more {
			return 0, false, err
		}
		c := r.buf[r.pos+i]
		if i == 0 && c == bom[0] {
			if more, err := r.more(2); !more {
				return 0, false, err
			}
			if bytes.HasPrefix(r.buf[r.pos:], bom) {
				i = len(bom) - 1
				continue
			}
		}
		if !isBlank(c) {
			break
		}
	}
	if c := r.buf[r.pos+i]; c != '{' && c != '[' {
		return 0, false, nil
	}
	depth, quoted := 0, false
	for ; i <= r.o.MaxDocument; i++ {
		for r.pos+i < len(r.buf) && !braces[r.buf[r.pos+i]] {
			i++
		}
		if r.pos+i >= len(r.buf) {
			if more, err := r.more(i); !more {
				return 0, false, err
			}
		}
		switch c := r.buf[r.pos+i]; {
		case c == '"':
			quoted = !quoted
		case quoted:
			if c == '\\' {
				i++
			}
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			if depth--; depth == 0 {
				return r.afterBraces(i + 1)
			}
		}
	}
	return 0, false, nil
}

// braces are the bytes that matter to bracedEnd.
var braces = [256]bool{'"': true, '\\': true, '{': true, '}': true, '[': true, ']': true}

// afterBraces examines the text after the n bytes that end with the last brace. The rest of
// the same line belongs to the document.
func (r *Reader) afterBraces(n int) (int, bool, error) {
	newline := false
	for i := n; ; i++ {
		more, err := r.more(i)
		if err != nil {
			return 0, false, err
		}
		if !more {
			return i, true, nil
		}
		switch c := r.buf[r.pos+i]; {
		case c == '\n' && !newline:
			newline, n = true, i+1
		case isBlank(c):
		case c == '{' || c == '[':
			return n, true, nil
		case (c == '-' || c == '.') && newline:
			if _, err := r.more(i + 3); err != nil {
				return 0, false, err
			}
			if isMarker(r.buf[r.pos:], i) {
				if c == '-' {
					return n, true, nil
				}
				return 0, false, nil
			}
			return 0, false, nil
		default:
			return 0, false, nil
		}
	}
}

// markerEnd finds the end of a YAML document: before the next "---", after the next "...", or
// at the end of the stream.
func (r *Reader) markerEnd() (int, error) {
	var directives, content bool
	for i := 0; ; {
		if content && i > 0 {
			return r.bodyEnd(i)
		}
		if i > r.o.MaxDocument {
			return 0, r.tooLarge()
		}
		end, err := r.lineEnd(i)
		if err != nil {
			return 0, err
		}
		line := r.buf[r.pos+i : r.pos+end]
		if i == 0 {
			line = bytes.TrimPrefix(line, bom)
		}
		switch {
		case end == i:
			return i, nil
		case len(line) == 0:
			// The text is only a byte order mark.
		case isMarker(line, 0) && line[0] == '.':
			return end, nil
		case isMarker(line, 0) && i > 0 && (content || !directives):
			return i, nil
		case isMarker(line, 0):
			content = true
		case line[0] == '%' && !content:
			directives = true
		case line[0] != '#' && len(bytes.TrimSpace(line)) > 0:
			content = true
		}
		i = end
	}
}

// bodyEnd is markerEnd from i, the start of a line below the first one with content.
func (r *Reader) bodyEnd(i int) (int, error) {
	for {
		text := r.buf[r.pos:]
		n := nextMarker(text[i-1:])
		at := i + n
		switch {
		case n >= 0 && (at+3 < len(text) || r.eof):
			if !isMarker(text, at) {
				i = at + 1
				continue
			}
			if at > r.o.MaxDocument {
				return 0, r.tooLarge()
			}
			if text[at] == '.' {
				return r.lineEnd(at)
			}
			return at, nil
		case len(text) > r.o.MaxDocument+4:
			return 0, r.tooLarge()
		case r.eof:
			return len(text), nil
		case n < 0:
			// The last bytes may be the start of a marker.
			i = max(i, len(text)-3)
		}
		if _, err := r.fill(); err != nil {
			return 0, err
		}
	}
}

// nextMarker returns the offset of the next line break that may be followed by a marker, or
// -1.
func nextMarker(text []byte) int {
	n := bytes.Index(text, []byte("\n---"))
	if n >= 0 {
		text = text[:n]
	}
	if m := bytes.Index(text, []byte("\n...")); m >= 0 {
		return m
	}
	return n
}

// lineEnd returns the end of the line that starts at i, including its line feed.
func (r *Reader) lineEnd(i int) (int, error) {
	for from := i; ; {
		if n := bytes.IndexByte(r.buf[r.pos+from:], '\n'); n >= 0 {
			return from + n + 1, nil
		}
		from = len(r.buf) - r.pos
		if from > r.o.MaxDocument {
			return from, nil
		}
		more, err := r.fill()
		if err != nil {
			return 0, err
		}
		if !more {
			return from, nil
		}
	}
}

// tooLarge skips a document that exceeds the limit and returns an error.
func (r *Reader) tooLarge() error {
	e := &Error{Line: r.line, Column: 1, TooLarge: true,
		Message: fmt.Sprintf("the document that starts here exceeds the limit of %d bytes", r.o.MaxDocument)}
	for {
		// Markers are found in the buffered text; a line longer than the limit is dropped in
		// pieces.
		end, err := r.lineEnd(0)
		if err != nil {
			return err
		}
		whole := end > 0 && r.buf[r.pos+end-1] == '\n'
		r.skip(end)
		if ok, err := r.more(3); !ok {
			if err == nil {
				r.skip(len(r.buf) - r.pos)
			}
			return e
		}
		if at := r.buf[r.pos:]; at[0] == '-' && isMarker(at[:4], 0) && whole {
			return e
		}
	}
}

// unreadable returns why src is not UTF-8 text, and the offset.
func unreadable(src []byte) (offset int, problem string) {
	if bytes.HasPrefix(src, []byte{0xff, 0xfe}) || bytes.HasPrefix(src, []byte{0xfe, 0xff}) {
		return 0, "this is UTF-16: convert the file to UTF-8"
	}
	if i := bytes.IndexByte(src, 0); i >= 0 {
		return i, "a zero byte: this is not a text file"
	}
	if utf8.Valid(src) {
		return 0, ""
	}
	for i := 0; i < len(src); {
		c, n := utf8.DecodeRune(src[i:])
		if c == utf8.RuneError && n == 1 {
			return i, fmt.Sprintf("byte 0x%02x is not UTF-8", src[i])
		}
		i += n
	}
	return 0, ""
}

func isEOF(err error) bool { return errors.Is(err, io.EOF) }
