package fields

import (
	"maps"
	"sync"
)

// A set is a set of fields in the format of FieldsV1: a tree whose keys are serialized path
// elements. A field is a member if its node is empty or has the key ".". Sets are immutable:
// operations return a new set, which shares memory with their operands, or an operand.
type set = map[string]any

const self = "." // the key of a node that is a member and has children

func isMember(node set) bool {
	if len(node) == 0 {
		return true
	}
	_, ok := node[self]
	return ok
}

// newNode returns the node of a field, and false if there is nothing to store. It takes
// ownership of children, which has no member itself.
func newNode(member bool, children set) (set, bool) {
	switch {
	case len(children) == 0:
		return set{}, member
	case member:
		children[self] = set{}
	}
	return children, true
}

// minus returns the members of a that are not members of b.
func minus(a, b set) set {
	out := a
	for key, n := range b {
		if key == self {
			continue
		}
		was, ok := out[key].(set)
		if !ok {
			continue
		}
		is, kept := minusNode(was, n.(set))
		if kept && sameMemory(is, was) {
			continue
		}
		if sameMemory(out, a) {
			out = maps.Clone(a)
		}
		if kept {
			out[key] = is
		} else {
			delete(out, key)
		}
	}
	return out
}

// minusNode is minus for the nodes of a field. It returns false if nothing is left.
func minusNode(a, b set) (set, bool) {
	if len(a) == 0 {
		return a, !isMember(b)
	}
	member := isMember(a)
	left := minus(a, b)
	if !member || !isMember(b) {
		if member && len(left) == 1 {
			return set{}, true
		}
		return left, len(left) > 0
	}
	if sameMemory(left, a) {
		left = maps.Clone(a)
	}
	delete(left, self)
	return left, len(left) > 0
}

// union returns the members of a and b.
func union(a, b set) set {
	if len(a) == 0 {
		return b
	}
	out := a
	for key, n := range b {
		if key == self {
			continue
		}
		add := n.(set)
		if was, ok := out[key].(set); ok {
			member := isMember(was) || isMember(add)
			is := union(was, add)
			if _, has := is[self]; member && len(is) > 0 && !has {
				is = maps.Clone(is)
				is[self] = set{}
			}
			if sameMemory(is, was) {
				continue
			}
			add = is
		}
		if sameMemory(out, a) {
			out = maps.Clone(a)
		}
		out[key] = add
	}
	return out
}

// contains reports whether all members of b are members of a.
func contains(a, b set) bool {
	for key, n := range b {
		if key == self {
			continue
		}
		in, ok := a[key].(set)
		if !ok {
			return false
		}
		sub := n.(set)
		if isMember(sub) && !isMember(in) || !contains(in, sub) {
			return false
		}
	}
	return true
}

// intersects reports whether a and b have a member in common.
func intersects(a, b set) bool {
	if len(b) < len(a) {
		a, b = b, a
	}
	for key, n := range a {
		if key == self {
			continue
		}
		other, ok := b[key].(set)
		if !ok {
			continue
		}
		sub := n.(set)
		if isMember(sub) && isMember(other) || intersects(sub, other) {
			return true
		}
	}
	return false
}

// stripped returns the fields that are never owned: they identify an object, or the server
// sets them. The set is shared and must not be changed.
var stripped = sync.OnceValue(func() set {
	return set{
		"f:apiVersion": set{},
		"f:kind":       set{},
		"f:metadata": set{
			self: set{}, "f:name": set{}, "f:namespace": set{}, "f:creationTimestamp": set{}, "f:selfLink": set{}, "f:uid": set{},
			"f:clusterName": set{}, "f:generation": set{}, "f:managedFields": set{}, "f:resourceVersion": set{},
		},
	}
})
