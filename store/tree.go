package store

import (
	"iter"
	"slices"
	"sort"
	"strings"
)

// maxNode is the number of entries or children of a full node, and minNode that from which on a node
// is not joined with its neighbor. A larger node makes reads faster and writes after a snapshot slower.
// A slice that grows has room for exactly one element more than a full node.
const (
	maxNode = 63
	minNode = (maxNode + 1) / 4
)

// tree is a B+ tree of entries in the order of their keys. Each node knows the number of entries
// below it, so that the position of a key is found without a walk. A copy shares all nodes until one
// of the trees changes. One goroutine at a time may change or copy a tree; reads of a tree that does
// not change are safe.
type tree struct {
	root *node
	// owner marks the nodes that no other tree shares.
	owner *owner
}

// owner identifies a tree. It is not empty, so that each has its own address.
type owner struct{ _ byte }

// node is a leaf with entries, or an inner node with children.
type node struct {
	owner   *owner
	entries []*Entry
	// children are the nodes below an inner node. lows[i] is a lower bound of the keys of children[i],
	// and greater than all keys before it; lows[0] is not used.
	children []*node
	lows     []string
	// count is the number of entries of the node and below it.
	count int
}

func newTree() *tree {
	o := &owner{}
	return &tree{root: &node{owner: o}, owner: o}
}

// clone returns a tree with the same entries.
func (t *tree) clone() *tree {
	t.owner = &owner{}
	return &tree{root: t.root, owner: &owner{}}
}

func (t *tree) len() int { return t.root.count }

// get returns the entry of a key, or nil.
func (t *tree) get(key string) *Entry {
	n := t.root
	for n.children != nil {
		n = n.children[n.child(key)]
	}
	if i, ok := n.find(key); ok {
		return n.entries[i]
	}
	return nil
}

// set adds an entry, and returns the one with its key that it replaces, or nil.
func (t *tree) set(e *Entry) *Entry {
	t.root = t.root.mutable(t.owner)
	old, right, low := t.root.set(e)
	if right != nil {
		t.root = &node{owner: t.owner, children: []*node{t.root, right}, lows: []string{"", low}, count: t.root.count + right.count}
	}
	return old
}

// delete removes the entry of a key and returns it, or nil if there is none.
func (t *tree) delete(key string) *Entry {
	old := t.get(key)
	if old == nil {
		return nil
	}
	t.root = t.root.mutable(t.owner)
	t.root.delete(key)
	for len(t.root.children) == 1 {
		t.root = t.root.children[0]
	}
	return old
}

// from returns the entries from a key on.
func (t *tree) from(key string) iter.Seq[*Entry] {
	return func(yield func(*Entry) bool) { t.root.ascend(key, yield) }
}

// position returns the number of entries before a key.
func (t *tree) position(key string) int {
	n, before := t.root, 0
	for n.children != nil {
		i := n.child(key)
		for _, c := range n.children[:i] {
			before += c.count
		}
		n = n.children[i]
	}
	i, _ := n.find(key)
	return before + i
}

// child returns the index of the child whose keys may include a key.
func (n *node) child(key string) int {
	return sort.Search(len(n.children)-1, func(i int) bool { return key < n.lows[i+1] })
}

// find returns the index of the first entry of a leaf that is not before a key, and whether it has
// that key.
func (n *node) find(key string) (int, bool) {
	return slices.BinarySearchFunc(n.entries, key, func(e *Entry, key string) int { return strings.Compare(e.Key, key) })
}

// mutable returns the node if it belongs to the owner, or else a copy that does.
func (n *node) mutable(o *owner) *node {
	if n.owner == o {
		return n
	}
	out := &node{owner: o, entries: n.entries, children: n.children, lows: n.lows, count: n.count}
	out.move()
	return out
}

// move moves what a node has to memory of its own.
func (n *node) move() {
	if n.children == nil {
		n.entries = roomy(n.entries)
	} else {
		n.children, n.lows = roomy(n.children), roomy(n.lows)
	}
}

