package yamlx

import "espalier.dev/internal/jsonx"

// quotedKey reports whether the quoted scalar at pos is a key.
func (p *parser) quotedKey() bool {
	src, quote := p.src, p.src[p.pos]
	i := p.pos + 1
	for ; i < len(src) && src[i] != quote; i++ {
		switch src[i] {
		case '\n':
			return false
		case '\\':
			if quote == '"' {
				i++
			}
		}
		if i+2 < len(src) && quote == '\'' && src[i+1] == quote && src[i+2] == quote {
			i += 2
		}
	}
	for i++; i < len(src) && (src[i] == ' ' || src[i] == '\t'); i++ {
	}
	return i < len(src) && src[i] == ':' && p.blankAt(i+1)
}

// plainKey reports whether the plain scalar at pos is a key.
func (p *parser) plainKey() bool {
	src := p.src
	for i := p.pos; i < len(src); i++ {
		switch src[i] {
		case ':':
			if p.blankAt(i + 1) {
				return true
			}
		case '\n':
			return false
		case '#':
			if i > p.pos && isBlank(src[i-1]) {
				return false
			}
		}
	}
	return false
}

// key reads a key and its colon.
func (p *parser) key(flow bool) (k key, ok bool) {
	src, start := p.src, p.pos
	mark := len(p.out)
	switch c := src[start]; c {
	case '"', '\'':
		line := p.line
		if _, ok := p.quoted(); !ok {
			return k, false
		}
		if p.line != line {
			return k, p.fail(start, "a key must be on one line")
		}
		k.start, k.end = start, p.pos
		p.blanks()
		if p.pos == len(src) || src[p.pos] != ':' || !flow && !p.blankAt(p.pos+1) {
			return k, p.fail(p.pos, "expected \": \" after the key")
		}
	case '-', '?', ':':
		if p.blankAt(start+1) || flow && c != '-' {
			return k, p.unusual(start, "an indicator where a key is expected")
		}
		fallthrough
	default:
		if !p.barePlainKey(&k, flow) {
			return k, false
		}
	case '&', '*', '!':
		return k, p.unusual(start, "an anchor, alias or tag at a key")
	case ',', '[', ']', '{', '}', '#', '|', '>', '%', '@', '`':
		return k, p.fail(start, "expected a key")
	}
	if p.pos-start > MaxKey {
		return k, p.unusual(start, "a very long key")
	}
	if p.tree {
		k.name = unquoted(p.out[mark:])
	}
	p.pos++
	p.out = append(p.out, ':')
	return k, true
}

// barePlainKey reads a plain key up to its colon.
func (p *parser) barePlainKey(k *key, flow bool) bool {
	src, start := p.src, p.pos
	i := start
	if flow {
		end, ok := p.flowPlainEnd()
		if !ok {
			return false
		}
		i = end
	} else {
		for i < len(src) && src[i] != '\n' && (src[i] != ':' || !p.blankAt(i+1)) {
			if src[i] == '#' && i > start && isBlank(src[i-1]) {
				break
			}
			i++
		}
	}
	if i == len(src) || src[i] != ':' {
		if flow {
			return p.unusual(start, "a key without a value")
		}
		return p.fail(start, "expected a key followed by \": \"")
	}
	p.pos = i
	end := trimBlanks(src, start, i)
	k.start, k.end = start, end
	text := src[start:end]
	if mayMean(text) {
		name, err := keyString(Resolve(string(text)))
		if err != nil {
			return p.fail(start, err.Error())
		}
		p.out = jsonx.AppendString(p.out, name)
		return true
	}
	if len(text) == 2 && string(text) == "<<" {
		if !p.tree {
			return p.unusual(start, "a merge key")
		}
		k.merge = true
	}
	p.out = jsonx.AppendString(p.out, text)
	return true
}

// mayMean reports whether a plain scalar may be something other than a string.
func mayMean(text []byte) bool {
	switch hint(text[0]) {
	case 0:
		return false
	case 'M':
		_, ok := word(text)
		return ok
	}
	return true
}

// plain reads a plain scalar in a collection that is indented by indent, and leaves p
// at the next token.
func (p *parser) plain(indent int) (*Node, bool) {
	start := p.pos
	end, ok := p.plainLine(start)
	if !ok {
		return nil, false
	}
	p.pos = end
	last := p.line
	if !p.restAfterPlain() {
		return nil, false
	}
	if !p.commented {
		if !p.next() {
			return nil, false
		}
		if !p.commented && p.column() > indent {
			p.pos, p.line = end, last
			return p.plainLines(start, end, indent)
		}
	} else if !p.next() {
		return nil, false
	}
	return p.resolved(start, end)
}

