package faults

import (
	"bytes"
	"encoding/binary"
	"mime"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime"
)

// framing finds the ends of the events in the answer to a watch.
type framing struct {
	form framingForm
	// inside is set within an event.
	inside bool
	// head are the bytes of the length of the event, and left the number of bytes that follow it.
	head []byte
	left int
}

type framingForm int

const (
	opaque  framingForm = iota // each write is an event
	lines                      // each line is an event
	lengths                    // the length of an event comes before it
)

// newFraming returns the framing of an answer with a header.
func newFraming(h http.Header) framing {
	media, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	switch {
	case err != nil || h.Get("Content-Encoding") != "":
		return framing{}
	case media == runtime.ContentTypeJSON:
		return framing{form: lines}
	case media == runtime.ContentTypeProtobuf:
		return framing{form: lengths}
	}
	return framing{}
}

// next returns the number of bytes of p until the end of the event, or all of them if it has no
// end there.
func (f *framing) next(p []byte) int {
	switch f.form {
	case lines:
		end := bytes.IndexByte(p, '\n') + 1
		if f.inside = end == 0; f.inside {
			return len(p)
		}
		return end
	case lengths:
		n := 0
		for ; n < len(p) && len(f.head) < 4; n++ {
			if f.head = append(f.head, p[n]); len(f.head) == 4 {
				f.left = int(binary.BigEndian.Uint32(f.head))
			}
		}
		if len(f.head) == 4 {
			body := min(f.left, len(p)-n)
			n, f.left = n+body, f.left-body
		}
		f.inside = len(f.head) < 4 || f.left > 0
		if !f.inside {
			f.head = f.head[:0]
		}
		return n
	}
	return len(p)
}
