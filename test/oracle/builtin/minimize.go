package builtin

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// minimizeSteps limits the requests for one minimization.
const minimizeSteps = 400

// minimize returns the smallest case that it finds with a difference of the same key: it
// removes fields and elements while the difference stays.
func minimize(c *Case, key string, differs func(*Case) *Difference) *Case {
	out, steps := *c, 0
	out.Object, _ = deepCopy(c.Object).(map[string]any)
	if c.Old != nil {
		out.Old, _ = deepCopy(c.Old).(map[string]any)
	}
	for _, tree := range []map[string]any{out.Old, out.Object} {
		Shrink(tree, func() bool {
			if steps++; steps > minimizeSteps {
				return false
			}
			d := differs(&out)
			return d != nil && d.Key == key
		})
	}
	return &out
}

// Shrink removes parts of a tree. still reports whether the difference remains; if not, the
// part is restored.
func Shrink(v any, still func() bool) {
	switch v := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			x := v[k]
			delete(v, k)
			if still() {
				continue
			}
			v[k] = x
			if small, ok := smaller(x); ok {
				v[k] = small
				if still() {
					continue
				}
				v[k] = x
			}
			if arr, ok := x.([]any); ok {
				v[k] = shrinkArray(arr, func(a []any) bool { v[k] = a; return still() })
				continue
			}
			Shrink(x, still)
		}
	case []any:
		for i, x := range v {
			if arr, ok := x.([]any); ok {
				v[i] = shrinkArray(arr, func(a []any) bool { v[i] = a; return still() })
				continue
			}
			Shrink(x, still)
		}
	}
}

func shrinkArray(arr []any, still func([]any) bool) []any {
	for i := 0; i < len(arr); {
		without := append(append([]any{}, arr[:i]...), arr[i+1:]...)
		if still(without) {
			arr = without
		} else {
			i++
		}
	}
	still(arr)
	Shrink(arr, func() bool { return still(arr) })
	return arr
}

func smaller(x any) (any, bool) {
	switch x := x.(type) {
	case map[string]any:
		if len(x) > 0 {
			return map[string]any{}, true
		}
	case []any:
		if len(x) > 0 {
			return []any{}, true
		}
	}
	return nil, false
}

// String shows a case as one line of JSON for each object.
func (c *Case) String() string {
	var b strings.Builder
	b.WriteString(c.Op)
	if c.Subresource != "" {
		b.WriteString(" " + c.Subresource)
	}
	for _, v := range []struct {
		name string
		obj  map[string]any
	}{{"object", c.Object}, {"old", c.Old}} {
		if v.obj != nil {
			data, _ := json.Marshal(v.obj)
			b.WriteString("\n  " + v.name + ": " + string(data))
		}
	}
	return b.String()
}
