package yamlx

import (
	"espalier.dev/internal/jsonx"
	"unicode/utf8"
)

// quoted reads the quoted scalar at pos and leaves p behind its closing quote.
func (p *parser) quoted() (*Node, bool) {
	src, start := p.src, p.pos
	quote := src[start]
	mark := len(p.out)
	for i := start + 1; i < len(src); i++ {
		c := src[i]
		if c == quote {
			if quote == '\'' && i+1 < len(src) && src[i+1] == quote {
				break
			}
			p.pos = i + 1
			if quote == '"' {
				p.out = append(p.out, src[start:i+1]...)
			} else {
				p.out = jsonx.AppendString(p.out, src[start+1:i])
			}
			return p.scalar(start, p.pos, mark), true
		}
		if c < ' ' || c == '\\' && quote == '"' {
			break
		}
	}
	s, ok := p.unquote(quote)
	if !ok {
		return nil, false
	}
	p.tmp = s
	return p.text(start, p.pos, s), true
}

// unquote returns the text of a quoted scalar that has escapes or spans several lines.
func (p *parser) unquote(quote byte) ([]byte, bool) {
	src, start := p.src, p.pos
	s := p.tmp[:0]
	i := start + 1
	for {
		if i == p.line && i < len(src) && isMarker(src, i) {
			return nil, p.fail(start, "the quote is not closed within the document")
		}
		// folding is set after a line break, breaks counts those that are folded.
		folding, breaks := false, 0
	text:
		for i < len(src) && !isBlank(src[i]) {
			switch c := src[i]; {
			case c == quote && quote == '\'' && i+1 < len(src) && src[i+1] == quote:
				s = append(s, quote)
				i += 2
			case c == quote:
				p.pos = i + 1
				return s, true
			case c == '\\' && quote == '"':
				n := p.escapedBreak(i + 1)
				if n > 0 {
					i += 1 + n
					p.line = i
					folding = true
					break text
				}
				var ok bool
				if s, i, ok = p.escape(s, i); !ok {
					return nil, false
				}
			default:
				s = append(s, c)
				i++
			}
		}
		escaped := folding
		from := i
		for i < len(src) && isBlank(src[i]) {
			if src[i] == '\n' {
				folding = true
				breaks++
				p.line = i + 1
			}
			i++
		}
		if i == len(src) {
			return nil, p.fail(start, "the quote is not closed")
		}
		switch {
		case !folding:
			s = append(s, src[from:i]...)
		case escaped:
			for range breaks {
				s = append(s, '\n')
			}
		default:
			s = appendBreaks(s, breaks)
		}
	}
}

// escapedBreak returns the length of the line break at i, 0 if there is none.
func (p *parser) escapedBreak(i int) int {
	switch {
	case i < len(p.src) && p.src[i] == '\n':
		return 1
	case i+1 < len(p.src) && p.src[i] == '\r' && p.src[i+1] == '\n':
		return 2
	}
	return 0
}

// escape appends the character of the escape sequence at i, and returns the offset after it.
func (p *parser) escape(s []byte, i int) ([]byte, int, bool) {
	if i+1 >= len(p.src) {
		return nil, 0, p.fail(i, "the quote is not closed")
	}
	c := p.src[i+1]
	digits := 0
	switch c {
	case 'x':
		digits = 2
	case 'u':
		digits = 4
	case 'U':
		digits = 8
	default:
		r, ok := escapes[c]
		if !ok {
			return nil, 0, p.fail(i, "\\"+string(rune(c))+" is not an escape sequence: write \\\\ for a backslash, or use single quotes")
		}
		return utf8.AppendRune(s, r), i + 2, true
	}
	i += 2
	var r rune
	for range digits {
		d := -1
		if i < len(p.src) {
			d = hexDigit(p.src[i])
		}
		if d < 0 || r > utf8.MaxRune {
			return nil, 0, p.fail(i, "invalid hexadecimal digits in an escape sequence")
		}
		r = r<<4 | rune(d)
		i++
	}
	if !utf8.ValidRune(r) {
		return nil, 0, p.fail(i, "the escape sequence is not a Unicode character")
	}
	return utf8.AppendRune(s, r), i, true
}

// escapes are the one-letter escape sequences in double quotes.
var escapes = map[byte]rune{
	'0': 0, 'a': 7, 'b': 8, 't': '\t', '\t': '\t', 'n': '\n', 'v': 11, 'f': 12, 'r': '\r', 'e': 27, ' ': ' ', '"': '"',
	'\'': '\'', '\\': '\\', 'N': 0x85, '_': 0xa0, 'L': 0x2028, 'P': 0x2029,
}

func hexDigit(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}
