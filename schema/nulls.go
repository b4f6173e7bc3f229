package schema

// DropNulls drops the nulls of an object that Normalize drops, in place, and changes nothing else:
// those of fields that are not nullable and have no default.
func (p *Program) DropNulls(obj Object) {
	if !p.preserveAll {
		p.dropNulls(root, obj)
	}
}

func (p *Program) dropNulls(id int32, v any) {
	n := &p.nodes[id]
	switch v := v.(type) {
	case map[string]any:
		for name, x := range v {
			child, _ := n.child(name)
			switch {
			case child <= nowhere || n.flags&isRoot != 0 && IsMetaField(name):
			case x == nil && p.nodes[child].isDroppable():
				delete(v, name)
			default:
				p.dropNulls(child, x)
			}
		}
	case []any:
		if n.items > nowhere {
			for _, x := range v {
				p.dropNulls(n.items, x)
			}
		}
	}
}
