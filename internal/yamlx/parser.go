package yamlx

import "bytes"

// maxDepth is the maximum nesting of collections, as in the library and in the engine.
const maxDepth = 10000

// MaxKey is the maximum length of a key. The library counts characters up to the colon and
// stops at 1024; keys near that limit are left to it.
const MaxKey = 1000

// parser reads the common subset of YAML in one pass and writes JSON directly. It must never
// read a text differently from the library, so it fails whenever it is not certain. Its
// functions return false on failure.
type parser struct {
	src []byte
	// pos is the current offset, line the start of its line.
	pos, line int
	depth     int
	// commented is set by next when it skips a comment.
	commented bool

	// out is the JSON text; tmp is a buffer for scalars that span lines.
	out, tmp []byte

	// tree makes the parser build nodes, and accept anchors, aliases, tags and merge keys. If
	// the text has any of them, out is not the document's value.
	tree    bool
	anchors map[string]*Node
	// slab is the memory that nodes are allocated from.
	slab []Node

	failed failure
}

// failure is the reason why the parser stopped.
type failure struct {
	offset  int
	problem string
	// unusual is set if the text may be valid YAML that the parser does not support.
	unusual bool
}

// fail records that the text is invalid.
func (p *parser) fail(offset int, problem string) bool {
	p.failed = failure{offset: offset, problem: problem}
	return false
}

// unusual records that the parser does not support the text.
func (p *parser) unusual(offset int, what string) bool {
	p.failed = failure{offset: offset, problem: what, unusual: true}
	return false
}

// reset prepares the parser for src.
func (p *parser) reset(src []byte, tree bool) {
	// JSON is about as long as YAML.
	if room := len(src) + len(src)/8 + 64; cap(p.out) < room {
		p.out = make([]byte, 0, room)
	}
	*p = parser{src: src, out: p.out[:0], tmp: p.tmp[:0], tree: tree}
}

// document reads the whole text.
func (p *parser) document() (*Node, bool) {
	if !Regular(p.src) {
		return nil, p.unusual(0, "unusual characters")
	}
	if bytes.HasPrefix(p.src, bom) {
		p.pos, p.line = len(bom), len(bom)
	}
	if !p.next() {
		return nil, false
	}
	marked := p.pos < len(p.src) && p.src[p.pos] == '-' && isMarker(p.src, p.pos)
	if marked {
		p.pos += 3
		// Content on the line of the marker is rare.
		if !p.rest() || !p.next() {
			return nil, false
		}
	}
	var n *Node
	if p.column() < 0 {
		if !marked && p.pos < len(p.src) {
			return nil, p.unusual(p.pos, "an end marker without a start")
		}
		n = p.null(p.pos)
	} else {
		var ok bool
		if n, ok = p.block(-1); !ok {
			return nil, false
		}
	}
	return n, p.end()
}

// end checks that only the end marker is left.
func (p *parser) end() bool {
	if p.pos < len(p.src) && p.src[p.pos] == '.' && isMarker(p.src, p.pos) {
		p.pos += 3
		if !p.rest() || !p.next() {
			return false
		}
	}
	if p.pos < len(p.src) {
		return p.fail(p.pos, "expected the end of the document")
	}
	return true
}

// next moves from between tokens of different lines to the next token.
func (p *parser) next() bool {
	src, i := p.src, p.pos
	p.commented = false
	for {
		for i < len(src) && src[i] == ' ' {
			i++
		}
		if i == len(src) {
			p.pos = i
			return true
		}
		switch src[i] {
		case '\n':
			i++
			p.line = i
		case '\r':
			// The line feed follows.
			i++
		case '#':
			p.commented = true
			i = LineEnd(src, i)
		case '\t':
			return p.fail(i, "a tab cannot indent: use spaces")
		default:
			p.pos = i
			return true
		}
	}
}

