package yamlx

import "slices"

// kind is what a node is.
type kind uint8

const (
	scalar kind = iota
	mapping
	sequence
	alias
)

// node is a value and where it stands: offsets in the document's text. The value of
// a mapping's entry carries the entry's key.
type node struct {
	kind kind
	// flow is set for collections in braces or brackets.
	flow bool
	// start and end enclose the value. An empty value is at the end of what precedes it.
	start, end int
	// first is where the value's anchor and tag start; start if it has none.
	first int

	// intro is the offset behind the colon or the dash that introduces the value, 0 for
	// the root and for items in brackets.
	intro int

	// keyed is set for the values of mapping entries: key is the entry's name as it is in JSON.
	keyed            bool
	key              string
	keyStart, keyEnd int
	// merge is set when the key is "<<" and means that the value's entries are merged.
	merge bool

	children []*node
	// byKey are the entries of a large mapping by name, made when one is looked for.
	byKey map[string]*node
	// target is what an alias stands for.
	target *node
	// json is the value of a scalar.
	json []byte
}

// deref follows an alias.
func (n *node) deref() *node {
	for n.kind == alias && n.target != nil {
		n = n.target
	}
	return n
}

// maxMerges bounds how many merge keys are followed for one entry: an anchor can hold
// itself, or the same one many times over.
const maxMerges = 1000

// entry returns the value of the entry with the given name. As in the document's
// value the last one wins, be it the mapping's own or merged.
func (n *node) entry(name string) *node {
	merges := maxMerges
	return n.entryWithin(name, &merges)
}

// largeMapping is from how many entries on they are not looked at one by one.
const largeMapping = 64

func (n *node) entryWithin(name string, merges *int) *node {
	if n.byKey != nil || len(n.children) >= largeMapping && !n.merges() {
		if n.byKey == nil {
			n.byKey = make(map[string]*node, len(n.children))
			for _, c := range n.children {
				n.byKey[c.key] = c
			}
		}
		return n.byKey[name]
	}
	for i := len(n.children) - 1; i >= 0; i-- {
		c := n.children[i]
		if !c.merge {
			if c.key == name {
				return c
			}
			continue
		}
		for _, from := range c.mergeSources() {
			if *merges--; *merges < 0 {
				return nil
			}
			if from = from.deref(); from.kind == mapping {
				if found := from.entryWithin(name, merges); found != nil {
					return found
				}
			}
		}
	}
	return nil
}

// merges says whether a mapping has merge keys.
func (n *node) merges() bool {
	return slices.ContainsFunc(n.children, func(c *node) bool { return c.merge })
}

// mergeSources are the mappings that a merge key's value n names; the first one wins.
func (n *node) mergeSources() []*node {
	if from := n.deref(); from.kind == sequence {
		return from.children
	}
	return []*node{n}
}

// entries returns the entries of a mapping, those that it merges in the place of the
// merge key. What is merged replaces an entry of the same name and is replaced by
// one: only the mapping's own entries can occur twice. It returns false when more
// than merges merge keys would have to be followed.
func (n *node) entries(merges *int) ([]*node, bool) {
	if !n.merges() {
		return n.children, true
	}
	var all []*node
	last, merged := map[string]int{}, map[string]bool{}
	add := func(e *node, merge bool) {
		i, ok := last[e.key]
		if ok && (merge || merged[e.key]) {
			all[i] = e
		} else {
			last[e.key] = len(all)
			all = append(all, e)
		}
		merged[e.key] = merge
	}
	for _, c := range n.children {
		if !c.merge {
			add(c, false)
			continue
		}
		for _, from := range slices.Backward(c.mergeSources()) {
			if *merges--; *merges < 0 {
				return nil, false
			}
			if from = from.deref(); from.kind != mapping {
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
