package assist

import "bytes"

// flow reads the collection in braces or brackets at i, which is the value of n, and moves on to
// the line after it. A collection that is not closed ends before a line that starts an entry of the
// block around it.
func (s *scanner) flow(n *node, i int) {
	indent := around(n)
	f := &flowScanner{scanner: s}
	f.enter(n, i)
	for i++; i < s.to && len(f.open) > 0; {
		c := s.src[i]
		switch {
		case c == '\n':
			f.separator(i)
			stop := s.lineEnd(i + 1)
			first := s.skip(min(i+1, s.to), stop)
			if indent >= 0 && first < stop && s.column(first) <= indent && s.startsEntry(first, stop) {
				f.close(i)
				s.pos = i + 1
				return
			}
			i++
		case blank(c):
			f.separator(i)
			i++
		case s.comment(i, s.to):
			end := s.lineEnd(i)
			if s.touches(i, end) {
				s.hit = hit{what: hitNothing}
			}
			i = max(end, i+1)
		default:
			i = f.token(i)
		}
	}
	f.close(min(i, s.to))
	s.next(min(i, s.to))
	if i >= s.to {
		s.pos = s.to
	}
}

// flowScanner reads a collection in braces or brackets.
type flowScanner struct {
	*scanner
	// open has the open collections, the innermost last.
	open []*flowOpen
}

// flowOpen is an open collection.
type flowOpen struct {
	n *node
	// entry is the entry or item after the last comma, or nil.
	entry *node
	// done is set if the entry has its value.
	done bool
}

func (f *flowScanner) top() *flowOpen { return f.open[len(f.open)-1] }

// enter opens the collection at i, the value of n.
func (f *flowScanner) enter(n *node, i int) {
	n.form, n.flow, n.style, n.start, n.end, n.children = sequence, true, 0, i, i+1, nil
	if f.src[i] == '{' {
		n.form = mapping
	}
	f.open = append(f.open, &flowOpen{n: n})
}

// close ends all open collections at i.
func (f *flowScanner) close(i int) {
	for _, o := range f.open {
		o.n.end = i
	}
	if len(f.open) > 0 && f.touches(f.open[0].n.start+1, i) {
		f.separator(f.cursor)
	}
	f.open = nil
}

// separator notes what belongs to the cursor if it is at i, where no scalar is.
func (f *flowScanner) separator(i int) {
	if !f.touches(i, i) {
		return
	}
	h := hit{start: i, end: i, in: f.top().n}
	switch o := f.top(); {
	case o.entry == nil && o.n.form == mapping:
		h.what = hitNewKey
	case o.entry == nil:
		h.what = hitNewItem
	case o.done || o.entry.colon < 0:
		h.what = hitNothing
	default:
		h.what, h.node = hitValue, o.entry
	}
	f.hit = h
}

// next returns the node for a value at i, or nil if none can be there.
func (f *flowScanner) next(i int) *node {
	o := f.top()
	switch {
	case o.entry != nil && !o.done && o.entry.colon >= 0:
		o.done = true
		return o.entry
	case o.n.form == sequence && o.entry == nil:
		o.entry, o.done = o.n.add(&node{start: i, end: i}), true
		return o.entry
	}
	return nil
}

// token reads a token at i and returns the offset after it.
func (f *flowScanner) token(i int) int {
	c := f.src[i]
	o := f.top()
	switch c {
	case '{', '[':
		f.separator(i)
		n := f.next(i)
		if n == nil {
			n = &node{parent: o.n} // misplaced
		}
		if len(f.open) == maxDepth {
			return f.to
		}
		f.enter(n, i)
		return i + 1
	case '}', ']':
		f.separator(i)
		o.n.end = i + 1
		f.open = f.open[:len(f.open)-1]
		return i + 1
	case ',':
		f.separator(i)
		o.entry, o.done = nil, false
		return i + 1
	case ':':
		f.separator(i)
		f.colon(i)
		return i + 1
	case '&', '!':
		for i < f.to && !blank(f.src[i]) && f.src[i] != '\n' {
			i++
		}
		return i
	}
	return f.scalar(i)
}

// colon reads a colon at i.
func (f *flowScanner) colon(i int) {
	o := f.top()
	switch {
	case o.entry == nil:
	case o.n.form == mapping && !o.done:
		o.entry.colon, o.entry.start, o.entry.end = i+1, i+1, i+1
	case o.n.form == sequence && o.entry.form == scalar:
		// [a: b] is a list of mappings.
		item := o.entry
		key := &node{keyed: true, key: f.text(item, item.end), keyStart: item.start, keyEnd: item.end, colon: i + 1, start: i + 1, end: i + 1}
		item.form, item.flow, item.style, item.children = mapping, true, 0, nil
		o.entry, o.done = item.add(key), false
		if f.hit.what == hitValue && f.hit.node == item && f.hit.start == key.keyStart {
			f.hit = hit{what: hitKey, node: key, start: key.keyStart, end: key.keyEnd}
		}
	}
}

// scalar reads a scalar at i and returns the offset after it.
func (f *flowScanner) scalar(i int) int {
	end, style, closed := f.flowScalarEnd(i)
	o := f.top()
	if o.n.form == mapping && o.entry == nil {
		o.entry = o.n.add(&node{keyed: true, keyStart: i, keyEnd: end, colon: -1, start: end, end: end, closed: closed})
		text := string(f.src[i:end])
		if style != 0 {
			o.entry.key = unquote(text)
		} else {
			o.entry.key = keyName(text)
		}
		if f.touches(i, end) {
			f.hit = hit{what: hitKey, node: o.entry, start: i, end: end}
		}
		return end
	}
	n := f.next(i)
	if n == nil {
		if f.touches(i, end) {
			f.hit = hit{what: hitNothing}
		}
		return end
	}
	n.form, n.style, n.start, n.end, n.closed = scalar, style, i, end, closed
	if style == 0 && f.src[i] == '*' {
		n.form = alias
	}
	if f.touches(i, end) {
		f.hit = hit{what: hitValue, node: n, start: i, end: end}
	}
	return end
}

// flowScalarEnd returns the end of the scalar at i, and its quote.
func (f *flowScanner) flowScalarEnd(i int) (end int, style byte, closed bool) {
	if c := f.src[i]; c == '"' || c == '\'' {
		line := f.lineEnd(i)
		if end, closed = f.quoteEnd(i, line); closed {
			return end, c, true
		}
		// A string of several lines, unless its line ends like one whose quote is missing.
		if !f.root.flow {
			var n node
			n.parent = &node{indent: around(f.open[0].n)}
			f.quoted(&n, i, line)
			if n.closed {
				return n.end, c, true
			}
		}
		return line, c, false
	}
	end = i
	for end < f.to {
		c := f.src[end]
		if c == '\n' || c == ',' || c == '{' || c == '}' || c == '[' || c == ']' || f.comment(end, f.to) {
			break
		}
		if c == ':' && (end+1 >= f.to || blank(f.src[end+1]) || bytes.IndexByte([]byte("\n,{}[]"), f.src[end+1]) >= 0) {
			break
		}
		end++
	}
	for end > i+1 && blank(f.src[end-1]) {
		end--
	}
	return max(end, i+1), 0, false
}
