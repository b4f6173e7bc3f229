package fields

import (
	"maps"

	smd "sigs.k8s.io/structured-merge-diff/v6/schema"
)

// merge merges an applied configuration into an object. Both are valid. The result shares
// memory with them. same is set if it equals the object; ok is false if the result is not
// obvious: a value changes its form, or items their order.
func (t *typ) merge(live, config map[string]any) (merged map[string]any, same, ok bool) {
	m := merger{typ: t}
	out, same := m.values(t.root, live, config)
	return out.(map[string]any), same, !m.unsure
}

type merger struct {
	*typ
	unsure bool
}

// values merges two values, and reports whether the result equals the first.
func (m *merger) values(ref smd.TypeRef, live, config any) (any, bool) {
	a := m.resolve(ref)
	before, after := formOf(live), formOf(config)
	if before != after && severalForms(a) {
		m.unsure = true
		return live, true
	}
	switch f := max(before, after); {
	case f == aMap && a.Map.ElementRelationship != smd.Atomic:
		old, _ := live.(map[string]any)
		new, _ := config.(map[string]any)
		if len(old) > 0 || len(new) > 0 {
			return m.fields(a.Map, live, old, new)
		}
	case f == aList && a.List.ElementRelationship != smd.Atomic:
		old, _ := live.([]any)
		new, _ := config.([]any)
		if len(old) > 0 || len(new) > 0 {
			return m.items(a.List, live, old, new)
		}
	}
	if equal(live, config) && sameNumbers(live, config) {
		return live, true
	}
	return config, equal(live, config)
}

func (m *merger) fields(t *smd.Map, live any, old, new map[string]any) (any, bool) {
	out, same := old, true
	for name, value := range new {
		ref, _, _ := field(t, name)
		was, ok := old[name]
		is, equal := value, false
		if ok {
			is, equal = m.values(ref, was, value)
		}
		same = same && equal
		if equal && identical(was, is) {
			continue
		}
		if len(old) == 0 {
			return new, false
		}
		if sameMemory(out, old) {
			out = maps.Clone(old)
		}
		out[name] = is
	}
	if len(new) == 0 {
		return live, true
	}
	return out, same
}

// items merges the items of sets and maps. New items are inserted before the next item that
// both lists have.
func (m *merger) items(t *smd.List, live any, old, new []any) (any, bool) {
	if len(new) == 0 {
		return live, true
	}
	if len(old) == 0 {
		return new, false
	}
	before, _ := m.keys(t, old)
	after, _ := m.keys(t, new)
	place := make(map[string]int, len(before))
	for i, key := range before {
		place[key] = i
	}
	applied := make(map[string]bool, len(after))
	for _, key := range after {
		applied[key] = true
	}
	out := make([]any, 0, max(len(old), len(new)))
	same, kept, next := true, true, 0
	for j, key := range after {
		at, shared := place[key]
		if !shared {
			// Items of the object alone precede a new one, up to the next that both have.
			for ; next < len(old) && !applied[before[next]]; next++ {
				out = append(out, old[next])
			}
			out = append(out, new[j])
			same = false
			continue
		}
		if at < next {
			m.unsure = true // the items are in another order
			return live, true
		}
		for ; next < at; next++ {
			if applied[before[next]] {
				m.unsure = true
				return live, true
			}
			out = append(out, old[next])
		}
		is, equal := m.values(t.ElementType, old[at], new[j])
		same = same && equal
		kept = kept && equal && identical(old[at], is)
		out = append(out, is)
		next++
	}
	if same && kept {
		return live, true
	}
	return append(out, old[next:]...), same
}

// identical reports whether a merged value is the one it replaces, and not just an equal one.
func identical(was, is any) bool {
	switch was := was.(type) {
	case map[string]any:
		is, ok := is.(map[string]any)
		return ok && sameMemory(was, is)
	case []any:
		is, ok := is.([]any)
		return ok && len(was) == len(is) && (len(was) == 0 || &was[0] == &is[0])
	}
	return formOf(is) < aList && was == is
}

// sameNumbers reports whether two equal values represent their numbers in the same way.
func sameNumbers(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b := b.(map[string]any)
		for name, x := range a {
			if !sameNumbers(x, b[name]) {
				return false
			}
		}
	case []any:
		for i, b := range b.([]any) {
			if !sameNumbers(a[i], b) {
				return false
			}
		}
	case int64, float64:
		return a == b
	}
	return true
}
