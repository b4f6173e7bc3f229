package schema

import (
	"fmt"
	"reflect"
	"strings"
)

// correlation is the old value that a new value replaces, if one can be matched with
// it.
type correlation struct {
	old any
	ok  bool
}

// correlateField matches a field with the field of the old object. Errors in apiVersion
// and kind of the root are never tolerated, because both objects have been converted.
func (w *walker) correlateField(c correlation, k string) correlation {
	if !c.ok || len(w.path)-w.p.namesBelow == 1 && (k == "kind" || k == "apiVersion") {
		return correlation{}
	}
	old, ok := c.old.(map[string]any)
	if !ok {
		return correlation{}
	}
	v, ok := old[k]
	return correlation{v, ok}
}

// oldItems are the items of an old list of type map, by their keys.
type oldItems struct {
	list  *listCheck
	byKey map[any]any
}

// matchItems returns the old items of a list whose items can be matched by key.
func (n *node) matchItems(c correlation) oldItems {
	old, ok := c.old.([]any)
	if !c.ok || !ok || n.flags&correlates == 0 {
		return oldItems{}
	}
	o := oldItems{list: n.list, byKey: make(map[any]any, len(old))}
	for _, x := range old {
		if k, ok := n.list.itemKey(x); ok {
			if _, taken := o.byKey[k]; !taken {
				o.byKey[k] = x
			}
		}
	}
	return o
}

// find returns the old item with the keys of v.
func (o oldItems) find(v any) correlation {
	if o.list == nil {
		return correlation{}
	}
	k, ok := o.list.itemKey(v)
	if !ok {
		return correlation{}
	}
	x, ok := o.byKey[k]
	return correlation{x, ok}
}

// itemKey returns the key of an item. It returns false if a key is missing or not a
// scalar.
func (l *listCheck) itemKey(x any) (any, bool) {
	item, ok := x.(map[string]any)
	if !ok {
		return nil, false
	}
	if len(l.keys) == 1 {
		switch v := item[l.keys[0]].(type) {
		case bool, float64, int64, string:
			return v, true
		}
		return nil, false
	}
	var b strings.Builder
	for _, name := range l.keys {
		switch v := item[name].(type) {
		case bool:
			fmt.Fprintf(&b, "\x00%t", v)
		case float64:
			fmt.Fprintf(&b, "\x00%f", v)
		case int64:
			fmt.Fprintf(&b, "\x00%d", v)
		case string:
			fmt.Fprintf(&b, "\x00%q", v)
		default:
			return nil, false
		}
	}
	return b.String(), true
}

// unchanged reports whether a value equals the old one, as far as Kubernetes can tell:
// items of a list of type map are matched by their keys, and objects with unspecified
// fields are never equal.
func (p *Program) unchanged(id int32, old, v any) bool {
	if v == nil || old == nil {
		return v == nil && old == nil
	}
	n := &p.nodes[id]
	switch v := v.(type) {
	case []any:
		old, ok := old.([]any)
		if !ok || len(old) != len(v) {
			return false
		}
		if n.list == nil || !n.list.isMap {
			return len(v) == 0 || reflect.DeepEqual(old, v)
		}
		items := n.matchItems(correlation{old, true})
		for _, x := range v {
			c := items.find(x)
			if !c.ok || n.items <= nowhere || !p.unchanged(n.items, c.old, x) {
				return false
			}
		}
		return true
	case map[string]any:
		old, ok := old.(map[string]any)
		if !ok || len(old) != len(v) {
			return false
		}
		for k, x := range v {
			child, _ := n.child(k)
			y, ok := old[k]
			if !ok || child <= nowhere || !p.unchanged(child, y, x) {
				return false
			}
		}
		return true
	}
	return isScalar(old) && old == v
}
