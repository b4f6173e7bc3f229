package yamlx

// flow reads the collection in braces or brackets at pos.
func (p *parser) flow() (*Node, bool) {
	if !p.enter() {
		return nil, false
	}
	start := p.pos
	open := p.src[p.pos]
	closing := byte(']')
	if open == '{' {
		closing = '}'
	}
	var n *Node
	if p.tree {
		n = p.node(Sequence, start)
		n.Flow = true
		if open == '{' {
			n.Kind = Mapping
		}
	}
	p.out = append(p.out, open)
	p.pos++
	for first := true; ; first = false {
		if !p.space() {
			return nil, false
		}
		if p.src[p.pos] == closing {
			break
		}
		if !first {
			p.out = append(p.out, ',')
		}
		var v *Node
		var ok bool
		if open == '{' {
			v, ok = p.flowEntry()
		} else {
			v, ok = p.flowValue()
		}
		if !ok || !p.space() {
			return nil, false
		}
		if p.tree {
			n.Children = append(n.Children, v)
		}
		if p.src[p.pos] == ',' {
			p.pos++
			continue
		}
		if p.src[p.pos] != closing {
			return nil, p.fail(p.pos, "expected \",\" or \""+string(closing)+"\"")
		}
		break
	}
	p.pos++
	p.out = append(p.out, closing)
	p.depth--
	if p.tree {
		n.End = p.pos
	}
	return n, true
}

// flowEntry reads an entry of a mapping in braces.
func (p *parser) flowEntry() (*Node, bool) {
	k, ok := p.key(true)
	if !ok {
		return nil, false
	}
	at := p.pos
	if !p.space() {
		return nil, false
	}
	var v *Node
	if c := p.src[p.pos]; c == ',' || c == '}' {
		v = p.null(at)
	} else if v, ok = p.flowValue(); !ok {
		return nil, false
	}
	if p.tree {
		k.give(v)
		v.Intro = at
	}
	return v, true
}

// flowValue reads a value within braces or brackets.
func (p *parser) flowValue() (*Node, bool) {
	switch c := p.src[p.pos]; c {
	case '{', '[':
		return p.flow()
	case '"', '\'':
		return p.quoted()
	case '&', '*', '!':
		return p.flowProperties()
	case '-':
		if p.blankAt(p.pos + 1) {
			return nil, p.fail(p.pos, "a list in braces or brackets must be written in brackets")
		}
	case '?', ':':
		return nil, p.unusual(p.pos, "an indicator within braces")
	case ',', ']', '}', '%', '@', '`', '|', '>', '#':
		return nil, p.fail(p.pos, "a value cannot start with "+string(c)+": quote it")
	}
	return p.flowPlain()
}

// space moves past blanks, line breaks and comments to the next token within braces
// or brackets.
func (p *parser) space() bool {
	src, i := p.src, p.pos
	for ; i < len(src); i++ {
		switch src[i] {
		case ' ', '\r':
		case '\t':
			if i == p.line || src[i-1] == '\n' {
				return p.unusual(i, "a tab that indents")
			}
		case '\n':
			p.line = i + 1
			if p.line < len(src) && isMarker(src, p.line) {
				return p.fail(p.line, "the document ends within braces or brackets")
			}
		case '#':
			if i > 0 && !isBlank(src[i-1]) {
				return p.unusual(i, "a comment without space before it")
			}
			i = LineEnd(src, i) - 1
		default:
			p.pos = i
			return true
		}
	}
	p.pos = i
	return p.fail(i, "the document ends within braces or brackets")
}

// flowPlain reads a plain scalar within braces or brackets, which must be on one line.
func (p *parser) flowPlain() (*Node, bool) {
	start := p.pos
	end, ok := p.flowPlainEnd()
	if !ok {
		return nil, false
	}
	if end < len(p.src) && p.src[end] == ':' {
		return nil, p.unusual(end, "a pair within brackets")
	}
	p.pos = end
	return p.resolved(start, trimBlanks(p.src, start, end))
}

// flowPlainEnd returns the end of the plain scalar at pos, at most the end of the line.
func (p *parser) flowPlainEnd() (int, bool) {
	src := p.src
	for i := p.pos; i < len(src); i++ {
		switch src[i] {
		case ',', '[', ']', '{', '}', '\n', '\r':
			return i, true
		case '?':
			return 0, p.unusual(i, "an indicator within braces")
		case '#':
			if isBlank(src[i-1]) {
				return i, true
			}
		case ':':
			if p.blankAt(i + 1) {
				return i, true
			}
		}
	}
	return len(src), true
}

// trimBlanks returns the end of src[start:end] without trailing blanks.
func trimBlanks(src []byte, start, end int) int {
	for end > start && isBlank(src[end-1]) {
		end--
	}
	return end
}
