package fields

import (
	smd "sigs.k8s.io/structured-merge-diff/v6/schema"
)

// comparison compares two valid objects of one type.
type comparison struct {
	*typ
	// changed are the fields that were added or have another value, and removed those that
	// are gone.
	changed, removed set
	// unsure is set if a value has changed its form, where the type allows several.
	unsure bool
	path   []string
}

// compare compares two objects, without the fields of reset.
func (t *typ) compare(old, new map[string]any, reset map[string]bool) (c *comparison, ok bool) {
	c = &comparison{typ: t, changed: set{}, removed: set{}}
	root := t.resolve(t.root).Map
	for name, was := range old {
		if !reset[name] {
			is, ok := new[name]
			c.child(root, name, was, is, ok)
		}
	}
	for name, is := range new {
		if _, ok := old[name]; !ok && !reset[name] {
			c.added(root, name, is)
		}
	}
	return c, !c.unsure
}

// child compares a field that the old value has.
func (c *comparison) child(m *smd.Map, name string, was, is any, kept bool) {
	ref, _, _ := field(m, name)
	c.path = append(c.path, "f:"+name)
	if kept {
		c.values(ref, was, is)
	} else {
		c.insert(c.removed, c.whole(ref, was))
	}
	c.path = c.path[:len(c.path)-1]
}

func (c *comparison) added(m *smd.Map, name string, is any) {
	ref, _, _ := field(m, name)
	c.path = append(c.path, "f:"+name)
	c.insert(c.changed, c.whole(ref, is))
	c.path = c.path[:len(c.path)-1]
}

// values compares two values of one field.
func (c *comparison) values(ref smd.TypeRef, was, is any) {
	a := c.resolve(ref)
	before, after := formOf(was), formOf(is)
	if before == null && after == null {
		return
	}
	if before != after && severalForms(a) {
		c.unsure = true
		return
	}
	f := max(before, after) // null has every form
	switch {
	case f == aMap && a.Map.ElementRelationship != smd.Atomic:
		old, _ := was.(map[string]any)
		new, _ := is.(map[string]any)
		if len(old) == 0 && len(new) == 0 {
			break
		}
		if old != nil && sameMemory(old, new) {
			return
		}
		for name, was := range old {
			is, ok := new[name]
			c.child(a.Map, name, was, is, ok)
		}
		for name, is := range new {
			if _, ok := old[name]; !ok {
				c.added(a.Map, name, is)
			}
		}
		return
	case f == aList && a.List.ElementRelationship != smd.Atomic:
		old, _ := was.([]any)
		new, _ := is.([]any)
		if len(old) == 0 && len(new) == 0 {
			break
		}
		c.items(a.List, old, new)
		return
	}
	if !equal(was, is) {
		c.insert(c.changed, set{})
	}
}

// items compares the items of a set or a map.
func (c *comparison) items(l *smd.List, old, new []any) {
	if len(old) == len(new) && &old[0] == &new[0] {
		return
	}
	before, _ := c.keys(l, old)
	after, _ := c.keys(l, new)
	// Items mostly keep their places.
	index := make(map[string]int, len(after))
	for i, key := range after {
		if i < len(before) && before[i] == key {
			continue
		}
		index[key] = i
	}
	for i, key := range before {
		c.path = append(c.path, key)
		if j, ok := index[key]; ok {
			c.values(l.ElementType, old[i], new[j])
			delete(index, key)
		} else if i < len(after) && after[i] == key {
			c.values(l.ElementType, old[i], new[i])
		} else {
			c.insert(c.removed, c.whole(l.ElementType, old[i]))
		}
		c.path = c.path[:len(c.path)-1]
	}
	for key, i := range index {
		c.path = append(c.path, key)
		c.insert(c.changed, c.whole(l.ElementType, new[i]))
		c.path = c.path[:len(c.path)-1]
	}
}

// whole returns the node of a value that was added or removed as a whole: all containers and
// leaves are members.
func (c *comparison) whole(ref smd.TypeRef, v any) set {
	a := c.resolve(ref)
	switch v := v.(type) {
	case map[string]any:
		if len(v) == 0 || a.Map.ElementRelationship == smd.Atomic {
			break
		}
		node := make(set, len(v)+1)
		node[self] = set{}
		for name, child := range v {
			ref, _, _ := field(a.Map, name)
			node["f:"+name] = c.whole(ref, child)
		}
		return node
	case []any:
		if len(v) == 0 || a.List.ElementRelationship == smd.Atomic {
			break
		}
		node := make(set, len(v)+1)
		node[self] = set{}
		keys, _ := c.keys(a.List, v)
		for i, key := range keys {
			node[key] = c.whole(a.List.ElementType, v[i])
		}
		return node
	}
	return set{}
}

// insert inserts a node at the current path, which is not in the set yet. The set is built
// here, so it may be changed.
func (c *comparison) insert(s, node set) {
	last := len(c.path) - 1
	for _, key := range c.path[:last] {
		child, ok := s[key].(set)
		if !ok {
			child = set{}
			s[key] = child
		}
		s = child
	}
	s[c.path[last]] = node
}

// fieldSet returns the fields that an applied configuration owns, without those of reset.
func (t *typ) fieldSet(config map[string]any, reset map[string]bool) set {
	root := t.resolve(t.root).Map
	out := make(set, len(config))
	for name, v := range config {
		if !reset[name] {
			t.ownField(root, name, v, out)
		}
	}
	return out
}

func (t *typ) ownField(m *smd.Map, name string, v any, into set) {
	ref, declared, _ := field(m, name)
	member, children := t.owned(ref, v)
	if fields, ok := v.(map[string]any); v == nil || ok && len(fields) == 0 || !declared {
		member = true
	}
	if node, ok := newNode(member, children); ok {
		into["f:"+name] = node
	}
}

// owned returns the fields that a configuration owns in one of its values, and whether it owns
// the value itself.
func (t *typ) owned(ref smd.TypeRef, v any) (member bool, children set) {
	a := t.resolve(ref)
	switch v := v.(type) {
	case nil:
		return true, nil
	case map[string]any:
		if a.Map.ElementRelationship == smd.Atomic {
			return true, nil
		}
		children = make(set, len(v)+1)
		for name, child := range v {
			t.ownField(a.Map, name, child, children)
		}
		return false, children
	case []any:
		if a.List.ElementRelationship == smd.Atomic {
			return true, nil
		}
		children = make(set, len(v)+1)
		keys, _ := t.keys(a.List, v)
		for i, key := range keys {
			_, below := t.owned(a.List.ElementType, v[i])
			children[key], _ = newNode(true, below)
		}
		return false, children
	}
	return true, nil
}
