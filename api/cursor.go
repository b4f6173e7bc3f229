package api

import (
	"bytes"

	"espalier.dev/internal/jsonx"
)

// cursor walks over text that is known to be valid JSON, so that reading does not fail.
type cursor struct {
	jsonx.Reader
	data []byte
	// spare are schemas to decode into before they are copied: they are large.
	spare []*JSONSchemaProps
}

func cursorAt(data []byte) *cursor {
	c := &cursor{data: data}
	c.Borrow(data)
	return c
}

// spareSchema returns a schema to decode into, and keepSpare keeps it for the next call.
func (c *cursor) spareSchema() *JSONSchemaProps {
	n := len(c.spare)
	if n == 0 {
		return new(JSONSchemaProps)
	}
	s := c.spare[n-1]
	c.spare = c.spare[:n-1]
	return s
}

func (c *cursor) keepSpare(s *JSONSchemaProps) { c.spare = append(c.spare, s) }

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
