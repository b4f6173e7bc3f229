package assist

import (
	"bytes"
	"strings"

	"espalier.dev/internal/jsonx"
	"espalier.dev/internal/yamlx"
)

// around returns the column of the block collection around a value, or -1 at the root.
func around(n *node) int {
	if n.parent == nil {
		return -1
	}
	return n.parent.indent
}

// value reads the value of n at i, and moves on to the line after it. ownLine is set if it has no
// key or dash before it.
func (s *scanner) value(n *node, i int, ownLine bool) {
	end := s.lineEnd(i)
	j := s.properties(s.skip(i, end), end)
	if j == end || s.comment(j, end) {
		if s.touches(i, j) {
			s.hit = hit{what: hitValue, node: n, start: s.cursor, end: s.cursor}
		} else if s.touches(j, end) {
			s.hit = hit{what: hitNothing}
		}
		s.next(i)
		return
	}
	if s.touches(i, j-1) {
		s.hit = hit{what: hitValue, node: n, start: s.cursor, end: s.cursor}
	}
	// A value after a dash is on the line of the dash.
	if n.parent != nil && !n.keyed {
		ownLine = ownLine && bytes.IndexByte(s.src[n.start:j], '\n') >= 0
	}
	n.form, n.ownLine, n.start = scalar, ownLine, j
	switch c := s.src[j]; {
	case c == '*':
		n.form, n.end = alias, s.plainEnd(j, end)
	case c == '|' || c == '>':
		if s.header(j, end) {
			s.blockScalar(n, j, end)
			return
		}
		n.end = s.plainEnd(j, end)
	case c == '"' || c == '\'':
		s.quoted(n, j, end)
		if s.touches(j, n.end) {
			s.hit = hit{what: hitValue, node: n, start: j, end: n.end}
		}
		s.next(n.end)
		return
	case s.template(j, end):
		n.form, n.end = alias, s.plainEnd(j, end)
	case c == '{' || c == '[':
		s.flow(n, j)
		return
	default:
		n.end = s.plainEnd(j, end)
	}
	if s.touches(j, n.end) {
		s.hit = hit{what: hitValue, node: n, start: j, end: n.end}
	} else if s.touches(n.end, s.skip(n.end, end)) {
		s.hit = hit{what: hitValue, node: n, start: s.cursor, end: s.cursor}
	} else if s.touches(n.end, end) {
		s.hit = hit{what: hitNothing}
	}
	s.next(i)
}

// header reports whether the header of a block scalar is at i.
func (s *scanner) header(i, end int) bool {
	for i++; i < end && (s.src[i] == '+' || s.src[i] == '-' || s.src[i] >= '0' && s.src[i] <= '9'); i++ {
	}
	i = s.skip(i, end)
	return i == end || s.src[i] == '#'
}

// blockScalar reads a block scalar whose header is at i.
func (s *scanner) blockScalar(n *node, i, end int) {
	n.style, n.end = s.src[i], end
	indent := around(n)
	if s.touches(i, end) {
		s.hit = hit{what: hitNothing}
	}
	// waiting is the column of the cursor on a blank line that may be after the scalar.
	waiting := -1
	s.next(i)
	for s.pos < s.to {
		end := s.lineEnd(s.pos)
		first := s.skip(s.pos, end)
		col := s.column(first)
		if first < end && col <= indent {
			break
		}
		switch {
		case first < end:
			if n.end = end; waiting >= 0 || s.touches(s.pos, end) {
				s.hit = hit{what: hitValue, node: n, start: n.start, end: end}
				waiting = -1
			}
		case s.touches(s.pos, end):
			if at := s.column(s.cursor); at > indent {
				n.end = max(n.end, s.cursor)
				s.hit = hit{what: hitValue, node: n, start: n.start, end: end}
			} else {
				waiting = at
			}
		}
		s.next(s.pos)
	}
	if waiting >= 0 {
		s.hitLine(waiting)
	}
	if s.hit.what == hitValue && s.hit.node == n {
		s.hit.end = n.end
	}
}

// quoted reads the quoted scalar at i. If its second quote is missing, it ends with its line.
func (s *scanner) quoted(n *node, i, end int) {
	n.style = s.src[i]
	if n.end, n.closed = s.quoteEnd(i, end); n.closed {
		return
	}
	indent := around(n)
	quote := s.src[i]
	for at := end; at < s.to; {
		line := min(yamlx.LineEnd(s.src, at)+1, s.to)
		stop := s.lineEnd(line)
		first := s.skip(line, stop)
		if first < stop && s.column(first) <= indent && s.startsEntry(first, stop) {
			break
		}
		for j := line; j < stop; j++ {
			switch {
			case s.src[j] == '\\' && quote == '"':
				j++
			case s.src[j] != quote:
			case quote == '\'' && j+1 < stop && s.src[j+1] == quote:
				j++
			default:
				n.end, n.closed = j+1, true
				return
			}
		}
		if line == s.to {
			break
		}
		at = stop
		if at < s.to && s.src[at] != '\n' {
			at = min(yamlx.LineEnd(s.src, at), s.to)
		}
	}
}

// startsEntry reports whether an entry or item of a block collection starts at i.
func (s *scanner) startsEntry(i, end int) bool {
	if s.src[i] == '-' && (i+1 == end || blank(s.src[i+1])) {
		return true
	}
	_, _, colon := s.findKey(i, end)
	return colon >= 0
}

// text returns the value of a scalar up to an offset.
func (o *outline) text(n *node, upTo int) string {
	raw := string(o.src[n.start:max(n.start, min(upTo, n.end))])
	switch n.style {
	case '"', '\'':
		return unquote(raw)
	case '|', '>':
		_, body, _ := strings.Cut(raw, "\n")
		lines := strings.Split(strings.ReplaceAll(body, "\r", ""), "\n")
		indent := -1
		for i, line := range lines {
			if rest := strings.TrimLeft(line, " "); indent < 0 && rest != "" {
				indent = len(line) - len(rest)
			}
			lines[i] = line[min(len(line), max(0, indent)):]
		}
		return strings.Join(lines, "\n")
	}
	return strings.Join(strings.Fields(raw), " ")
}

// unquote returns the text of a quoted scalar, whose second quote may be missing.
func unquote(raw string) string {
	if raw == "" {
		return ""
	}
	quote := raw[:1]
	text := raw[1:]
	if quote == "'" {
		if strings.HasSuffix(text, quote) {
			text = text[:len(text)-1]
		}
		return strings.ReplaceAll(folded(text), "''", "'")
	}
	if value, err := jsonx.Unquote([]byte(raw)); err == nil {
		return value
	}
	var b strings.Builder
	text = folded(text)
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			return b.String()
		case c != '\\' || i+1 == len(text):
			b.WriteByte(c)
		default:
			i++
			switch text[i] {
			case 'n':
				b.WriteByte('\n')
			case 't':
				b.WriteByte('\t')
			default:
				b.WriteByte(text[i])
			}
		}
	}
	return b.String()
}

// folded joins the lines of a quoted scalar.
func folded(text string) string {
	if !strings.Contains(text, "\n") {
		return text
	}
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return strings.Join(lines, " ")
}