// roomy returns a copy with room for one element more than a full node.
func roomy[T any](list []T) []T { return append(make([]T, 0, maxNode+1), list...) }

// mutableChild returns a child that may be changed.
func (n *node) mutableChild(i int) *node {
	n.children[i] = n.children[i].mutable(n.owner)
	return n.children[i]
}

// set adds an entry below a node that may be changed. A node that has become too large keeps the first
// part, and returns a new one with the rest and its lower bound.
func (n *node) set(e *Entry) (old *Entry, right *node, low string) {
	if n.children == nil {
		i, ok := n.find(e.Key)
		if ok {
			old, n.entries[i] = n.entries[i], e
			return old, nil, ""
		}
		n.entries = slices.Insert(n.entries, i, e)
		n.count++
		right, low = n.split(i)
		return nil, right, low
	}
	i := n.child(e.Key)
	old, added, at := n.mutableChild(i).set(e)
	if old == nil {
		n.count++
	}
	if added == nil {
		return old, nil, ""
	}
	n.children, n.lows = slices.Insert(n.children, i+1, added), slices.Insert(n.lows, i+1, at)
	right, low = n.split(i + 1)
	return old, right, low
}

// split divides a node that is too large, after an element was inserted. A node at whose end it was
// inserted stays almost full, because keys often arrive in their order. Each part has at least two
// elements.
func (n *node) split(inserted int) (right *node, low string) {
	size := len(n.entries) + len(n.children)
	if size <= maxNode {
		return nil, ""
	}
	at := size / 2
	if inserted == size-1 {
		at = size - 2
	}
	return n.divide(at)
}

// divide moves what is at an index and after it to a new node.
func (n *node) divide(at int) (right *node, low string) {
	right = &node{owner: n.owner}
	if n.children == nil {
		right.entries = roomy(n.entries[at:])
		clear(n.entries[at:])
		n.entries = n.entries[:at]
		low = right.entries[0].Key
	} else {
		right.children, right.lows = roomy(n.children[at:]), roomy(n.lows[at:])
		clear(n.children[at:])
		clear(n.lows[at:])
		n.children, n.lows = n.children[:at], n.lows[:at]
		low = right.lows[0]
	}
	n.recount()
	right.recount()
	return right, low
}

func (n *node) recount() {
	n.count = len(n.entries)
	for _, c := range n.children {
		n.count += c.count
	}
}

// delete removes the entry of a key, which exists, below a node that may be changed.
func (n *node) delete(key string) {
	n.count--
	if n.children == nil {
		i, _ := n.find(key)
		n.entries = slices.Delete(n.entries, i, i+1)
		return
	}
	i := n.child(key)
	c := n.mutableChild(i)
	c.delete(key)
	if len(c.entries)+len(c.children) < minNode && len(n.children) > 1 {
		n.join(max(i, 1) - 1)
	}
}

// join makes one node of a child and the next one, or two of the same size if one would be too large.
func (n *node) join(i int) {
	left, right := n.mutableChild(i), n.children[i+1]
	low := n.lows[i+1]
	size := len(left.entries) + len(left.children) + len(right.entries) + len(right.children)
	if left.children == nil {
		left.entries = append(left.entries, right.entries...)
	} else {
		at := len(left.lows)
		left.children, left.lows = append(left.children, right.children...), append(left.lows, right.lows...)
		left.lows[at] = low
	}
	left.recount()
	if size > maxNode {
		n.children[i+1], n.lows[i+1] = left.divide(size / 2)
	} else {
		n.children, n.lows = slices.Delete(n.children, i+1, i+2), slices.Delete(n.lows, i+1, i+2)
	}
	left.move() // it may have become too large before it was divided
}

// ascend yields the entries from a key on. It reports whether to go on.
func (n *node) ascend(key string, yield func(*Entry) bool) bool {
	if n.children == nil {
		i, _ := n.find(key)
		for _, e := range n.entries[i:] {
			if !yield(e) {
				return false
			}
		}
		return true
	}
	for i := n.child(key); i < len(n.children); i++ {
		if !n.children[i].ascend(key, yield) {
			return false
		}
	}
	return true
}
