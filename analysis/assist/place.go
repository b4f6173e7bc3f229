package assist

import (
	"slices"

	"espalier.dev/schema"
)

// Position is what is being typed at a place.
type Position uint8

const (
	// Nowhere is a comment, or text after a complete value.
	Nowhere Position = iota
	// Key is the key of an entry of a mapping.
	Key
	// Value is a value, or the place for one.
	Value
)

// String returns the name of the position.
func (p Position) String() string { return [...]string{"nowhere", "key", "value"}[p] }

// Range is a part of a text, in bytes. The end is exclusive.
type Range struct {
	Start, End int
}

// Place is a place in the text of a document, which need not parse.
type Place struct {
	Position Position
	// Path leads to the value at the place. If a key is being typed, its last step is that key,
	// which may be empty.
	Path schema.Path
	// Range is the key or the value under the cursor, with its quotes. It is empty if nothing was
	// typed yet. Prefix is the part before the cursor, without quotes and escapes.
	Range  Range
	Prefix string
	// Quote is the quote of the key or value, | or > in a block scalar, or 0.
	Quote byte
	// Complete is set if a key has its colon, or if the cursor is before or after a value that is there
	// already. Prefix is then the whole value, with a space.
	Complete bool

	// OwnLine is set if a value is not on the line of its key or dash. It may then become a mapping,
	// a list or a scalar.
	OwnLine bool
	// Item is set if the place is an item of a list and its dash was typed.
	Item bool
	// NeedsSpace is set if a colon or dash directly before the place needs a space after it.
	NeedsSpace bool
	// Flow is set in braces and brackets, JSON if the whole document is in braces.
	Flow, JSON bool
	// Indent is the column of the key or value at the place. Lines of the same mapping start there.
	Indent int
	// LineIndent is the number of blanks at the start of the line.
	LineIndent int
	// Step is by how much the document indents the entries of a mapping, Dash the items of a list.
	// EOL is its line break.
	Step, Dash int
	EOL        string

	// Keys are the other keys of the mapping, and Siblings its scalars. If the place is a value,
	// they are those of the mapping around it.
	Keys     []string
	Siblings map[string]string
	// Root has the scalars of the document, such as its apiVersion and kind.
	Root map[string]string

	cursor int
	tree   *outline
	// node is the entry or value, in the collection around the place.
	node, in *node
}

// Locate returns the place of an offset in a text. If the text has several documents, it is a place
// in the one that has the offset. Every text and offset has a place. The time is linear in the
// length of the text.
func Locate(text []byte, offset int) Place {
	s := scan(text, offset)
	p := Place{cursor: s.cursor, Step: s.step, Dash: s.dash, EOL: s.eol, JSON: s.root.flow, tree: &s.outline, Root: s.scalars(s.root)}
	p.LineIndent = s.lineIndent(s.cursor)
	h := s.hit
	p.Range = Range{h.start, h.end}
	switch h.what {
	case hitKey:
		p.Position, p.node, p.in = Key, h.node, h.node.parent
		p.Path, p.Complete = h.node.path(), h.node.colon >= 0
		p.Indent, p.Flow = s.column(h.start), p.in.flow
		p.Prefix = string(s.src[h.start:max(h.start, s.cursor)])
		if c := s.src[h.start]; c == '"' || c == '\'' {
			p.Quote, p.Prefix = c, unquote(p.Prefix)
		}
	case hitValue:
		p.value(s, h)
	case hitNewKey:
		p.newKey(h.in, s.column(s.cursor))
	case hitNewItem:
		p.newItem(h.in, s.column(s.cursor))
	case hitNewLine:
		p.newLine(h)
	default:
		p.Range = Range{s.cursor, s.cursor}
	}
	p.siblings()
	return p
}

// lineIndent returns the number of blanks at the start of the line of an offset.
func (s *scanner) lineIndent(offset int) int {
	start := offset - s.columnBytes(offset)
	return s.skip(start, s.lineEnd(start)) - start
}

// columnBytes returns the number of bytes before an offset on its line.
func (s *scanner) columnBytes(offset int) int {
	i := offset
	for i > 0 && s.src[i-1] != '\n' {
		i--
	}
	return offset - i
}

func (p *Place) value(s *scanner, h hit) {
	n := h.node
	p.Position, p.node, p.in, p.Path = Value, n, n.parent, n.path()
	p.Quote, p.OwnLine = n.style, n.ownLine
	p.Flow = n.parent != nil && n.parent.flow
	p.Item = n.parent != nil && n.parent.form == sequence && !p.Flow
	p.Indent = s.column(h.start)
	switch n.form {
	case absent:
		p.NeedsSpace = h.start > 0 && h.start == n.start && (s.src[h.start-1] == ':' || s.src[h.start-1] == '-')
		return
	case scalar:
		if h.start < n.start {
			p.Complete = true
			return
		}
		if h.start > n.end {
			p.Complete, p.Prefix = true, s.text(n, n.end)+" "
			return
		}
		p.Prefix = s.text(n, s.cursor)
		p.Complete = n.style == '|' || n.style == '>'
	default:
		p.Complete = true
	}
}

// newKey makes p the place of a new key in a mapping.
func (p *Place) newKey(in *node, col int) {
	p.Position, p.in, p.Indent, p.Flow = Key, in, col, in.flow
	p.Path = append(in.path(), schema.Step{})
}

// newItem makes p the place of a new item in a list.
func (p *Place) newItem(in *node, col int) {
	p.Position, p.in, p.Indent, p.Flow = Value, in, col, in.flow
	p.OwnLine = !in.flow
	p.Path = append(in.path(), schema.Step{Kind: schema.Index, Index: len(in.children)})
}

// newLine makes p the place on a line that is blank before the cursor.
func (p *Place) newLine(h hit) {
	if in := h.in; in != nil && in.indent == h.column && !in.flow {
		if in.form == mapping {
			p.newKey(in, h.column)
		} else {
			p.newItem(in, h.column)
		}
		return
	}
	switch n := h.node; {
	case n == nil:
	case n.form == absent:
		p.Position, p.node, p.in, p.Path, p.OwnLine, p.Indent = Value, n, n.parent, n.path(), true, h.column
	case n.form == mapping && !n.flow:
		p.newKey(n, n.indent)
	case n.form == sequence && !n.flow:
		p.newItem(n, n.indent)
	}
}

// siblings sets the keys and scalars of the mapping around the place.
func (p *Place) siblings() {
	m := p.in
	for m != nil && m.form != mapping {
		m = m.parent
	}
	if m == nil {
		return
	}
	for _, c := range m.children {
		if c != p.node {
			p.Keys = append(p.Keys, c.key)
		}
	}
	p.Siblings = p.tree.scalars(m)
	if p.node != nil && p.node.keyed {
		delete(p.Siblings, p.node.key)
	}
}

// Parent returns the path of the collection around the value at the place.
func (p *Place) Parent() schema.Path {
	if len(p.Path) == 0 {
		return nil
	}
	return slices.Clone(p.Path[:len(p.Path)-1])
}
