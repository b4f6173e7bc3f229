package assist

import (
	"slices"
	"strconv"

	"espalier.dev/internal/yamlx"
	"espalier.dev/schema"
)

// form is what a node of an outline is.
type form uint8

const (
	// absent is the form of a value that is not there, such as after "key:".
	absent form = iota
	scalar
	mapping
	sequence
	alias
)

// node is a value in the text of a document that need not parse.
type node struct {
	form   form
	parent *node
	// flow is set for collections in braces or brackets.
	flow bool
	// style is the quote of a scalar, | or > of a block scalar, or 0.
	style byte
	// start and end enclose the value, with its quotes.
	start, end int
	// ownLine is set for a scalar that is not on the line of its key or dash.
	ownLine bool
	// closed is set for a quoted scalar that has its second quote.
	closed bool
	// indent is the column of the keys or dashes of a block collection.
	indent int

	// keyed is set for the values of entries. colon is the offset after the colon, or -1 if
	// there is none yet.
	keyed            bool
	key              string
	keyStart, keyEnd int
	colon            int
	// index is the position of an item in its sequence.
	index int

	children []*node
}

// add appends a child.
func (n *node) add(child *node) *node {
	child.parent, child.index = n, len(n.children)
	n.children = append(n.children, child)
	return child
}

// last returns the last child, or nil.
func (n *node) last() *node {
	if len(n.children) == 0 {
		return nil
	}
	return n.children[len(n.children)-1]
}

// entry returns the value of the last entry of a mapping with the given name, or nil.
func (n *node) entry(name string) *node {
	if n == nil || n.form != mapping {
		return nil
	}
	for _, c := range slices.Backward(n.children) {
		if c.key == name {
			return c
		}
	}
	return nil
}

// path returns the path from the root.
func (n *node) path() (path schema.Path) {
	for ; n.parent != nil; n = n.parent {
		path = append(path, n.step())
	}
	slices.Reverse(path)
	return path
}

func (n *node) step() schema.Step {
	if n.keyed {
		return schema.Step{Key: n.key}
	}
	return schema.Step{Kind: schema.Index, Index: n.index}
}

// at returns the node at a path, or nil.
func (n *node) at(path schema.Path) *node {
	for _, step := range path {
		switch {
		case n == nil:
			return nil
		case step.Kind != schema.Index:
			n = n.entry(step.Key)
		case n.form == sequence && step.Index < len(n.children):
			n = n.children[step.Index]
		default:
			return nil
		}
	}
	return n
}

// outline is the tree of a document that need not parse.
type outline struct {
	src  []byte
	root *node
	// step is by how much the document indents the entries of a mapping, dash the items of a
	// sequence. eol is its line break.
	step, dash int
	eol        string
}

// maxDepth limits the depth of the values that value returns, of lists in lists, and of collections in
// braces.
const maxDepth = 200

// value returns the value of a node as JSON values. Incomplete entries have no value, and what
// is deeper than maxDepth is nil.
func (o *outline) value(n *node) any { return o.valueWithin(n, maxDepth) }

func (o *outline) valueWithin(n *node, depth int) any {
	if n == nil || depth == 0 {
		return nil
	}
	switch n.form {
	case mapping:
		m := make(map[string]any, len(n.children))
		for _, c := range n.children {
			if c.colon >= 0 {
				m[c.key] = o.valueWithin(c, depth-1)
			}
		}
		return m
	case sequence:
		list := make([]any, 0, len(n.children))
		for _, c := range n.children {
			list = append(list, o.valueWithin(c, depth-1))
		}
		return list
	case scalar:
		text := o.text(n, n.end)
		if n.style != 0 {
			return text
		}
		switch v := yamlx.Resolve(text).(type) {
		case uint64:
			return float64(v)
		default:
			return v
		}
	}
	return nil
}

// scalars returns the texts of the scalars of a mapping.
func (o *outline) scalars(n *node) map[string]string {
	if n == nil || n.form != mapping {
		return nil
	}
	out := map[string]string{}
	for _, c := range n.children {
		if c.form == scalar && c.colon >= 0 {
			out[c.key] = o.text(c, c.end)
		}
	}
	return out
}

// keyName returns the name that a plain key has in JSON.
func keyName(text string) string {
	switch v := yamlx.Resolve(text).(type) {
	case bool:
		return strconv.FormatBool(v)
	case int64:
		return strconv.FormatInt(v, 10)
	}
	return text
}