// rest moves past what may follow a value on its line, to the start of the next line.
func (p *parser) rest() bool {
	src, i := p.src, p.pos
	for i < len(src) && (src[i] == ' ' || src[i] == '\t') {
		i++
	}
	if i < len(src) && src[i] == '#' {
		if i > 0 && !isBlank(src[i-1]) {
			return p.unusual(i, "a comment without space before it")
		}
		i = LineEnd(src, i)
		p.commented = true
	}
	if i < len(src) && src[i] == '\r' {
		i++
	}
	if i == len(src) {
		p.pos = i
		return true
	}
	if src[i] != '\n' {
		if src[i] == ':' {
			return p.fail(i, "a second \": \" on one line: quote the value if the colon belongs to it")
		}
		return p.fail(i, "unexpected text after the value")
	}
	p.pos, p.line = i+1, i+1
	return true
}

// restNext moves past a value's line to the next token.
func (p *parser) restNext() bool { return p.rest() && p.next() }

// column returns the column of the token at pos, or -1 at the end of the document.
func (p *parser) column() int {
	if p.pos == len(p.src) {
		return -1
	}
	if p.pos == p.line && (p.src[p.pos] == '-' || p.src[p.pos] == '.') && isMarker(p.src, p.pos) {
		return -1
	}
	return p.pos - p.line
}

// blankAt reports whether a blank or the end is at i.
func (p *parser) blankAt(i int) bool { return i >= len(p.src) || isBlank(p.src[i]) }

// null writes an empty value at an offset.
func (p *parser) null(at int) *Node {
	p.out = append(p.out, "null"...)
	if !p.tree {
		return nil
	}
	n := p.node(Scalar, at)
	n.End, n.JSON = at, []byte("null")
	return n
}

// node returns a new node that starts at an offset.
func (p *parser) node(k Kind, start int) *Node {
	if len(p.slab) == 0 {
		p.slab = make([]Node, 128)
	}
	n := &p.slab[0]
	p.slab = p.slab[1:]
	n.Kind, n.Start, n.First = k, start, start
	return n
}

// enter counts a level of nesting.
func (p *parser) enter() bool {
	p.depth++
	if p.depth > maxDepth {
		return p.fail(p.pos, "nested too deeply: the limit is 10000 levels")
	}
	return true
}

// block reads the value at pos, the first token of its line or of a list item, in a
// collection that is indented by indent. It leaves p at the token after the value.
func (p *parser) block(indent int) (*Node, bool) {
	src := p.src
	switch c := src[p.pos]; {
	case c == '-' && p.blankAt(p.pos+1):
		return p.sequence(p.pos-p.line, false)
	case c == '"' || c == '\'':
		if p.quotedKey() {
			return p.mapping(p.pos - p.line)
		}
	case c == '&' || c == '*' || c == '!':
		if p.propertiesOfKey() {
			return nil, p.unusual(p.pos, "an anchor, alias or tag at a key")
		}
	case c == '?' && p.blankAt(p.pos+1):
		return nil, p.unusual(p.pos, "a complex key")
	case c == '{' || c == '[' || c == '|' || c == '>':
	case p.plainKey():
		return p.mapping(p.pos - p.line)
	}
	if indent < 0 && src[p.pos] != '{' && src[p.pos] != '[' {
		return nil, p.unusual(p.pos, "a scalar as the whole document")
	}
	return p.inline(indent)
}

// mapping reads the entries whose keys are at column col.
func (p *parser) mapping(col int) (*Node, bool) {
	if !p.enter() {
		return nil, false
	}
	var n *Node
	if p.tree {
		n = p.node(Mapping, p.pos)
	}
	p.out = append(p.out, '{')
	for first := true; ; first = false {
		if !first {
			p.out = append(p.out, ',')
		}
		k, ok := p.key(false)
		if !ok {
			return nil, false
		}
		intro := p.pos
		v, ok := p.entryValue(col)
		if !ok {
			return nil, false
		}
		if p.tree {
			k.give(v)
			v.Intro = intro
			n.Children = append(n.Children, v)
			n.End = v.End
		}
		c := p.column()
		if c > col {
			return nil, p.fail(p.pos, "indented deeper than the entries before it")
		}
		if c < col {
			break
		}
	}
	p.out = append(p.out, '}')
	p.depth--
	return n, true
}

