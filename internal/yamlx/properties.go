package yamlx

// propertyTokens reads the anchor and the tag at pos, or an alias.
func (p *parser) propertyTokens() (anchor, aliased string, ok bool) {
	for p.pos < len(p.src) {
		c := p.src[p.pos]
		if c != '&' && c != '*' && c != '!' {
			break
		}
		start := p.pos
		for p.pos++; !p.blankAt(p.pos) && (c == '!' || isNameByte(p.src[p.pos])); p.pos++ {
		}
		name := string(p.src[start+1 : p.pos])
		if c != '!' && name == "" {
			return "", "", p.fail(start, "an anchor or alias without a name")
		}
		switch c {
		case '*':
			return "", name, true
		case '&':
			anchor = name
		}
		if !p.blankAt(p.pos) {
			return "", "", p.unusual(start, "an anchor or tag without space after it")
		}
		p.blanks()
	}
	return anchor, "", true
}

// isNameByte reports whether c may be part of an anchor's name.
func isNameByte(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c == '_' || c == '-'
}

// propertiesOfKey reports whether the anchor, tag or alias at pos belongs to a key.
func (p *parser) propertiesOfKey() bool {
	was := p.pos
	defer func() { p.pos = was }()
	_, aliased, ok := p.propertyTokens()
	if !ok || p.pos == len(p.src) {
		return false
	}
	if aliased != "" {
		p.blanks()
		return p.pos < len(p.src) && p.src[p.pos] == ':'
	}
	switch p.src[p.pos] {
	case '"', '\'':
		return p.quotedKey()
	}
	return p.plainKey()
}

// properties reads an alias, or a value with an anchor or tag. Only trees have them.
func (p *parser) properties(indent int) (*Node, bool) {
	if !p.tree {
		return nil, p.unusual(p.pos, "an anchor, alias or tag")
	}
	first := p.pos
	anchor, aliased, ok := p.propertyTokens()
	if !ok {
		return nil, false
	}
	if aliased != "" {
		n, ok := p.alias(first, aliased)
		return n, ok && p.restNext()
	}
	at := p.pos
	var n *Node
	if p.lineEnds() {
		if !p.restNext() {
			return nil, false
		}
		if p.column() == indent && p.src[p.pos] == '-' {
			return nil, p.unusual(p.pos, "a list that is not indented below an anchor or tag")
		}
		n, ok = p.below(indent, trimBlanks(p.src, first, at), false)
	} else {
		n, ok = p.inline(indent)
	}
	if !ok {
		return nil, false
	}
	p.mark(n, first, anchor)
	return n, true
}

// flowProperties is properties in braces or brackets.
func (p *parser) flowProperties() (*Node, bool) {
	if !p.tree {
		return nil, p.unusual(p.pos, "an anchor, alias or tag")
	}
	first := p.pos
	anchor, aliased, ok := p.propertyTokens()
	if !ok {
		return nil, false
	}
	if aliased != "" {
		return p.alias(first, aliased)
	}
	if !p.space() {
		return nil, false
	}
	n, ok := p.flowValue()
	if !ok {
		return nil, false
	}
	p.mark(n, first, anchor)
	return n, true
}

// alias returns the node of an alias that ends at pos.
func (p *parser) alias(start int, name string) (*Node, bool) {
	target := p.anchors[name]
	if target == nil {
		return nil, p.fail(start, "no anchor &"+name+" before this alias")
	}
	p.out = append(p.out, "null"...)
	return &Node{Kind: Alias, Start: start, First: start, End: p.pos, target: target}, true
}

// mark adds the anchor and tag that start at first to a node.
func (p *parser) mark(n *Node, first int, anchor string) {
	n.First = first
	if anchor != "" {
		if p.anchors == nil {
			p.anchors = map[string]*Node{}
		}
		p.anchors[anchor] = n
	}
}
