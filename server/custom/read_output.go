package custom

import (
	"bytes"
	"io"
	"sync"
)

// output collects a response in a buffer, and writes it when the buffer is full. An object that
// is larger than the buffer is written without a copy: while a client is slow, its response
// holds no more memory than the buffer.
type output struct {
	w       io.Writer
	buffers *buffers
	buffer  *bytes.Buffer // nil if there is nothing to write
	err     error         // of the first write that failed: the client has gone
}

// buffers pools the buffers of outputs.
type buffers struct {
	max  int // the size of a full buffer
	pool sync.Pool
}

// text adds a short text.
func (o *output) text(s string) {
	o.reserve(len(s))
	o.buffer.WriteString(s)
}

// bytes adds a text of any length.
func (o *output) bytes(p []byte) {
	if len(p) <= o.buffers.max {
		o.reserve(len(p))
		o.buffer.Write(p)
		return
	}
	o.flush()
	if o.err == nil {
		_, o.err = o.w.Write(p)
	}
}

// view adds an object.
func (o *output) view(v *view, revision int64) {
	n := v.size(revision)
	if n <= o.buffers.max {
		o.reserve(n)
		o.buffer.Write(v.append(o.buffer.AvailableBuffer(), revision))
		return
	}
	o.bytes(v.text[:v.at])
	var version [64]byte
	o.bytes(v.appendVersion(version[:0], revision))
	o.bytes(v.text[v.at:])
}

// reserve makes room for n bytes: it writes the buffer if they would not fit.
func (o *output) reserve(n int) {
	if o.buffer != nil && o.buffer.Len()+n > o.buffers.max {
		o.flush()
	}
	if o.buffer == nil {
		o.buffer, _ = o.buffers.pool.Get().(*bytes.Buffer)
		if o.buffer == nil {
			o.buffer = &bytes.Buffer{}
		}
	}
	o.buffer.Grow(n)
}

// flush writes the buffer, and gives it back.
func (o *output) flush() {
	if o.buffer == nil {
		return
	}
	if o.err == nil {
		_, o.err = o.w.Write(o.buffer.Bytes())
	}
	o.buffer.Reset()
	o.buffers.pool.Put(o.buffer)
	o.buffer = nil
}
