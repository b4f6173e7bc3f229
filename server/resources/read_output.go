package resources

import (
	"bytes"
	"io"
)

// output collects a response in a buffer, and writes it when the buffer is full.
type output struct {
	w      io.Writer
	buffer *bytes.Buffer
	err    error // of the first write that failed: the client has gone
}

// text adds a text.
func (o *output) text(s string) { o.buffer.WriteString(s) }

// view adds an object.
func (o *output) view(v *view, revision int64) {
	o.reserve(v.size(revision))
	o.buffer.Write(v.append(o.buffer.AvailableBuffer(), revision))
}

// reserve makes room for n bytes: it writes the buffer if they would not fit.
func (o *output) reserve(n int) {
	if o.buffer.Len() > 0 && o.buffer.Len()+n > outputBytes {
		o.flush()
	}
	o.buffer.Grow(n)
}

// flush writes the buffer.
func (o *output) flush() {
	if o.err == nil && o.buffer.Len() > 0 {
		_, o.err = o.w.Write(o.buffer.Bytes())
	}
	o.buffer.Reset()
}
