package yamlx

import (
	"slices"
	"strconv"
	"unicode/utf8"

	"espalier.dev/internal/jsonptr"
)

// Position is a stretch of a document's text. Lines and columns are those of the
// file, and count from 1; columns count characters. Offsets are bytes in the
// document's Source. The end is exclusive.
type Position struct {
	Line, Column, EndLine, EndColumn, Offset, EndOffset int
}

// Span says where a value stands.
type Span struct {
	// Key is the place of the key of a map entry, and zero for list items and the root.
	Key Position
	// Value is the place of the value itself.
	Value Position
	// Exact is false when there is no such value: the span is then that of the
	// nearest value around it.
	Exact bool
}

// index is what is known about where things stand in a document.
type index struct {
	root  *node
	lines lines
	// chars are the numbers of characters before every charStep-th byte: lines can be long.
	chars []int
	// exact is set when the ends of all nodes are known, so that the text can be edited.
	exact bool
}

// Find returns the place of the value at a JSON pointer (RFC 6901). It follows
// aliases and merge keys to where the text is. In a document that cannot be read
// everything is at its start.
func (d *Document) Find(pointer string) Span {
	n, exact := d.indexed().lookup(pointer)
	return d.span(n, exact)
}

// FindAgain returns the place where the entry at a JSON pointer occurs again in its
// mapping. Mappings on the way there may occur several times, too: it need not be the
// last one, which counts, that has the entry twice. If none has, it is Find.
func (d *Document) FindAgain(pointer string) Span {
	visits := maxVisits
	if n := d.indexed().root.again(pointer, &visits); n != nil {
		return d.span(n, true)
	}
	return d.Find(pointer)
}

// maxVisits bounds how many nodes are visited in search of one that occurs twice.
const maxVisits = 10_000

// again returns the last entry at a pointer that is not the first one of its name.
func (n *node) again(pointer string, visits *int) *node {
	n = n.deref()
	if pointer == "" || !jsonptr.Valid(pointer) {
		return nil
	}
	token, rest := jsonptr.Cut(pointer)
	if n.kind != mapping {
		if next := n.child(token); next != nil && rest != "" {
			return next.again(rest, visits)
		}
		return nil
	}
	var last *node
	for _, c := range slices.Backward(n.children) {
		if *visits--; *visits < 0 {
			return nil
		}
		switch {
		case c.merge || c.key != token:
		case rest != "":
			if found := c.again(rest, visits); found != nil {
				return found
			}
		case last != nil:
			return last
		default:
			last = c
		}
	}
	return nil
}

func (d *Document) span(n *node, exact bool) Span {
	s := Span{Value: d.position(n.start, n.end), Exact: exact}
	if n.keyed {
		s.Key = d.position(n.keyStart, n.keyEnd)
	}
	return s
}

// lookup returns the node at a pointer, or the nearest one around it and false.
func (ix *index) lookup(pointer string) (*node, bool) {
	n := ix.root
	if !jsonptr.Valid(pointer) {
		return n, false
	}
	for rest := pointer; rest != ""; {
		var token string
		token, rest = jsonptr.Cut(rest)
		next := n.child(token)
		if next == nil {
			return n, false
		}
		n = next
	}
	return n, true
}

// child returns the entry or item that a token of a pointer names, or nil.
func (n *node) child(token string) *node {
	n = n.deref()
	switch n.kind {
	case mapping:
		return n.entry(token)
	case sequence:
		i, err := strconv.Atoi(token)
		if err != nil || i < 0 || i >= len(n.children) || strconv.Itoa(i) != token {
			return nil
		}
		return n.children[i]
	}
	return nil
}

// position makes a Position of offsets.
func (d *Document) position(start, end int) Position {
	p := Position{Offset: start, EndOffset: end}
	p.Line, p.Column = d.lineColumn(start)
	p.EndLine, p.EndColumn = d.lineColumn(end)
	return p
}

func (d *Document) lineColumn(offset int) (line, column int) {
	ls := d.index.lines
	n := ls.line(offset)
	from := ls[n]
	if n == 0 && len(d.src) >= len(bom) && string(d.src[:len(bom)]) == string(bom) {
		from = min(offset, len(bom))
	}
	return d.line + n, 1 + d.charsBefore(offset) - d.charsBefore(from)
}

// charStep is how far a place may be from one whose number of characters is known.
const charStep = 4096

// charsBefore is the number of characters before an offset.
func (d *Document) charsBefore(offset int) int {
	known := offset / charStep
	return d.index.chars[known] + charsIn(d.src[known*charStep:offset])
}

// charsIn counts the characters that start in text.
func charsIn(text []byte) int {
	n := 0
	for _, c := range text {
		if utf8.RuneStart(c) {
			n++
		}
	}
	return n
}

// indexed returns the index, which it makes on the first call.
func (d *Document) indexed() *index {
	if d.index == nil {
		d.index = &index{lines: linesOf(d.src), chars: []int{0}}
		for i := charStep; i <= len(d.src); i += charStep {
			d.index.chars = append(d.index.chars, d.index.chars[i/charStep-1]+charsIn(d.src[i-charStep:i]))
		}
		d.index.root, d.index.exact = d.tree()
	}
	return d.index
}

// tree builds the nodes of the document, and says whether their ends are known.
func (d *Document) tree() (root *node, exact bool) {
	if d.IsJSON() {
		if root, err := nodesOfJSON(d.src); err == nil {
			return root, true
		}
	}
	var p parser
	p.reset(d.src, true)
	if root, ok := p.document(); ok {
		return root, true
	}
	if root := nodesOfV3(d.src, d.index.lines); root != nil {
		return root, false
	}
	start := d.start()
	return &node{start: start, first: start, end: start}, false
}
