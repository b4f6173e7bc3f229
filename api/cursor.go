package api

// cursor walks over text that is known to be JSON.
type cursor struct {
	data []byte
	pos  int
}

// peek skips white space and returns the first byte of what follows, which tells
// the type of a value. At the end it returns 0.
func (c *cursor) peek() byte {
	for ; c.pos < len(c.data); c.pos++ {
		switch b := c.data[c.pos]; b {
		case ' ', '\t', '\r', '\n':
		default:
			return b
		}
	}
	return 0
}

// skip passes over the next value and returns its text.
func (c *cursor) skip() []byte {
	kind, start := c.peek(), c.pos
	switch kind {
	case '"':
		c.skipString()
	case '{', '[':
		for depth := 0; ; {
			switch c.data[c.pos] {
			case '"':
				c.skipString()
				continue
			case '{', '[':
				depth++
			case '}', ']':
				depth--
			}
			c.pos++
			if depth == 0 {
				return c.data[start:c.pos]
			}
		}
	default:
		for ; c.pos < len(c.data); c.pos++ {
			switch c.data[c.pos] {
			case ',', ']', '}', ' ', '\t', '\r', '\n':
				return c.data[start:c.pos]
			}
		}
	}
	return c.data[start:c.pos]
}

func (c *cursor) skipString() {
	for c.pos++; c.data[c.pos] != '"'; c.pos++ {
		if c.data[c.pos] == '\\' {
			c.pos++
		}
	}
	c.pos++
}

// object calls field at the value of each field of an object.
func (c *cursor) object(field func(name string) error) error {
	for c.pos++; c.peek() != '}'; {
		if c.peek() == ',' {
			c.pos++
			c.peek()
		}
		name, err := unquote(c.skip())
		if err != nil {
			return err
		}
		c.peek()
		c.pos++ // the colon
		if err := field(name); err != nil {
			return err
		}
	}
	c.pos++
	return nil
}

// array calls item at each item of a list.
func (c *cursor) array(item func(i int) error) error {
	c.pos++
	for i := 0; c.peek() != ']'; i++ {
		if c.peek() == ',' {
			c.pos++
		}
		if err := item(i); err != nil {
			return err
		}
	}
	c.pos++
	return nil
}
