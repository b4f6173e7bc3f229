package api

import (
	"bytes"

	"espalier.dev/internal/jsonx"
)

// cursor walks over text that is known to be valid JSON, so that reading does not fail.
type cursor struct {
	jsonx.Reader
	data []byte
}

func cursorAt(data []byte) *cursor {
	c := &cursor{data: data}
	c.Borrow(data)
	return c
}

// skip skips the next value and returns its text.
func (c *cursor) skip() []byte {
	c.Peek()
	start := c.Offset()
	_ = c.SkipRaw() // the text is JSON
	return c.data[start:c.Offset()]
}

// firstByte returns the first byte of a JSON text that is not white space, which
// identifies the type of the value, or 0.
func firstByte(data []byte) byte {
	if data = bytes.TrimLeft(data, " \t\r\n"); len(data) > 0 {
		return data[0]
	}
	return 0
}
