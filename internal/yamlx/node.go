package yamlx

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

	// keyed is set for the values of mapping entries: key is the entry's name as it is in JSON.
	keyed            bool
	key              string
	keyStart, keyEnd int
	// merge is set when the key is "<<" and means that the value's entries are merged.
	merge bool

	children []*node
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

// entry returns the value of the entry with the given name. As in the document's
// value the last one wins, be it the mapping's own or merged.
func (n *node) entry(name string) *node { return n.entryWithin(name, 0) }

// maxMerges bounds how deep merge keys may lead to one another: an anchor can hold itself.
const maxMerges = 100

func (n *node) entryWithin(name string, depth int) *node {
	if depth > maxMerges {
		return nil
	}
	for i := len(n.children) - 1; i >= 0; i-- {
		c := n.children[i]
		if !c.merge {
			if c.key == name {
				return c
			}
			continue
		}
		sources := []*node{c}
		if from := c.deref(); from.kind == sequence {
			sources = from.children
		}
		for _, s := range sources {
			if s = s.deref(); s.kind == mapping {
				if found := s.entryWithin(name, depth+1); found != nil {
					return found
				}
			}
		}
	}
	return nil
}
