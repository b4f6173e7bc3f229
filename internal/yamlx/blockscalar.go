package yamlx

import (
	"encoding/binary"

	"espalier.dev/internal/jsonx"
)

// blockScalar reads the literal or folded scalar at pos, in a collection that is indented by
// parent, and leaves p at the next token.
func (p *parser) blockScalar(parent int) (*Node, bool) {
	src, start := p.src, p.pos
	literal := src[start] == '|'
	indent, chomp, ok := p.blockHeader(parent)
	if !ok {
		return nil, false
	}
	end := trimBlanks(src, start, p.pos)
	if indent == 0 {
		if indent, ok = p.blockIndent(parent); !ok {
			return nil, false
		}
	}
	mark := len(p.out)
	p.out = append(p.out, '"')
	// broken is set when a line break is pending, empty counts the empty lines after it; more
	// is set if the last line was indented further.
	broken, empty, more := false, 0, false
	i := p.pos
	for i < len(src) {
		k := i
		for k < len(src) && k-i < indent && src[k] == ' ' {
			k++
		}
		if k == len(src) {
			i = k
			break
		}
		if src[k] == '\n' || src[k] == '\r' {
			if src[k] == '\r' {
				k++
			}
			empty++
			i = k + 1
			if chomp == '+' {
				end = k
			}
			continue
		}
		if k-i < indent {
			if src[k] == '\t' {
				return nil, p.fail(k, "a tab cannot indent: use spaces")
			}
			break
		}
		blank := src[k] == ' ' || src[k] == '\t'
		if !literal && !more && !blank && broken {
			if empty == 0 {
				p.out = append(p.out, ' ')
			}
		} else if broken {
			p.out = append(p.out, '\\', 'n')
		}
		p.breaks(empty)
		empty, more = 0, blank
		stop := LineEnd(src, k)
		end = stop
		if end > k && end < len(src) && src[end-1] == '\r' {
			end--
		}
		p.out = jsonx.AppendEscaped(p.out, src[k:end])
		broken = stop < len(src)
		i = min(stop+1, len(src))
	}
	if broken && chomp != '-' {
		p.breaks(1)
	}
	if chomp == '+' {
		p.breaks(empty)
	}
	p.out = append(p.out, '"')
	p.pos, p.line = i, i
	return p.scalar(start, end, mark), p.next()
}

// breaks writes n line breaks.
func (p *parser) breaks(n int) {
	for range n {
		p.out = append(p.out, '\\', 'n')
	}
}

// blockHeader reads the first line of a block scalar. indent is 0 if the line has no
// indentation indicator; chomp is '+', '-' or 0.
func (p *parser) blockHeader(parent int) (indent int, chomp byte, ok bool) {
	p.pos++
	for range 2 {
		if p.pos == len(p.src) {
			break
		}
		switch c := p.src[p.pos]; {
		case (c == '+' || c == '-') && chomp == 0:
			chomp = c
			p.pos++
		case c >= '1' && c <= '9' && indent == 0:
			indent = int(c-'0') + max(parent, 0)
			p.pos++
		}
	}
	return indent, chomp, p.rest()
}

// blockIndent detects the indentation of a block scalar.
func (p *parser) blockIndent(parent int) (int, bool) {
	src, widest := p.src, 0
	for i := p.pos; ; {
		k := i
		for k < len(src) && src[k] == ' ' {
			k++
		}
		widest = max(widest, k-i)
		if k == len(src) || src[k] != '\n' && src[k] != '\r' {
			if k < len(src) && src[k] == '\t' {
				return 0, p.fail(k, "a tab cannot indent: use spaces")
			}
			break
		}
		i = LineEnd(src, k) + 1
	}
	return max(widest, parent+1, 1), true
}

// Regular reports whether the parser supports all characters of src: no control characters,
// carriage returns only before line feeds, and none of the rarer line breaks and marks of
// Unicode.
func Regular(src []byte) bool {
	start := 0
	if len(src) >= len(bom) && string(src[:len(bom)]) == string(bom) {
		start = len(bom)
	}
	for i := start; i < len(src); i++ {
		for i+8 <= len(src) && !suspicious(binary.LittleEndian.Uint64(src[i:])) {
			i += 8
		}
		if i == len(src) {
			break
		}
		if !suspects[src[i]] {
			continue
		}
		next := func(n int) byte {
			if i+n < len(src) {
				return src[i+n]
			}
			return 0
		}
		switch src[i] {
		case '\r':
			if next(1) != '\n' {
				return false
			}
		case 0xc2:
			// The control characters U+0080 to U+009F.
			if next(1) < 0xa0 {
				return false
			}
		case 0xe2:
			// The line and paragraph separators.
			if next(1) == 0x80 && (next(2) == 0xa8 || next(2) == 0xa9) {
				return false
			}
		case 0xef:
			// The byte order mark, and noncharacters.
			if next(1) == 0xbb && next(2) == 0xbf || next(1) == 0xbf && next(2) >= 0xbe {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// suspicious reports whether one of eight bytes is beyond ASCII or a control character other than a line
// feed. Few words have one.
func suspicious(w uint64) bool {
	const ones, low, tops = 0x0101010101010101, 0x7f7f7f7f7f7f7f7f, 0x8080808080808080
	// The sums set the highest bit of a byte that is printable or DEL, that is DEL, and that is no line feed.
	printable, del, other := w&low+ones*(0x80-' '), w&low+ones, (w^ones*'\n')&low+low
	return (w|del|^printable&other)&tops != 0
}

// suspects are the bytes that Regular must examine.
var suspects = func() (t [256]bool) {
	for c := range 0x20 {
		t[c] = c != '\t' && c != '\n'
	}
	t[0x7f], t[0xc2], t[0xe2], t[0xef] = true, true, true, true
	return t
}()
