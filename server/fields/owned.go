package fields

// fieldSet returns the fields that an applied configuration owns, without those of reset.
func (t *typ) fieldSet(config map[string]any, reset map[string]bool) set {
	out := make(set, len(config))
	for name, v := range config {
		if !reset[name] {
			t.fields.own(name, v, out)
		}
	}
	return out
}

// own adds the node of a field to those of an object.
func (m *typMap) own(name string, v any, into set) {
	t, key, declared := m.entry(name)
	member, children := t.owned(v)
	if node, ok := newNode(member || !declared || isEmpty(v), children); ok {
		into[key] = node
	}
}

// isEmpty reports whether a value is null or an empty map, which a configuration owns itself.
func isEmpty(v any) bool {
	m, ok := v.(map[string]any)
	return v == nil || ok && len(m) == 0
}

// owned returns the fields that a configuration owns in one of its values, and whether it owns
// the value itself.
func (t *typ) owned(v any) (member bool, children set) {
	switch v := v.(type) {
	case map[string]any:
		if t.fields.atomic {
			return true, nil
		}
		children = make(set, len(v)+1)
		for name, child := range v {
			t.fields.own(name, child, children)
		}
		return false, children
	case []any:
		if t.items.atomic {
			return true, nil
		}
		children = make(set, len(v)+1)
		keys, _ := t.items.keysOf(v)
		for i, key := range keys {
			_, below := t.items.element.owned(v[i])
			children[key], _ = newNode(true, below)
		}
		return false, children
	}
	return true, nil
}

// ownsExactly reports whether a configuration owns exactly the given fields, and of the
// stripped fields none. It returns false if it would have to look closer.
func (t *typ) ownsExactly(config map[string]any, reset map[string]bool, strip, fields set) bool {
	n := 0
	for name, v := range config {
		_, key, _ := t.fields.entry(name)
		stripped, ok := strip[key].(set)
		switch {
		case reset[name] || ok && len(stripped) == 0:
			continue
		case ok:
			metadata, isMap := v.(map[string]any)
			if !isMap || len(metadata) == 0 {
				return false
			}
			node, _ := fields[key].(set)
			inside := t.fields.field(name)
			found := 0
			for name, v := range metadata {
				if _, key, _ := inside.fields.entry(name); stripped[key] != nil {
					continue
				}
				has, same := inside.fields.owns(name, v, node)
				if !same {
					return false
				}
				if has {
					found++
				}
			}
			if found != len(node) {
				return false
			}
			if node != nil {
				n++
			}
		default:
			has, same := t.fields.owns(name, v, fields)
			if !same {
				return false
			}
			if has {
				n++
			}
		}
	}
	return n == len(fields)
}

// owns reports whether a configuration that has a field owns something of it, and whether that
// is what the node of the object has.
func (m *typMap) owns(name string, v any, in set) (has, same bool) {
	t, key, declared := m.entry(name)
	node, has := in[key].(set)
	member := !declared || isEmpty(v)
	switch v := v.(type) {
	case map[string]any:
		if !t.fields.atomic {
			return has, has && t.ownsBelow(v, node, member)
		}
	case []any:
		if !t.items.atomic {
			if len(v) == 0 && !member {
				return false, !has
			}
			return has, has && t.ownsItems(v, node, member)
		}
	}
	return has, has && len(node) == 0
}

// ownsBelow reports whether the members of a node are what a configuration owns of an object.
func (t *typ) ownsBelow(v map[string]any, node set, member bool) bool {
	n := 0
	for name, child := range v {
		has, same := t.fields.owns(name, child, node)
		if !same {
			return false
		}
		if has {
			n++
		}
	}
	return sizeIs(node, n, member)
}

func (t *typ) ownsItems(v []any, node set, member bool) bool {
	for _, item := range v {
		key, _ := t.items.keyOf(item)
		below, ok := node[key].(set)
		if !ok {
			return false
		}
		if m, ok := item.(map[string]any); ok && !t.items.element.fields.atomic {
			if !t.items.element.ownsBelow(m, below, true) {
				return false
			}
		} else if len(below) > 0 {
			return false
		}
	}
	return sizeIs(node, len(v), member)
}

// sizeIs reports whether a node has n children, and whether it is a member as expected. A node
// has children or is a member.
func sizeIs(node set, n int, member bool) bool {
	if n == 0 {
		return member && len(node) == 0
	}
	if member {
		n++
	}
	return len(node) == n && isMember(node) == member
}