// key is the parsed key of an entry.
type key struct {
	name       string
	start, end int
	merge      bool
}

// give stores the key in v, the value of the entry.
func (k *key) give(v *Node) {
	v.Keyed, v.Key, v.Merge = true, k.name, k.merge
	v.KeyStart, v.KeyEnd = k.start, k.end
}

// entryValue reads the value after the colon of a key at column col.
func (p *parser) entryValue(col int) (*Node, bool) {
	at := p.pos
	p.blanks()
	if !p.lineEnds() {
		return p.inline(col)
	}
	if !p.restNext() {
		return nil, false
	}
	return p.below(col, at, true)
}

// below reads a value that is not on the line of its key or dash. The value is null, at the
// offset at, if the following text is not indented deeper.
func (p *parser) below(col, at int, keyed bool) (*Node, bool) {
	c := p.column()
	switch {
	case c > col:
		return p.block(col)
	case c == col && keyed && p.src[p.pos] == '-' && p.blankAt(p.pos+1):
		return p.sequence(col, true)
	}
	return p.null(at), true
}

// blanks moves past spaces and tabs.
func (p *parser) blanks() {
	for p.pos < len(p.src) && (p.src[p.pos] == ' ' || p.src[p.pos] == '\t') {
		p.pos++
	}
}

// lineEnds reports whether the rest of the line is empty or a comment.
func (p *parser) lineEnds() bool {
	if p.pos == len(p.src) {
		return true
	}
	c := p.src[p.pos]
	return c == '\n' || c == '\r' || c == '#'
}

// sequence reads the items whose dashes are at column col. A compact sequence is in a mapping
// at the same column, whose next key ends it.
func (p *parser) sequence(col int, compact bool) (*Node, bool) {
	if !p.enter() {
		return nil, false
	}
	var n *Node
	if p.tree {
		n = p.node(Sequence, p.pos)
	}
	p.out = append(p.out, '[')
	for first := true; ; first = false {
		if !first {
			p.out = append(p.out, ',')
		}
		p.pos++
		intro := p.pos
		v, ok := p.item(col)
		if !ok {
			return nil, false
		}
		if p.tree {
			v.Intro = intro
			n.Children = append(n.Children, v)
			n.End = v.End
		}
		c := p.column()
		if c > col {
			return nil, p.fail(p.pos, "indented deeper than the items before it")
		}
		if c < col {
			break
		}
		if p.src[p.pos] != '-' || !p.blankAt(p.pos+1) {
			if compact {
				break
			}
			return nil, p.fail(p.pos, "expected another item of the list, \"- \"")
		}
	}
	p.out = append(p.out, ']')
	p.depth--
	return n, true
}

// item reads the value after the dash at column col.
func (p *parser) item(col int) (*Node, bool) {
	at := p.pos
	for p.pos < len(p.src) && p.src[p.pos] == ' ' {
		p.pos++
	}
	if !p.lineEnds() {
		if p.src[p.pos] == '\t' {
			return nil, p.unusual(p.pos, "a tab after a dash")
		}
		return p.block(col)
	}
	if !p.restNext() {
		return nil, false
	}
	return p.below(col, at, false)
}

// inline reads a value that is not a block collection, in a collection that is indented by
// indent. It leaves p at the token after the value.
func (p *parser) inline(indent int) (*Node, bool) {
	switch c := p.src[p.pos]; c {
	case '"', '\'':
		n, ok := p.quoted()
		return n, ok && p.restNext()
	case '{', '[':
		n, ok := p.flow()
		return n, ok && p.restNext()
	case '|', '>':
		return p.blockScalar(indent)
	case '&', '*', '!':
		return p.properties(indent)
	case '-', '?', ':':
		if p.blankAt(p.pos + 1) {
			return nil, p.fail(p.pos, "a list or key cannot start on the line of another key")
		}
	case ',', ']', '}', '%', '@', '`', '#':
		return nil, p.fail(p.pos, "a value cannot start with "+string(c)+": quote it")
	}
	return p.plain(indent)
}