// restAfterPlain is rest, and sets commented if it passed a comment.
func (p *parser) restAfterPlain() bool {
	p.commented = false
	return p.rest()
}

// plainLine returns the end of the plain text that starts at i within its line.
func (p *parser) plainLine(i int) (int, bool) {
	src, start := p.src, i
	for ; i < len(src); i++ {
		if !stops[src[i]] {
			continue
		}
		switch src[i] {
		case '\n':
			return trimBlanks(src, start, i), true
		case ':':
			if p.blankAt(i + 1) {
				return 0, p.fail(i, "a second \": \" on one line: quote the value if the colon belongs to it")
			}
		case '#':
			if isBlank(src[i-1]) {
				return trimBlanks(src, start, i), true
			}
		}
	}
	return trimBlanks(src, start, i), true
}

// stops are the bytes that may end a plain scalar.
var stops = [256]bool{'\n': true, ':': true, '#': true}

// plainLines reads a plain scalar that spans several lines. Its first line is src[start:end].
func (p *parser) plainLines(start, end, indent int) (*Node, bool) {
	src := p.src
	s := append(p.tmp[:0], src[start:end]...)
	for {
		breaks := 0
		i := p.pos
		for {
			i = LineEnd(src, i)
			if i == len(src) {
				break
			}
			i++
			p.line = i
			breaks++
			for i < len(src) && src[i] == ' ' {
				i++
			}
			if i < len(src) && src[i] != '\n' && src[i] != '\r' {
				break
			}
		}
		p.pos = i
		if p.column() <= indent || src[i] == '#' {
			break
		}
		if src[i] == '\t' {
			return nil, p.unusual(i, "a tab that indents")
		}
		lineEnd, ok := p.plainLine(i)
		if !ok {
			return nil, false
		}
		s = appendBreaks(s, breaks)
		s = append(s, src[i:lineEnd]...)
		p.pos, end = lineEnd, lineEnd
		if at := skipBlanks(src, lineEnd); at < len(src) && src[at] == '#' {
			if !p.rest() {
				return nil, false
			}
			break
		}
	}
	p.tmp = s
	if !p.next() {
		return nil, false
	}
	return p.text(start, end, s), true
}

// appendBreaks folds line breaks: a single one becomes a space.
func appendBreaks(s []byte, breaks int) []byte {
	if breaks == 1 {
		return append(s, ' ')
	}
	for ; breaks > 1; breaks-- {
		s = append(s, '\n')
	}
	return s
}

// skipBlanks returns the first offset from i that is neither a space nor a tab.
func skipBlanks(src []byte, i int) int {
	for i < len(src) && (src[i] == ' ' || src[i] == '\t') {
		i++
	}
	return i
}

// text returns the node of the string s at src[start:end].
func (p *parser) text(start, end int, s []byte) *Node {
	mark := len(p.out)
	p.out = jsonx.AppendString(p.out, s)
	return p.scalar(start, end, mark)
}

// scalar returns the node of a scalar whose JSON text starts at mark.
func (p *parser) scalar(start, end, mark int) *Node {
	if !p.tree {
		return nil
	}
	// Nodes can share out because it is never rewritten.
	n := p.node(Scalar, start)
	n.End, n.JSON = end, p.out[mark:len(p.out):len(p.out)]
	return n
}

// resolved writes the value of the plain scalar src[start:end].
func (p *parser) resolved(start, end int) (*Node, bool) {
	text := p.src[start:end]
	mark := len(p.out)
	switch hint(text[0]) {
	case 0:
		p.out = jsonx.AppendString(p.out, text)
	case 'M':
		v, ok := word(text)
		switch {
		case !ok:
			p.out = jsonx.AppendString(p.out, text)
		case v == nil:
			p.out = append(p.out, "null"...)
		case v == true:
			p.out = append(p.out, "true"...)
		default:
			p.out = append(p.out, "false"...)
		}
	default:
		if digits(text) {
			p.out = append(p.out, text...)
			break
		}
		w := valueWriter{out: p.out, limit: len(p.out)}
		if err := w.value(Resolve(string(text))); err != nil {
			return nil, p.fail(start, err.Error())
		}
		p.out = w.out
	}
	return p.scalar(start, end, mark), true
}

// digits reports whether text is a decimal number as JSON writes it.
func digits(text []byte) bool {
	if text[0] == '0' {
		return len(text) == 1
	}
	if len(text) > 18 {
		return false
	}
	for _, c := range text {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}
