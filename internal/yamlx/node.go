package yamlx

import (
	"slices"
	"strconv"

	"espalier.dev/internal/jsonx"
)

// Kind is the kind of a Node.
type Kind uint8

// The kinds of nodes.
const (
	Scalar Kind = iota
	Mapping
	Sequence
	Alias
)

// Node is a value with its offsets in the document's text. The value of a mapping's entry
// carries the entry's key.
type Node struct {
	Kind Kind
	// Flow is set for collections in braces or brackets.
	Flow bool
	// Start and End enclose the value. An empty value is at the end of the preceding text.
	Start, End int
	// First is the start of the value's anchor and tag, or Start.
	First int

	// Intro is the offset after the colon or dash that introduces the value, 0 for the root
	// and for items in brackets.
	Intro int

	// Keyed is set for the values of mapping entries: Key is the entry's name in JSON.
	Keyed            bool
	Key              string
	KeyStart, KeyEnd int
	// Merge is set if the key is a merge key, "<<".
	Merge bool

	// Children are the values of a mapping's entries, or the items of a sequence.
	Children []*Node
	// byKey indexes the entries of a large mapping by name; it is built on the first lookup.
	byKey map[string]*Node
	// target is the node that an alias refers to.
	target *Node
	// JSON is the value of a scalar.
	JSON []byte
}

// deref follows an alias.
func (n *Node) deref() *Node {
	for n.Kind == Alias && n.target != nil {
		n = n.target
	}
	return n
}

// maxMerges bounds the merge keys that are followed for one entry: an anchor can contain
// itself, or the same anchor many times.
const maxMerges = 1000

// Entry returns the value of the entry with the given name. The last one wins, whether it is
// the mapping's own or merged.
func (n *Node) Entry(name string) *Node {
	merges := maxMerges
	return n.entryWithin(name, &merges)
}

// largeMapping is the number of entries from which lookups use an index.
const largeMapping = 64

func (n *Node) entryWithin(name string, merges *int) *Node {
	if n.byKey != nil || len(n.Children) >= largeMapping && !n.merges() {
		if n.byKey == nil {
			n.byKey = make(map[string]*Node, len(n.Children))
			for _, c := range n.Children {
				n.byKey[c.Key] = c
			}
		}
		return n.byKey[name]
	}
	for i := len(n.Children) - 1; i >= 0; i-- {
		c := n.Children[i]
		if !c.Merge {
			if c.Key == name {
				return c
			}
			continue
		}
		for _, from := range c.mergeSources() {
			if *merges--; *merges < 0 {
				return nil
			}
			if from = from.deref(); from.Kind == Mapping {
				if found := from.entryWithin(name, merges); found != nil {
					return found
				}
			}
		}
	}
	return nil
}

// merges reports whether a mapping has merge keys.
func (n *Node) merges() bool {
	return slices.ContainsFunc(n.Children, func(c *Node) bool { return c.Merge })
}

// mergeSources returns the mappings that n, the value of a merge key, refers to; the first
// one wins.
func (n *Node) mergeSources() []*Node {
	if from := n.deref(); from.Kind == Sequence {
		return from.Children
	}
	return []*Node{n}
}

// entries returns the entries of a mapping, with merged entries in place of the merge key. A
// merged entry replaces, and is replaced by, an entry of the same name: only the mapping's
// own entries can be duplicates. It returns false if it would have to follow more than merges
// merge keys.
func (n *Node) entries(merges *int) ([]*Node, bool) {
	if !n.merges() {
		return n.Children, true
	}
	var all []*Node
	last, merged := map[string]int{}, map[string]bool{}
	add := func(e *Node, merge bool) {
		i, ok := last[e.Key]
		if ok && (merge || merged[e.Key]) {
			all[i] = e
		} else {
			last[e.Key] = len(all)
			all = append(all, e)
		}
		merged[e.Key] = merge
	}
	for _, c := range n.Children {
		if !c.Merge {
			add(c, false)
			continue
		}
		for _, from := range slices.Backward(c.mergeSources()) {
			if *merges--; *merges < 0 {
				return nil, false
			}
			if from = from.deref(); from.Kind != Mapping {
				return nil, false
			}
			found, ok := from.entries(merges)
			if !ok {
				return nil, false
			}
			for _, e := range found {
				add(e, true)
			}
		}
	}
	return all, true
}

// Index returns the index of the child that a token of a pointer names, or -1. It ignores
// merged entries.
func (n *Node) Index(token string) int {
	switch n.Kind {
	case Mapping:
		for i := len(n.Children) - 1; i >= 0; i-- {
			if c := n.Children[i]; c.Key == token && !c.Merge {
				return i
			}
		}
	case Sequence:
		if i, err := strconv.Atoi(token); err == nil && i >= 0 && i < len(n.Children) && strconv.Itoa(i) == token {
			return i
		}
	}
	return -1
}

// EntryStart returns the start of the entry or item of a value: its key, its dash, or the
// value.
func (n *Node) EntryStart() int {
	switch {
	case n.Keyed:
		return n.KeyStart
	case n.Intro > 0:
		return n.Intro - 1
	}
	return n.First
}

// Text returns the value of a scalar that is a string, and whether it is one.
func (n *Node) Text() (string, bool) {
	s, err := jsonx.Unquote(n.JSON)
	return s, err == nil
}
