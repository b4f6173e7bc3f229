// Package persistent has an immutable map that is cheap to change.
package persistent

import (
	"hash/maphash"
	"iter"
)

// Map is an immutable map from strings to values, ordered by key. The zero value is empty.
// Set and Delete return a new Map that shares all but O(log n) nodes with the old one. It is
// safe for concurrent use.
type Map[V any] struct {
	root *node[V]
	n    int
}

// node is the root of a treap: a search tree by key, and a heap by weight. Weights are hashes
// of the keys, which balances the tree in whatever order the keys come.
type node[V any] struct {
	key         string
	value       V
	weight      uint64
	left, right *node[V]
}

// seed is the seed of the weights. It differs in each process, so that nobody can choose keys
// that make a tree deep.
var seed = maphash.MakeSeed()

// Len returns the number of keys.
func (m Map[V]) Len() int { return m.n }

// Get returns the value of a key, and whether there is one.
func (m Map[V]) Get(key string) (value V, ok bool) {
	for n := m.root; n != nil; {
		switch {
		case key == n.key:
			return n.value, true
		case key < n.key:
			n = n.left
		default:
			n = n.right
		}
	}
	return value, false
}

// Set returns the map with a value for a key.
func (m Map[V]) Set(key string, value V) Map[V] {
	if _, ok := m.Get(key); !ok {
		m.n++
	}
	m.root = m.root.set(key, value, maphash.String(seed, key))
	return m
}

// Delete returns the map without a key.
func (m Map[V]) Delete(key string) Map[V] {
	if _, ok := m.Get(key); !ok {
		return m
	}
	return Map[V]{root: m.root.delete(key), n: m.n - 1}
}

// From iterates over the keys that are not less than start, in their order.
func (m Map[V]) From(start string) iter.Seq2[string, V] {
	return func(yield func(string, V) bool) { m.root.from(start, yield) }
}

// All iterates over all keys in their order.
func (m Map[V]) All() iter.Seq2[string, V] { return m.From("") }

// set returns a new tree with the key. Its root is a copy that the caller may change.
func (n *node[V]) set(key string, value V, weight uint64) *node[V] {
	if n == nil {
		return &node[V]{key: key, value: value, weight: weight}
	}
	out := *n
	switch {
	case key == n.key:
		out.value = value
	case key < n.key:
		out.left = n.left.set(key, value, weight)
		if up := out.left; up.weight > out.weight {
			out.left, up.right = up.right, &out
			return up
		}
	default:
		out.right = n.right.set(key, value, weight)
		if up := out.right; up.weight > out.weight {
			out.right, up.left = up.left, &out
			return up
		}
	}
	return &out
}

// delete returns a new tree without the key, which the tree has.
func (n *node[V]) delete(key string) *node[V] {
	if key == n.key {
		return join(n.left, n.right)
	}
	out := *n
	if key < n.key {
		out.left = n.left.delete(key)
	} else {
		out.right = n.right.delete(key)
	}
	return &out
}

// join returns the tree of two, where all keys of a are less than those of b.
func join[V any](a, b *node[V]) *node[V] {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	case a.weight > b.weight:
		out := *a
		out.right = join(a.right, b)
		return &out
	default:
		out := *b
		out.left = join(a, b.left)
		return &out
	}
}

// from calls yield with the keys from start, and reports whether to go on.
func (n *node[V]) from(start string, yield func(string, V) bool) bool {
	if n == nil {
		return true
	}
	if n.key < start {
		return n.right.from(start, yield)
	}
	return n.left.from(start, yield) && yield(n.key, n.value) && n.right.from(start, yield)
}
