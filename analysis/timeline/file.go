package timeline

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
)

// Format is the version of the format of files that this release writes and reads. New fields do
// not change it.
const Format = "v1"

// maxLine is the maximum length of a line. etcd limits an object to 1.5 MiB, and a line has two. JSON
// needs up to six bytes for a byte of an object that is stored as Protobuf, and more for its names.
const maxLine = 64 << 20

// Header is the first line of a file.
type Header struct {
	// Format is the version of the format.
	Format string `json:"timeline"`
	// Test is the name of the test whose server has recorded the changes.
	Test string `json:"test,omitempty"`
	// After is the revision after which the file has all changes. Earlier ones are those of the start
	// of the server, or were left out.
	After int64 `json:"after"`
	// Omitted is the number of the oldest changes that were left out because there were too many.
	Omitted int `json:"omitted,omitempty"`
	// Compacted is set if the server does not have all changes before these any more.
	Compacted bool `json:"compacted,omitempty"`
}

// Writer writes a file. It masks the data of Secrets.
type Writer struct {
	w      io.Writer
	masker *Masker
}

// NewWriter returns a Writer that has written the header. A nil Masker means a new one.
func NewWriter(w io.Writer, h Header, m *Masker) (*Writer, error) {
	if m == nil {
		m = NewMasker()
	}
	h.Format = Format
	out := &Writer{w: w, masker: m}
	return out, out.line(h)
}

// Write writes a change.
func (w *Writer) Write(c *Change) error { return w.line(w.masker.Change(c)) }

func (w *Writer) line(v any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err
	}
	_, err := w.w.Write(b.Bytes())
	return err
}

// maxError is the maximum length of an error that may have a part of an object, in bytes.
const maxError = 200

// WithoutObject returns an error about an object that cannot be decoded. Those of package
// k8s.io/apimachinery may have the whole object, which may be a Secret.
func WithoutObject(err error) error {
	if runtime.IsMissingKind(err) {
		return errors.New("the object has no kind")
	}
	if text := err.Error(); len(text) > maxError {
		return errors.New(strings.ToValidUTF8(text[:maxError], "") + "…")
	}
	return err
}

// SyntaxError is returned for a line of a file that is not what it must be.
type SyntaxError struct {
	Line int
	Err  error
}

// Error returns the line and what is wrong with it.
func (e *SyntaxError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }

// Unwrap returns what is wrong.
func (e *SyntaxError) Unwrap() error { return e.Err }

// Reader reads a file.
type Reader struct {
	lines  *bufio.Reader
	line   int
	header Header
	last   int64
}

// NewReader returns a Reader that has read the header. It returns a [SyntaxError] if it is not one.
func NewReader(r io.Reader) (*Reader, error) {
	out := &Reader{lines: bufio.NewReaderSize(r, 1<<16)}
	text, err := out.next()
	switch {
	case errors.Is(err, io.EOF):
		return nil, &SyntaxError{1, errors.New("not a timeline: the file is empty")}
	case err != nil:
		return nil, err
	}
	if err := json.Unmarshal(text, &out.header); err != nil || out.header.Format == "" {
		return nil, out.syntax(errors.New(`not a timeline: its first line is a JSON object with the field "timeline"`))
	}
	if out.header.Format != Format {
		return nil, out.syntax(fmt.Errorf("the format of the timeline is %q, and this release reads %q: use the release that wrote it, or a newer one",
			out.header.Format, Format))
	}
	return out, nil
}

// Header returns the header.
func (r *Reader) Header() Header { return r.header }

// Line returns the number of the line that was read last.
func (r *Reader) Line() int { return r.line }

// Next returns the next change, and io.EOF after the last one. It returns a [SyntaxError] for a line
// that is not a change.
func (r *Reader) Next() (*Change, error) {
	text, err := r.next()
	if err != nil {
		return nil, err
	}
	c := new(Change)
	if err := json.Unmarshal(text, c); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) && syntax.Error() == "unexpected end of JSON input" {
			err = errors.New("the line ends within a change: the file is not complete")
		}
		return nil, r.syntax(fmt.Errorf("not a change: %w", WithoutObject(err)))
	}
	if err := c.check(r.last); err != nil {
		return nil, r.syntax(fmt.Errorf("not a change: %w", err))
	}
	r.last = c.Revision
	return c, nil
}

// All iterates over the changes until the first error.
func (r *Reader) All() iter.Seq2[*Change, error] {
	return func(yield func(*Change, error) bool) {
		for {
			c, err := r.Next()
			if errors.Is(err, io.EOF) {
				return
			}
			if !yield(c, err) || err != nil {
				return
			}
		}
	}
}

// check returns an error if a required field is missing, or the revision is before the last one.
func (c *Change) check(last int64) error {
	switch c.Action {
	case Create, Update, Delete:
	default:
		return fmt.Errorf("the field action is %q: must be create, update or delete", c.Action)
	}
	switch {
	case c.Revision <= 0:
		return errors.New("the field revision is required")
	case c.Revision < last:
		return fmt.Errorf("revision %d is after revision %d: changes must be in their order", c.Revision, last)
	case c.Name == "" || c.Resource == "":
		return errors.New("the fields resource and name are required")
	case c.Time.IsZero():
		return errors.New("the field time is required")
	}
	return nil
}

func (r *Reader) syntax(err error) error { return &SyntaxError{r.line, err} }

// next returns the next line that is not empty.
func (r *Reader) next() ([]byte, error) {
	for {
		r.line++
		var text []byte
		for {
			part, err := r.lines.ReadSlice('\n')
			if len(text)+len(part) > maxLine {
				return nil, r.syntax(fmt.Errorf("longer than %d MiB", maxLine>>20))
			}
			text = append(text, part...)
			switch {
			case errors.Is(err, bufio.ErrBufferFull):
				continue
			case errors.Is(err, io.EOF) && len(bytes.TrimSpace(text)) == 0:
				return nil, io.EOF
			case err != nil && !errors.Is(err, io.EOF):
				return nil, err
			}
			break
		}
		if text = bytes.TrimSpace(text); len(text) > 0 {
			return text, nil
		}
	}
}
