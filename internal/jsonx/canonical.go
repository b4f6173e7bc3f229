package jsonx

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// IsCanonical reports whether src is exactly the text that encoding/json writes for the value
// that Parse returns for src. The newline that a json.Encoder adds is allowed. It builds no
// values.
func IsCanonical(src []byte) bool {
	if n := len(src); n > 0 && src[n-1] == '\n' {
		src = src[:n-1]
	}
	c := canonical{src: src}
	return c.value() && c.pos == len(src)
}

// canonical is a scanner for canonical text. Its methods return false at the first difference.
type canonical struct {
	src   []byte
	pos   int
	depth int
}

// next returns the next byte, or 0 at the end.
func (c *canonical) next() byte {
	if c.pos < len(c.src) {
		return c.src[c.pos]
	}
	return 0
}

// take skips the byte if it is next.
func (c *canonical) take(b byte) bool {
	if c.next() != b {
		return false
	}
	c.pos++
	return true
}

func (c *canonical) value() bool {
	switch b := c.next(); b {
	case '{':
		return c.object()
	case '[':
		return c.array()
	case '"':
		_, ok := c.string()
		return ok
	case 't':
		return c.literal("true")
	case 'f':
		return c.literal("false")
	case 'n':
		return c.literal("null")
	default:
		return c.number()
	}
}

func (c *canonical) literal(text string) bool {
	if !bytes.HasPrefix(c.src[c.pos:], []byte(text)) {
		return false
	}
	c.pos += len(text)
	return true
}

// object scans an object, whose names must be in order.
func (c *canonical) object() bool {
	if c.depth++; c.depth > MaxDepth {
		return false
	}
	c.pos++
	if c.take('}') {
		c.depth--
		return true
	}
	var last []byte
	lastEscaped := false
	for first := true; ; first = false {
		start := c.pos
		if c.next() != '"' {
			return false
		}
		escaped, ok := c.string()
		if !ok || !c.take(':') {
			return false
		}
		name := c.src[start : c.pos-1]
		if !first && !ordered(last, name, lastEscaped || escaped) {
			return false
		}
		last, lastEscaped = name, escaped
		if !c.value() {
			return false
		}
		if c.take('}') {
			c.depth--
			return true
		}
		if !c.take(',') {
			return false
		}
	}
}

// ordered reports whether one name, in quotes, comes before another.
func ordered(a, b []byte, escaped bool) bool {
	if !escaped {
		// The closing quote is less than most characters, but not than all of them.
		return bytes.Compare(a[:len(a)-1], b[:len(b)-1]) < 0
	}
	one, err := Unquote(a)
	if err != nil {
		return false
	}
	other, err := Unquote(b)
	return err == nil && one < other
}

func (c *canonical) array() bool {
	if c.depth++; c.depth > MaxDepth {
		return false
	}
	c.pos++
	if c.take(']') {
		c.depth--
		return true
	}
	for {
		if !c.value() {
			return false
		}
		if c.take(']') {
			c.depth--
			return true
		}
		if !c.take(',') {
			return false
		}
	}
}

// asWritten marks the bytes that encoding/json writes as they are: it also escapes the special
// characters of HTML.
var asWritten = func() (t [256]bool) {
	t = plain
	t['<'], t['>'], t['&'] = false, false, false
	return t
}()

// string scans a string and reports whether it has escapes.
func (c *canonical) string() (escaped, ok bool) {
	i := c.pos + 1
	for i < len(c.src) {
		b := c.src[i]
		switch {
		case asWritten[b]:
			i++
		case b == '"':
			c.pos = i + 1
			return escaped, true
		case b == '\\':
			n := canonicalEscape(c.src[i+1:])
			if n == 0 {
				return true, false
			}
			escaped = true
			i += 1 + n
		case b >= utf8.RuneSelf:
			r, n := utf8.DecodeRune(c.src[i:])
			if r == utf8.RuneError && n == 1 || r == '\u2028' || r == '\u2029' {
				return escaped, false
			}
			i += n
		default:
			return escaped, false
		}
	}
	return escaped, false
}

// canonicalEscape returns the length of an escape after its backslash, or 0 if encoding/json
// writes the character differently.
func canonicalEscape(s []byte) int {
	if len(s) == 0 {
		return 0
	}
	switch s[0] {
	case '"', '\\', 'b', 'f', 'n', 'r', 't':
		return 1
	case 'u':
		if len(s) < 5 {
			return 0
		}
	default:
		return 0
	}
	switch code := string(s[1:5]); code {
	case "003c", "003e", "0026", "2028", "2029":
		return 5
	case "0008", "0009", "000a", "000c", "000d":
		return 0 // they have short forms
	default:
		if code[:2] == "00" && (code[2] == '0' || code[2] == '1') && (isDigit(code[3]) || 'a' <= code[3] && code[3] <= 'f') {
			return 5
		}
		return 0
	}
}

// number scans a number. Short integers are the common case; others are compared with what
// encoding/json writes.
func (c *canonical) number() bool {
	start := c.pos
	i := start
	if i < len(c.src) && c.src[i] == '-' {
		i++
	}
	digits := i
	for i < len(c.src) && isDigit(c.src[i]) {
		i++
	}
	n := i - digits
	if n > 0 && n <= 18 && (i == len(c.src) || c.src[i] != '.' && c.src[i] != 'e' && c.src[i] != 'E') {
		c.pos = i
		return c.src[digits] != '0' || n == 1 && digits == start
	}
	for i < len(c.src) && (isDigit(c.src[i]) || c.src[i] == '.' || c.src[i] == 'e' || c.src[i] == 'E' || c.src[i] == '+' || c.src[i] == '-') {
		i++
	}
	v, err := Parse(c.src[start:i])
	if err != nil {
		return false
	}
	text, err := json.Marshal(v)
	if err != nil || !bytes.Equal(text, c.src[start:i]) {
		return false
	}
	c.pos = i
	return true
}
