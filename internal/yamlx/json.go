package yamlx

import (
	"bytes"

	"espalier.dev/internal/jsonx"
)

// validJSON says whether src is one JSON value.
func validJSON(src []byte) bool {
	var r jsonx.Reader
	r.Reset(trimJSON(src))
	return r.Skip() == nil && r.End() == nil
}

// trimJSON drops what may stand around a JSON value.
func trimJSON(src []byte) []byte {
	return bytes.TrimSpace(bytes.TrimPrefix(src, bom))
}

// nodesOfJSON builds the nodes of a text that is valid JSON.
func nodesOfJSON(src []byte) *node {
	s := jsonScanner{src: src}
	if bytes.HasPrefix(src, bom) {
		s.pos = len(bom)
	}
	return s.value()
}

// jsonScanner steps through valid JSON.
type jsonScanner struct {
	src []byte
	pos int
}

// peek moves past white space and returns the byte there, 0 at the end.
func (s *jsonScanner) peek() byte {
	for s.pos < len(s.src) && isBlank(s.src[s.pos]) {
		s.pos++
	}
	if s.pos == len(s.src) {
		return 0
	}
	return s.src[s.pos]
}

func (s *jsonScanner) value() *node {
	c := s.peek()
	n := &node{start: s.pos, first: s.pos}
	switch c {
	case '{', '[':
		n.flow, n.kind = true, sequence
		if c == '{' {
			n.kind = mapping
		}
		s.pos++
		for c := s.peek(); c != '}' && c != ']' && c != 0; c = s.peek() {
			if c == ',' {
				s.pos++
				continue
			}
			var k key
			if n.kind == mapping {
				k.start = s.pos
				s.string()
				k.end = s.pos
				k.name = unquoteJSON(s.src[k.start:k.end])
				s.peek()
				s.pos++
			}
			intro := s.pos
			v := s.value()
			if n.kind == mapping {
				k.give(v)
				v.intro = intro
			}
			n.children = append(n.children, v)
		}
		s.pos++
	case '"':
		s.string()
	default:
		for s.pos < len(s.src) && !isBlank(s.src[s.pos]) && !bytes.ContainsRune([]byte(",]}"), rune(s.src[s.pos])) {
			s.pos++
		}
	}
	n.end = min(s.pos, len(s.src))
	if n.kind == scalar {
		n.json = s.src[n.start:n.end]
	}
	return n
}

// string moves past the string at pos.
func (s *jsonScanner) string() {
	for s.pos++; s.pos < len(s.src) && s.src[s.pos] != '"'; s.pos++ {
		if s.src[s.pos] == '\\' {
			s.pos++
		}
	}
	s.pos++
}

const hex = "0123456789abcdef"

// appendString writes s as a JSON string.
func appendString[T string | []byte](out []byte, s T) []byte {
	out = append(out, '"')
	out = appendEscaped(out, s)
	return append(out, '"')
}

// appendEscaped writes what stands between the quotes of a JSON string.
func appendEscaped[T string | []byte](out []byte, s T) []byte {
	from := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' {
			continue
		}
		out = append(out, s[from:i]...)
		from = i + 1
		switch c {
		case '"', '\\':
			out = append(out, '\\', c)
		case '\n':
			out = append(out, '\\', 'n')
		case '\r':
			out = append(out, '\\', 'r')
		case '\t':
			out = append(out, '\\', 't')
		default:
			out = append(out, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
	}
	return append(out, s[from:]...)
}
