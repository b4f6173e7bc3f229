package assist

import (
	"bytes"

	"espalier.dev/internal/yamlx"
)

// scanner builds the outline of a document, line by line, and notes what is at the cursor. It
// reads every byte a bounded number of times and accepts any text.
type scanner struct {
	outline
	// to is the end of the document.
	to int
	// pos is the start of the next line.
	pos    int
	cursor int
	hit    hit
	// stack has the open block collections, the innermost last.
	stack []*node
	// indented and dashed are set when step and dash were measured.
	indented, dashed bool
}

// hit is what a scanner has found at the cursor.
type hit struct {
	what hitKind
	// node is the entry or value, for newLine the last value before the cursor in the collection
	// around it, which is in (nil at the root).
	node, in *node
	// start and end enclose the token under the cursor.
	start, end int
	// column is the column of the cursor, for newLine.
	column int
}

type hitKind uint8

const (
	notHit hitKind = iota
	// hitNothing is a comment, or text in which nothing can be completed.
	hitNothing
	hitKey
	hitValue
	// hitNewLine is a line that is blank up to the cursor.
	hitNewLine
	// hitNewKey and hitNewItem are places in braces or brackets.
	hitNewKey
	hitNewItem
)

// scan returns the outline of the document around the cursor: text may have several.
func scan(text []byte, cursor int) *scanner {
	cursor = max(0, min(cursor, len(text)))
	if cursor > 0 && text[cursor-1] == '\r' && (cursor == len(text) || text[cursor] == '\n') {
		cursor--
	}
	s := &scanner{outline: outline{src: text, root: &node{}, step: 2, eol: "\n"}, cursor: cursor}
	if bytes.Contains(text, []byte("\r\n")) {
		s.eol = "\r\n"
	}
	s.pos, s.to = documentAround(text, cursor)
	if s.pos == 0 && bytes.HasPrefix(text, []byte("\ufeff")) {
		s.pos = len("\ufeff")
	}
	for s.pos < s.to {
		s.line()
	}
	if s.hit.what == notHit {
		s.hitLine(s.column(s.cursor))
	}
	return s
}

// documentAround returns the start and the end of the document that has the cursor.
func documentAround(text []byte, cursor int) (from, to int) {
	to = len(text)
	for i := 0; i < len(text); i = min(len(text), yamlx.LineEnd(text, i)+1) {
		if !marker(text, i) {
			continue
		}
		if i+3 > cursor && i > 0 {
			return from, i
		}
		from = i + 3
	}
	return from, to
}

// marker reports whether the line at i starts with a document marker.
func marker(text []byte, i int) bool {
	if len(text) < i+3 {
		return false
	}
	if m := string(text[i : i+3]); m != "---" && m != "..." {
		return false
	}
	return len(text) == i+3 || blank(text[i+3]) || text[i+3] == '\n'
}

// blank reports whether c separates tokens on a line.
func blank(c byte) bool { return c == ' ' || c == '\t' || c == '\r' }

// lineEnd returns the end of the line of i, without its line break.
func (s *scanner) lineEnd(i int) int {
	end := min(yamlx.LineEnd(s.src, i), s.to)
	for end > i && s.src[end-1] == '\r' {
		end--
	}
	return end
}

// next moves on to the line after the one of i.
func (s *scanner) next(i int) { s.pos = min(yamlx.LineEnd(s.src, i)+1, s.to) }

// column returns the column of an offset. A tab ends at an even column.
func (s *scanner) column(offset int) int {
	start := bytes.LastIndexByte(s.src[:offset], '\n') + 1
	return s.columnAfter(0, start, offset)
}

// columnAfter returns the column of an offset on the same line as start, which is in column col.
func (s *scanner) columnAfter(col, start, offset int) int {
	for _, c := range s.src[start:offset] {
		col++
		if c == '\t' {
			col += col % 2
		}
	}
	return col
}

// skip returns the offset of the first byte from i to end that is not blank.
func (s *scanner) skip(i, end int) int {
	for i < end && blank(s.src[i]) {
		i++
	}
	return i
}

// touches reports whether the cursor is between two offsets, both included, and nothing was found
// at it yet.
func (s *scanner) touches(start, end int) bool {
	return s.hit.what == notHit && start <= s.cursor && s.cursor <= end
}

// comment reports whether a comment starts at i.
func (s *scanner) comment(i, end int) bool {
	return i < end && s.src[i] == '#' && (i == 0 || blank(s.src[i-1]) || s.src[i-1] == '\n')
}

// template reports whether a directive of a template language such as Helm's is at i.
func (s *scanner) template(i, end int) bool {
	return i+1 < end && s.src[i] == '{' && s.src[i+1] == '{'
}

