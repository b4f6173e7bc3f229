package fields

import (
	"maps"
	"math"
)

// merge merges an applied configuration into an object. The result shares memory with them.
// ok is false if one of them is not valid, or if the result is not obvious: a value changes
// its form.
func (t *typ) merge(live, config map[string]any) (out merger, ok bool) {
	m := merger{}
	merged, same := m.maps(t.fields, live, live, config)
	m.merged, m.same = merged.(map[string]any), same
	return m, !m.unsure
}

// merger merges a configuration into an object.
type merger struct {
	merged map[string]any
	// same is set if the merged object equals the object.
	same bool
	// hollow is set if the configuration has null or an empty map where the object has a map
	// with an empty set or an empty list of maps. If the applier has owned this map before,
	// the stock field manager may remove it: it takes a map for absent if nothing in it has
	// an owner, and an empty list has none.
	hollow bool
	unsure bool
}

// check checks that a value is valid.
func (m *merger) check(t *typ, v any) {
	if t == nil || !t.valid(v) {
		m.unsure = true
	}
}

// leave leaves the objects to the stock field manager. Its results do not matter.
func (m *merger) leave() (merged any, same bool) {
	m.unsure = true
	return
}

// values merges two values, and reports whether the result equals the first.
func (m *merger) values(t *typ, live, config any) (any, bool) {
	before, after := formOf(live), formOf(config)
	if m.unsure || t == nil || before != after && t.several {
		return m.leave()
	}
	switch f := max(before, after); {
	case f == aMap && t.fields != nil && !t.fields.atomic:
		old, _ := live.(map[string]any)
		new, _ := config.(map[string]any)
		if before >= aScalar && old == nil || after >= aScalar && new == nil {
			return m.leave()
		}
		if len(old) > 0 {
			return m.maps(t.fields, live, old, new)
		}
	case f == aList && t.items != nil && !t.items.atomic:
		old, _ := live.([]any)
		new, _ := config.([]any)
		if before >= aScalar && old == nil || after >= aScalar && new == nil {
			return m.leave()
		}
		if len(old) > 0 {
			return m.lists(t, live, old, new)
		}
	default:
		m.check(t, live)
	}
	same := equal(live, config)
	if same && sameNumbers(live, config) {
		return live, true
	}
	m.check(t, config)
	return config, same
}

// maps merges the fields of two maps, of which the first is not empty.
func (m *merger) maps(t *typMap, live any, old, new map[string]any) (any, bool) {
	for name, was := range old {
		if _, ok := new[name]; !ok {
			m.check(t.field(name), was)
		}
	}
	if len(new) == 0 {
		m.hollow = m.hollow || t.hollow(old)
		return live, true
	}
	out, same := old, true
	for name, value := range new {
		f := t.field(name)
		was, ok := old[name]
		is, equal := value, false
		if ok {
			is, equal = m.values(f, was, value)
		} else {
			m.check(f, value)
		}
		same = same && equal
		if equal && identical(was, is) {
			continue
		}
		if sameMemory(out, old) {
			out = maps.Clone(old)
		}
		out[name] = is
	}
	return out, same
}

// hollow reports whether a map, or a map in it, has an empty set or an empty list of maps.
func (t *typMap) hollow(v map[string]any) bool {
	for name, child := range v {
		f := t.field(name)
		if f == nil {
			continue
		}
		switch child := child.(type) {
		case map[string]any:
			if f.fields != nil && !f.fields.atomic && f.fields.hollow(child) {
				return true
			}
		case []any:
			if len(child) == 0 && f.items != nil && !f.items.atomic {
				return true
			}
		}
	}
	return false
}

// lists merges the items of sets and maps, in the order of structured-merge-diff: items of the
// object alone stay before the item that follows them, and shared items take the order of the
// configuration. A shared item of the object is skipped while another one is due.
func (m *merger) lists(t *typ, live any, old, new []any) (any, bool) {
	if len(new) == 0 {
		m.check(t, old)
		return live, true
	}
	before, ok := t.items.keysOf(old)
	after, ok2 := t.items.keysOf(new)
	if !ok || !ok2 {
		return m.leave()
	}
	place, applied := places(before), places(after)
	var due []int // the shared items of new that are still to be placed
	for j, key := range after {
		if _, shared := place[key]; shared {
			due = append(due, j)
		}
	}
	element := t.items.element
	out := make([]any, 0, max(len(old), len(new)))
	same, kept := true, true
	for i, j := 0, 0; i < len(old) || j < len(new); {
		if i < len(old) {
			at, shared := applied[before[i]]
			switch {
			case !shared:
				m.check(element, old[i])
				same = same && i == len(out)
				out = append(out, old[i])
				i++
				continue
			case at == j:
				i++
			case due[0] != at: // it has not been placed, so it is due
				i++
				continue
			}
		}
		if at, shared := place[after[j]]; shared {
			is, equal := m.values(element, old[at], new[j])
			same = same && equal && at == len(out)
			kept = kept && identical(old[at], is)
			out = append(out, is)
			due = due[1:]
		} else {
			m.check(element, new[j])
			same = false
			out = append(out, new[j])
		}
		j++
	}
	if same && kept {
		return live, true
	}
	return out, same
}

// places returns the places of keys in a list.
func places(keys []string) map[string]int {
	m := make(map[string]int, len(keys))
	for i, key := range keys {
		m[key] = i
	}
	return m
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
	return was == is && sameNumbers(was, is)
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
	case float64:
		b, ok := b.(float64)
		return ok && math.Float64bits(a) == math.Float64bits(b) // 0 equals -0
	case int64:
		return any(a) == b
	}
	return true
}
