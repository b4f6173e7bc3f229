package builtin

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// minimizeSteps limits the requests for one minimization.
const minimizeSteps = 400

// minimize returns the smallest case that it finds with a difference of the same key: it
// removes fields and elements while the difference stays.
func minimize(c *Case, key string, differs func(*Case) *Difference) *Case {
	steps := 0
	for changed := true; changed && steps < minimizeSteps; {
		changed = false
		for _, path := range removable(c) {
			if steps++; steps > minimizeSteps {
				break
			}
			smaller := c.without(path)
			if smaller == nil {
				continue
			}
			if d := differs(smaller); d != nil && d.Key == key {
				c, changed = smaller, true
			}
		}
	}
	return c
}

// removal is a part of a case: a path in the object, in the old object, or in both.
type removal struct {
	path       []string
	inNew, old bool
}

// removable returns the parts of a case, the largest first.
func removable(c *Case) []removal {
	var out []removal
	var walk func(v any, path []string, add func([]string))
	walk = func(v any, path []string, add func([]string)) {
		switch v := v.(type) {
		case map[string]any:
			for key, e := range v {
				p := append(slices.Clone(path), key)
				add(p)
				walk(e, p, add)
			}
		case []any:
			for i, e := range v {
				p := append(slices.Clone(path), strconv.Itoa(i))
				add(p)
				walk(e, p, add)
			}
		}
	}
	if c.Old != nil {
		walk(c.Old, nil, func(p []string) { out = append(out, removal{p, true, true}, removal{p, false, true}) })
	}
	walk(c.Object, nil, func(p []string) { out = append(out, removal{p, true, false}) })
	slices.SortFunc(out, func(a, b removal) int {
		return cmp.Or(cmp.Compare(len(a.path), len(b.path)), cmp.Compare(strings.Join(a.path, "/"), strings.Join(b.path, "/")))
	})
	return out
}

// without returns the case without a part, or nil if there is none.
func (c *Case) without(r removal) *Case {
	out := *c
	found := false
	if r.inNew {
		out.Object, found = remove(c.Object, r.path)
	}
	if r.old {
		var ok bool
		out.Old, ok = remove(c.Old, r.path)
		found = found || ok
	}
	if !found {
		return nil
	}
	return &out
}

func remove(root map[string]any, path []string) (map[string]any, bool) {
	root, _ = deepCopy(root).(map[string]any)
	var set func(any)
	var at any = root
	for i, key := range path {
		last := i == len(path)-1
		switch v := at.(type) {
		case map[string]any:
			if _, ok := v[key]; !ok {
				return root, false
			}
			if last {
				delete(v, key)
				return root, true
			}
			set = func(x any) { v[key] = x }
			at = v[key]
		case []any:
			n, err := strconv.Atoi(key)
			if err != nil || n >= len(v) {
				return root, false
			}
			if last {
				set(slices.Delete(slices.Clone(v), n, n+1))
				return root, true
			}
			set = func(x any) { v[n] = x }
			at = v[n]
		default:
			return root, false
		}
	}
	return root, false
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