// line reads one line, and those that belong to a value in it.
func (s *scanner) line() {
	start := s.pos
	end := s.lineEnd(start)
	i := s.skip(start, end)
	col := s.column(i)
	switch {
	case i == end:
		if s.touches(start, end) {
			s.hitLine(s.column(s.cursor))
		}
		s.next(start)
		return
	case s.touches(start, i-1):
		s.hitLine(s.column(s.cursor))
	}
	if s.comment(i, end) || s.template(i, end) {
		if s.touches(i, end) {
			s.hit = hit{what: hitNothing}
		}
		s.next(start)
		return
	}
	for i < end && s.src[i] == '-' && (i+1 == end || blank(s.src[i+1])) && len(s.stack) < maxDepth {
		if s.touches(i, i) {
			s.hitLine(col)
		}
		item := s.item(i, col)
		if item == nil { // the dash is part of a scalar
			s.next(start)
			return
		}
		j := s.skip(i+1, end)
		if j == end || s.comment(j, end) || s.template(j, end) {
			if item.start, item.end = i+1, i+1; s.touches(i+1, j) {
				s.hit = hit{what: hitValue, node: item, start: s.cursor, end: s.cursor}
			} else if s.touches(j, end) {
				s.hit = hit{what: hitNothing}
			}
			s.next(start)
			return
		}
		if s.touches(i+1, j-1) {
			s.hit = hit{what: hitValue, node: item, start: s.cursor, end: s.cursor}
		}
		i, col = j, s.columnAfter(col, i, j)
	}
	s.content(i, end, col)
}

// content reads an entry or a value at i.
func (s *scanner) content(i, end, col int) {
	k := s.properties(i, end)
	keyStart, keyEnd, colon := s.findKey(k, end)
	if colon < 0 {
		s.bare(i, end, col)
		return
	}
	m := s.mappingAt(col)
	text := string(s.src[keyStart:keyEnd])
	entry := m.add(&node{keyed: true, keyStart: keyStart, keyEnd: keyEnd, colon: colon, start: colon, end: colon})
	if c := s.src[keyStart]; c == '"' || c == '\'' {
		entry.key = unquote(text)
	} else {
		entry.key = keyName(text)
	}
	if s.touches(k, keyEnd) {
		s.hit = hit{what: hitKey, node: entry, start: keyStart, end: keyEnd}
	}
	s.value(entry, colon, false)
}

// properties returns the offset after the anchors and tags at i.
func (s *scanner) properties(i, end int) int {
	for i < end && (s.src[i] == '&' || s.src[i] == '!') {
		j := i
		for j < end && !blank(s.src[j]) {
			j++
		}
		i = s.skip(j, end)
	}
	return i
}

// findKey returns the key at i and the offset after its colon, or a negative offset.
func (s *scanner) findKey(i, end int) (start, stop, colon int) {
	if i == end {
		return i, i, -1
	}
	switch c := s.src[i]; c {
	case '"', '\'':
		j, closed := s.quoteEnd(i, end)
		if k := s.skip(j, end); closed && k < end && s.src[k] == ':' && (k+1 == end || blank(s.src[k+1])) {
			return i, j, k + 1
		}
		return i, i, -1
	case '{', '[', '|', '>':
		return i, i, -1
	}
	for k := i; k < end; k++ {
		switch {
		case s.src[k] == ':' && (k+1 == end || blank(s.src[k+1])):
			stop := k
			for stop > i && blank(s.src[stop-1]) {
				stop--
			}
			return i, stop, k + 1
		case s.comment(k, end):
			return i, i, -1
		}
	}
	return i, i, -1
}

// quoteEnd returns the offset after the quoted string at i if it ends before end.
func (s *scanner) quoteEnd(i, end int) (int, bool) {
	quote := s.src[i]
	for j := i + 1; j < end; j++ {
		switch {
		case s.src[j] == '\\' && quote == '"':
			j++
		case s.src[j] != quote:
		case quote == '\'' && j+1 < end && s.src[j+1] == quote:
			j++
		default:
			return j + 1, true
		}
	}
	return end, false
}

// top returns the innermost open collection, or nil.
func (s *scanner) top() *node {
	if len(s.stack) == 0 {
		return nil
	}
	return s.stack[len(s.stack)-1]
}

// slot returns the value that text in a deeper column belongs to.
func (s *scanner) slot() *node {
	if top := s.top(); top != nil {
		return top.last()
	}
	return s.root
}

// pop closes the collections that cannot have something in a column.
func (s *scanner) pop(col int, dash bool) {
	for n := len(s.stack); n > 0; n-- {
		top := s.stack[n-1]
		// The items of a sequence may have the column of the keys around it.
		ends := top.form == sequence && !dash && n > 1 && s.stack[n-2].form == mapping && s.stack[n-2].indent == col
		if top.indent < col || top.indent == col && !ends {
			return
		}
		s.stack = s.stack[:n-1]
	}
}

