package schema

import (
	"encoding/json"
	"hash/maphash"
)

// listCheck is x-kubernetes-list-type set or map: no two items may be equal or have the
// same keys.
type listCheck struct {
	isMap bool
	keys  []string
}

func newListCheck(s *Structural) *listCheck {
	if s.XListType == nil {
		return nil
	}
	switch *s.XListType {
	case "set":
		return &listCheck{}
	case "map":
		return &listCheck{isMap: true, keys: append([]string(nil), s.XListMapKeys...)}
	}
	return nil
}

// scratch is reusable memory for validation.
type scratch struct {
	scalars map[any]struct{}
	hashes  map[uint64]struct{}
}

// scratchMax is the number of entries above which a table is not reused: clearing it
// would slow down every later use.
const scratchMax = 4096

func (p *Program) getScratch() *scratch {
	s, _ := p.scratch.Get().(*scratch)
	if s == nil {
		s = &scratch{}
	}
	return s
}

// pairwiseMax is the length up to which comparing all pairs is faster than a table.
const pairwiseMax = 12

// proves reports whether the list is certainly valid. If it returns false, duplicates
// decides.
func (l *listCheck) proves(a []any, s *scratch) bool {
	if len(a) <= 1 && !l.isMap {
		return true
	}
	switch {
	case !l.isMap:
		return uniqueScalars(len(a), func(i int) any { return a[i] }, s)
	case len(l.keys) == 1:
		for _, x := range a {
			if _, ok := x.(map[string]any); !ok {
				return false
			}
		}
		return uniqueScalars(len(a), func(i int) any {
			v, ok := a[i].(map[string]any)[l.keys[0]]
			if !ok {
				return missingKey
			}
			return v
		}, s)
	}
	return l.uniqueKeys(a, s)
}

// missingKey represents a key that an item does not have.
var missingKey any = struct{ missing string }{"key"}

// isKey reports whether v can be compared and used as the key of a Go map.
func isKey(v any) bool { return v == nil || isScalar(v) || v == missingKey }

// uniqueScalars reports whether n values are scalars and all different.
func uniqueScalars(n int, at func(int) any, s *scratch) bool {
	if n <= pairwiseMax {
		for i := range n {
			v := at(i)
			if !isKey(v) {
				return false
			}
			for j := range i {
				if at(j) == v {
					return false
				}
			}
		}
		return true
	}
	if s.scalars == nil {
		s.scalars = make(map[any]struct{}, n)
	}
	defer func() {
		if clear(s.scalars); n > scratchMax {
			s.scalars = nil
		}
	}()
	for i := range n {
		v := at(i)
		if !isKey(v) {
			return false
		}
		s.scalars[v] = struct{}{}
	}
	return len(s.scalars) == n
}

// uniqueKeys reports whether all items are objects with different keys. It compares
// hashes of the keys.
func (l *listCheck) uniqueKeys(a []any, s *scratch) bool {
	if s.hashes == nil {
		s.hashes = make(map[uint64]struct{}, len(a))
	}
	defer func() {
		if clear(s.hashes); len(a) > scratchMax {
			s.hashes = nil
		}
	}()
	for _, x := range a {
		item, ok := x.(map[string]any)
		if !ok {
			return false
		}
		var h uint64
		for _, key := range l.keys {
			h *= 1099511628211
			switch v := item[key].(type) {
			case string:
				h ^= maphash.String(seed, v)
			case int64:
				h ^= uint64(v)*0x9e3779b97f4a7c15 + 1
			case bool:
				if v {
					h ^= 2
				}
				h ^= 5
			default:
				// Missing keys, floats and containers are rare: leave them to
				// duplicates.
				return false
			}
		}
		s.hashes[h] = struct{}{}
	}
	return len(s.hashes) == len(a)
}

// duplicates returns the violations of a list: items that must be objects but are not,
// and the second of two equal items.
func (l *listCheck) duplicates(a []any) (indices []int, values []any, notObject int) {
	if !l.isMap {
		for _, i := range repeated(a) {
			indices, values = append(indices, i), append(values, a[i])
		}
		return indices, values, -1
	}
	for i, x := range a {
		if _, ok := x.(map[string]any); !ok && x != nil {
			return nil, nil, i
		}
	}
	keys := make([]any, len(a))
	for i, x := range a {
		item, _ := x.(map[string]any)
		if len(l.keys) == 1 {
			keys[i] = missingKey
			if v, ok := item[l.keys[0]]; ok {
				keys[i] = v
			}
			continue
		}
		key := map[string]any{}
		for _, name := range l.keys {
			if v, ok := item[name]; ok {
				key[name] = v
			}
		}
		keys[i] = key
	}
	for _, i := range repeated(keys) {
		value := keys[i]
		if len(l.keys) == 1 {
			if value == missingKey {
				value = map[string]any{}
			} else {
				value = map[string]any{l.keys[0]: value}
			}
		}
		indices, values = append(indices, i), append(values, value)
	}
	return indices, values, -1
}

// repeated returns the index of the second occurrence of each value that occurs more
// than once. Objects and arrays are compared by their JSON.
func repeated(a []any) (indices []int) {
	if len(a) <= 1 {
		return nil
	}
	seen := make(map[any]int, len(a))
	for i, v := range a {
		key := v
		if !isKey(v) {
			text, err := json.Marshal(v)
			if err != nil {
				continue
			}
			key = compound(text)
		}
		if seen[key]++; seen[key] == 2 {
			indices = append(indices, i)
		}
	}
	return indices
}

// compound is the JSON of an object or array, as a map key that no scalar equals.
type compound string

// hasDuplicates reports whether two items are equal, for uniqueItems.
func hasDuplicates(a []any) bool {
	if len(a) <= pairwiseMax {
		for i := range a {
			for j := range i {
				if Equal(a[i], a[j]) {
					return true
				}
			}
		}
		return false
	}
	byText := map[compound][]any{}
	for _, v := range a {
		text, _ := json.Marshal(v) // without it, numbers that JSON does not have are compared
		for _, w := range byText[compound(text)] {
			if Equal(v, w) {
				return true
			}
		}
		byText[compound(text)] = append(byText[compound(text)], v)
	}
	return false
}
