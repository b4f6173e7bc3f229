package yamlx

import (
	"slices"
	"unicode/utf8"

	"espalier.dev/internal/jsonptr"
)

// Position is a range of a document's text. Lines and columns are those of the file and count
// from 1; columns count characters. Offsets are bytes in the document's Source. The end is
// exclusive.
type Position struct {
	Line, Column, EndLine, EndColumn, Offset, EndOffset int
}

// Span is the position of a value.
type Span struct {
	// Key is the position of the key of a map entry, and zero for list items and the root.
	Key Position
	// Value is the position of the value itself.
	Value Position
	// Exact is false if the value does not exist. The span is then that of the nearest
	// enclosing value.
	Exact bool
}

// index holds the positions of the nodes of a document.
type index struct {
	root  *Node
	lines lines
	// chars holds the number of characters before every charStep-th byte, because lines can
	// be long.
	chars []int
	// inexact is the reason why the ends of nodes are unknown, or nil.
	inexact *Error
}

// Find returns the position of the value at a JSON pointer (RFC 6901). It follows aliases and
// merge keys to the text that they refer to. In an unreadable document every position is the
// start.
func (d *Document) Find(pointer string) Span {
	n, exact := d.indexed().lookup(pointer)
	return d.span(n, exact)
}

// FindAgain returns the position of the repeated entry at a JSON pointer. Mappings on the
// path may be repeated too, and the duplicate may be in one that does not win. If no mapping
// repeats the entry, FindAgain is Find.
func (d *Document) FindAgain(pointer string) Span {
	visits := maxVisits
	if n := d.indexed().root.again(pointer, &visits); n != nil {
		return d.span(n, true)
	}
	return d.Find(pointer)
}

// maxVisits bounds the nodes that are visited in search of a repeated entry.
const maxVisits = 10_000

// again returns the last entry at a pointer that repeats the name of an earlier one.
func (n *Node) again(pointer string, visits *int) *Node {
	n = n.deref()
	if pointer == "" || !jsonptr.Valid(pointer) {
		return nil
	}
	token, rest := jsonptr.Cut(pointer)
	if n.Kind != Mapping {
		if next := n.child(token); next != nil && rest != "" {
			return next.again(rest, visits)
		}
		return nil
	}
	var last *Node
	for _, c := range slices.Backward(n.Children) {
		if *visits--; *visits < 0 {
			return nil
		}
		switch {
		case c.Merge || c.Key != token:
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

func (d *Document) span(n *Node, exact bool) Span {
	s := Span{Value: d.position(n.Start, n.End), Exact: exact}
	if n.Keyed {
		s.Key = d.position(n.KeyStart, n.KeyEnd)
	}
	return s
}

// lookup returns the node at a pointer and true, or the nearest enclosing node and false.
func (ix *index) lookup(pointer string) (*Node, bool) {
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
func (n *Node) child(token string) *Node {
	n = n.deref()
	switch n.Kind {
	case Mapping:
		return n.Entry(token)
	case Sequence:
		if i := n.Index(token); i >= 0 {
			return n.Children[i]
		}
	}
	return nil
}

// position converts offsets to a Position.
func (d *Document) position(start, end int) Position {
	p := Position{Offset: start, EndOffset: end}
	p.Line, p.Column = d.lineColumn(start)
	p.EndLine, p.EndColumn = d.lineColumn(end)
	return p
}

// LineColumn returns the line and column in the file of an offset in Source.
func (d *Document) LineColumn(offset int) (line, column int) {
	d.indexed()
	return d.lineColumn(offset)
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

// charStep is the number of bytes between offsets whose character count is stored.
const charStep = 4096

// charsBefore returns the number of characters before an offset.
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

// indexed returns the index and builds it on the first call.
func (d *Document) indexed() *index {
	if d.index == nil {
		d.index = &index{lines: linesOf(d.src), chars: []int{0}}
		for i := charStep; i <= len(d.src); i += charStep {
			d.index.chars = append(d.index.chars, d.index.chars[i/charStep-1]+charsIn(d.src[i-charStep:i]))
		}
		d.index.root, d.index.inexact = d.tree()
	}
	return d.index
}

// Tree returns the nodes of the document. If their ends are unknown because the document uses
// YAML that only the library can read, it returns an *Error whose message names the
// construct.
func (d *Document) Tree() (*Node, error) {
	if ix := d.indexed(); ix.inexact == nil {
		return ix.root, nil
	}
	return nil, d.index.inexact
}

// Nodes returns the nodes of the document like Tree, but also if only their starts are known.
func (d *Document) Nodes() *Node { return d.indexed().root }

// tree builds the nodes of the document and returns why their ends are unknown.
func (d *Document) tree() (root *Node, inexact *Error) {
	if d.IsJSON() {
		if root, err := JSONTree(d.src); err == nil {
			return root, nil
		}
	}
	root, inexact = YAMLTree(d.src)
	if inexact == nil {
		return root, nil
	}
	inexact.Line += d.line - 1
	if root := nodesOfV3(d.src, d.index.lines); root != nil {
		return root, inexact
	}
	start := d.start()
	return &Node{Start: start, First: start, End: start}, inexact
}

// YAMLTree returns the nodes of a YAML document. It supports the subset of YAML that nearly
// all documents use; the error names what is unsupported or wrong.
func YAMLTree(src []byte) (*Node, *Error) {
	var p parser
	p.reset(src, true)
	if root, ok := p.document(); ok {
		return root, nil
	}
	line, column := place(src, p.failed.offset)
	return nil, &Error{Line: line, Column: column, Message: p.failed.problem}
}