// open makes a collection of a value.
func (s *scanner) open(n *node, f form, col int) *node {
	n.form, n.indent, n.flow, n.children = f, col, false, nil
	if n.keyed && n.parent != nil && !n.parent.flow {
		switch by := col - n.parent.indent; {
		case f == mapping && !s.indented && by > 0:
			s.step, s.indented = by, true
		case f == sequence && !s.dashed && by >= 0:
			s.dash, s.dashed = by, true
		}
	}
	s.stack = append(s.stack, n)
	return n
}

// mappingAt returns the mapping for an entry in a column. If the indentation is wrong, it is the
// nearest one.
func (s *scanner) mappingAt(col int) *node {
	s.pop(col, false)
	for {
		if top := s.top(); top != nil && top.form == mapping && top.indent >= col {
			return top
		}
		slot := s.slot()
		switch {
		case slot.form == absent:
			return s.open(slot, mapping, col)
		case slot.form == scalar && slot.style == 0 && slot.ownLine && s.column(slot.start) == col:
			// The first key was not complete.
			key := node{keyed: true, key: string(s.src[slot.start:slot.end]), keyStart: slot.start, keyEnd: slot.end, colon: -1, start: slot.end, end: slot.end}
			m := s.open(slot, mapping, col)
			entry := m.add(&key)
			if s.hit.what == hitValue && s.hit.node == slot && s.hit.start == key.keyStart {
				s.hit = hit{what: hitKey, node: entry, start: entry.keyStart, end: entry.keyEnd}
			}
			return m
		case slot.form == scalar || slot.form == alias || slot.flow:
			return s.open(slot, mapping, col)
		}
		s.stack = append(s.stack, slot)
		if slot.form == mapping {
			return slot
		}
	}
}

// item returns a new item of the sequence in a column, or nil if the dash at i continues a scalar.
func (s *scanner) item(i, col int) *node {
	s.pop(col, true)
	top, slot := s.top(), s.slot()
	switch {
	case top != nil && top.form == sequence && top.indent == col:
	case slot.form == absent:
		top = s.open(slot, sequence, col)
	case slot.form == scalar && slot.style == 0 && (top == nil || top.indent < col):
		s.continued(slot, i)
		return nil
	case slot.form == sequence && !slot.flow:
		s.stack = append(s.stack, slot)
		top = slot
	default:
		top = s.open(slot, sequence, col)
	}
	return top.add(&node{start: i + 1, end: i + 1})
}

// continued adds the line at i to a plain scalar.
func (s *scanner) continued(n *node, i int) {
	n.end = s.plainEnd(i, s.lineEnd(i))
	if s.touches(i, n.end) {
		s.hit = hit{what: hitValue, node: n, start: n.start, end: n.end}
	}
}

// bare reads a value that has no key on its line.
func (s *scanner) bare(i, end, col int) {
	s.pop(col, false)
	top, slot := s.top(), s.slot()
	if slot != nil && slot.form == mapping && !slot.flow && (top == nil || top.indent < col) {
		// The indentation is between that of two mappings.
		top, col = slot, slot.indent
		s.stack = append(s.stack, slot)
	}
	switch {
	case top != nil && top.form == mapping && top.indent == col && s.src[i] != '{' && s.src[i] != '[':
		// A key without its colon.
		stop := s.plainEnd(i, end)
		entry := top.add(&node{keyed: true, key: string(s.src[i:stop]), keyStart: i, keyEnd: stop, colon: -1, start: stop, end: stop})
		if c := s.src[i]; c == '"' || c == '\'' {
			entry.key = unquote(entry.key)
		}
		if s.touches(i, stop) {
			s.hit = hit{what: hitKey, node: entry, start: i, end: stop}
		}
		s.next(i)
	case slot != nil && slot.form == absent:
		s.value(slot, i, true)
	case slot != nil && slot.form == scalar && slot.style == 0:
		s.continued(slot, i)
		s.next(i)
	default:
		if s.touches(i, end) {
			s.hit = hit{what: hitNothing}
		}
		s.next(i)
	}
}

// plainEnd returns the end of the plain text at i, before a comment.
func (s *scanner) plainEnd(i, end int) int {
	for k := i; k < end; k++ {
		if s.comment(k, end) {
			end = k
		}
	}
	for end > i && blank(s.src[end-1]) {
		end--
	}
	return end
}

// hitLine notes that the cursor is on a line that is blank before it.
func (s *scanner) hitLine(col int) {
	saved := s.stack
	s.pop(col, false)
	s.hit = hit{what: hitNewLine, in: s.top(), node: s.slot(), start: s.cursor, end: s.cursor, column: col}
	s.stack = saved
}
