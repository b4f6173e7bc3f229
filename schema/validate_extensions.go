package schema

import (
	"maps"
	"slices"
)

// extension is an x-kubernetes-* extension that validates values. It can only occur in
// the core of a schema, so the walk skips the logical operators.
type extension uint8

const (
	embeddedResources extension = iota // x-kubernetes-embedded-resource
	listTypes                          // x-kubernetes-list-type
	unionTypes                         // x-kubernetes-unions
)

// extensions walks the core and adds the violations of one extension to all.
func (w *walker) extensions(all *Violations, id int32, v any, x extension) {
	if w.full() {
		return
	}
	n := &w.p.nodes[id]
	switch v := v.(type) {
	case map[string]any:
		switch {
		case x == embeddedResources && n.flags&embedded != 0:
			*all = append(*all, w.embedded(id, v)...)
		case x == unionTypes:
			*all = append(*all, w.unions(id, v)...)
		}
		for _, k := range slices.Sorted(maps.Keys(v)) {
			child, isMapValue := n.child(k)
			if child <= nowhere {
				continue
			}
			step := Step{Key: k}
			if isMapValue {
				step.Kind = MapKey
			}
			w.path = append(w.path, step)
			w.extensions(all, child, v[k], x)
			w.path = w.path[:len(w.path)-1]
		}
	case []any:
		if x == listTypes && n.list != nil {
			*all = append(*all, w.list(id, v)...)
		}
		if n.items <= nowhere {
			return
		}
		for i, item := range v {
			w.path = append(w.path, Step{Index: i, Kind: Index})
			w.extensions(all, n.items, item, x)
			w.path = w.path[:len(w.path)-1]
		}
	}
}

func (w *walker) list(id int32, a []any) (vs Violations) {
	at := func(k ViolationKind, i int, v any) {
		w.path = append(w.path, Step{Index: i, Kind: Index})
		vs = append(vs, w.violation(k, id, v, Operand{}))
		w.path = w.path[:len(w.path)-1]
	}
	indices, values, notObject := w.p.nodes[id].list.duplicates(a)
	if notObject >= 0 {
		at(NotAnObject, notObject, a[notObject])
	}
	for i, index := range indices {
		at(DuplicateItem, index, values[i])
	}
	return vs
}

func (w *walker) unions(id int32, obj map[string]any) (vs Violations) {
	unions := w.p.nodes[id].unions.all()
	for i := range unions {
		u := &unions[i]
		member, count := u.set(obj)
		if count != 1 {
			var set []string
			for _, m := range u.members {
				if _, ok := obj[m]; ok {
					set = append(set, m)
				}
			}
			vs = append(vs, w.violation(UnionMembers, id, obj, Operand{Members: slices.Clone(u.members), Set: set}))
			continue
		}
		if !u.agrees(obj, member) {
			w.path = append(w.path, Step{Key: u.discriminator})
			vs = append(vs, w.violation(WrongDiscriminator, id, obj[u.discriminator],
				Operand{Discriminator: u.values[member], Member: u.members[member]}))
			w.path = w.path[:len(w.path)-1]
		}
	}
	return vs
}
