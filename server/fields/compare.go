package fields

// comparison is the difference between two objects of one type.
type comparison struct {
	// changed are the fields that were added or have another value, and removed those that
	// are gone.
	changed, removed set
}

// compare compares two objects, without the fields of reset. It returns false if one of them
// is not valid, or if a value has changed its form where the type allows several. If trusted
// is set, both are known to be valid.
func (t *typ) compare(old, new map[string]any, reset map[string]bool, trusted bool) (*comparison, bool) {
	c := &comparer{reset: reset, trusted: trusted, comparison: comparison{changed: set{}, removed: set{}}}
	c.maps(t.fields, old, new)
	return &c.comparison, !c.unsure
}

type comparer struct {
	comparison
	reset   map[string]bool
	trusted bool
	unsure  bool
	path    []string
}

// maps compares the fields of two maps.
func (c *comparer) maps(m *typMap, old, new map[string]any) {
	for name, was := range old {
		t, key, _ := m.entry(name)
		if t == nil {
			c.unsure = true
			return
		}
		is, ok := new[name]
		if len(c.path) == 0 && c.reset[name] {
			c.check(t, was)
			c.check(t, is)
			continue
		}
		c.path = append(c.path, key)
		if ok {
			c.values(t, was, is)
		} else {
			c.insert(c.removed, c.whole(t, was))
		}
		c.path = c.path[:len(c.path)-1]
	}
	for name, is := range new {
		if _, ok := old[name]; ok {
			continue
		}
		t, key, _ := m.entry(name)
		if t == nil {
			c.unsure = true
			return
		}
		if len(c.path) == 0 && c.reset[name] {
			c.check(t, is)
			continue
		}
		c.path = append(c.path, key)
		c.insert(c.changed, c.whole(t, is))
		c.path = c.path[:len(c.path)-1]
	}
}

// check checks that a value is valid.
func (c *comparer) check(t *typ, v any) {
	if !c.trusted && !t.valid(v) {
		c.unsure = true
	}
}

// values compares two values of one field.
func (c *comparer) values(t *typ, was, is any) {
	before, after := formOf(was), formOf(is)
	if before != after && t.several {
		c.unsure = true
		return
	}
	switch f := max(before, after); { // null has every form
	case f == aMap && t.fields != nil && !t.fields.atomic:
		old, _ := was.(map[string]any)
		new, _ := is.(map[string]any)
		if c.trusted && old != nil && sameMemory(old, new) {
			return
		}
		if before >= aScalar && old == nil || after >= aScalar && new == nil {
			c.unsure = true
			return
		}
		if len(old) > 0 || len(new) > 0 {
			c.maps(t.fields, old, new)
			return
		}
	case f == aList && t.items != nil && !t.items.atomic:
		old, _ := was.([]any)
		new, _ := is.([]any)
		if before >= aScalar && old == nil || after >= aScalar && new == nil {
			c.unsure = true
			return
		}
		if len(old) > 0 || len(new) > 0 {
			c.lists(t.items, old, new)
			return
		}
	default:
		c.check(t, was)
	}
	if !c.unsure && !equal(was, is) {
		c.check(t, is)
		c.insert(c.changed, set{})
	}
}

// lists compares the items of a set or a map.
func (c *comparer) lists(l *typList, old, new []any) {
	if c.trusted && len(old) == len(new) && &old[0] == &new[0] {
		return
	}
	before, ok := l.keysOf(old)
	after, ok2 := l.keysOf(new)
	if !ok || !ok2 {
		c.unsure = true
		return
	}
	// Most items keep their places.
	var index map[string]int
	for i, key := range after {
		if i < len(before) && before[i] == key {
			continue
		}
		if index == nil {
			index = make(map[string]int, len(after)-i)
		}
		index[key] = i
	}
	for i, key := range before {
		c.path = append(c.path, key)
		if j, ok := index[key]; ok {
			c.values(l.element, old[i], new[j])
			delete(index, key)
		} else if i < len(after) && after[i] == key {
			c.values(l.element, old[i], new[i])
		} else {
			c.insert(c.removed, c.whole(l.element, old[i]))
		}
		c.path = c.path[:len(c.path)-1]
	}
	for key, i := range index {
		c.path = append(c.path, key)
		c.insert(c.changed, c.whole(l.element, new[i]))
		c.path = c.path[:len(c.path)-1]
	}
}

// whole returns the node of a value that was added or removed as a whole: all containers and
// leaves are members.
func (c *comparer) whole(t *typ, v any) set {
	switch v := v.(type) {
	case map[string]any:
		if len(v) == 0 || t.fields == nil || t.fields.atomic {
			break
		}
		node := make(set, len(v)+1)
		node[self] = set{}
		for name, child := range v {
			f, key, _ := t.fields.entry(name)
			if f == nil {
				c.unsure = true
				return node
			}
			node[key] = c.whole(f, child)
		}
		return node
	case []any:
		if len(v) == 0 || t.items == nil || t.items.atomic {
			break
		}
		node := make(set, len(v)+1)
		node[self] = set{}
		keys, ok := t.items.keysOf(v)
		if !ok {
			c.unsure = true
		}
		for i, key := range keys {
			node[key] = c.whole(t.items.element, v[i])
		}
		return node
	}
	c.check(t, v)
	return set{}
}

// insert inserts a node at the current path, which is not in the set yet. The set is built
// here, so it may be changed.
func (c *comparer) insert(s, node set) {
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
