package schema

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Tolerated returns the violations of obj that are tolerated in an update because the old object has
// them too. found are the violations that Validate has returned for the update.
func (p *Program) Tolerated(ctx context.Context, obj Object, found Violations) (tolerated Violations) {
	var all Violations
	if !p.holds(obj) {
		all = p.violations(ctx, obj, nil, true)
	}
	if p.rules != nil && !slices.ContainsFunc(found, func(v Violation) bool { return v.Kind == RulesSkipped }) {
		all = append(all, p.rules.Validate(ctx, obj, nil)...)
	}
	reported := map[violationKey]bool{}
	for i := range found {
		reported[found[i].key()] = true
	}
	for i := range all {
		if v := &all[i]; !reported[v.key()] && !v.Want.UsesOldSelf {
			tolerated = append(tolerated, *v)
		}
	}
	return tolerated
}

// violationKey identifies a violation of an object.
type violationKey struct {
	path, rule string
	kind       ViolationKind
	schema     NodeRef
}

func (v *Violation) key() violationKey {
	return violationKey{v.Path.Pointer(), v.Want.Rule, v.Kind, v.Schema}
}

// correlation is the old value that a new value replaces, if one can be matched with
// it.
type correlation struct {
	old any
	ok  bool
}

// correlateField matches a field with the field of the old object. Errors in apiVersion
// and kind of the root are never tolerated, because both objects have been converted.
func (w *walker) correlateField(c correlation, k string) correlation {
	if len(w.path)-w.p.namesBelow == 1 && (k == "kind" || k == "apiVersion") {
		return correlation{}
	}
	old, _ := c.old.(map[string]any)
	v, ok := old[k]
	return correlation{v, ok}
}

// oldItems are the items of an old list of type map, by their keys.
type oldItems struct {
	list  *listCheck
	byKey map[any]any
}

// items returns the old items of a list whose items can be matched by key. Many new items may
// match the same old one, because duplicates are found later, so each old list is indexed once.
func (c *comparison) items(id int32, of correlation) oldItems {
	n := &c.p.nodes[id]
	old, ok := of.old.([]any)
	if !of.ok || !ok || n.flags&correlates == 0 {
		return oldItems{}
	}
	at := comparedPair{id: id, length: len(old), old: reflect.ValueOf(old).Pointer()}
	if o, ok := c.indexed[at]; ok {
		return o
	}
	c.visited += len(old)
	o := oldItems{list: n.list, byKey: make(map[any]any, len(old))}
	for _, x := range old {
		if k, ok := n.list.itemKey(x); ok {
			if _, taken := o.byKey[k]; !taken {
				o.byKey[k] = x
			}
		}
	}
	if c.indexed == nil {
		c.indexed = map[comparedPair]oldItems{}
	}
	c.indexed[at] = o
	return o
}

// find returns the old item with the keys of v.
func (o oldItems) find(v any) correlation {
	if o.list == nil {
		return correlation{}
	}
	k, _ := o.list.itemKey(v) // no item has the key nil
	x, ok := o.byKey[k]
	return correlation{x, ok}
}

// itemKey returns the key of an item. It returns false if a key is missing or not a
// scalar.
func (l *listCheck) itemKey(x any) (any, bool) {
	item, _ := x.(map[string]any)
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

// comparison compares the values of an update with the old ones. Each value is compared a
// bounded number of times, however deeply values with violations are nested: a parent is
// compared before its children, an equal one is not searched any further, and what is known to
// differ is not compared again.
type comparison struct {
	p       *Program
	differs map[comparedPair]bool
	// indexed are the old lists by their identity.
	indexed map[comparedPair]oldItems
	// visited counts the compared and indexed values, so that tests can check that the cost is linear.
	visited int
}

// comparedPair identifies an object or a list and the old one that it replaces.
type comparedPair struct {
	id       int32
	length   int
	old, new uintptr
}

// unchanged reports whether a value equals the old one, as far as Kubernetes can tell:
// items of a list of type map are matched by their keys, and objects with unspecified
// fields are never equal.
func (c *comparison) unchanged(id int32, old, v any) bool {
	c.visited++
	if v == nil {
		return old == nil
	}
	switch v := v.(type) {
	case []any:
		old, ok := old.([]any)
		if !ok || len(old) != len(v) {
			return false
		}
		return c.remember(id, len(v), reflect.ValueOf(old), reflect.ValueOf(v), func() bool { return c.sameItems(id, old, v) })
	case map[string]any:
		old, ok := old.(map[string]any)
		if !ok || len(old) != len(v) {
			return false
		}
		return c.remember(id, len(v), reflect.ValueOf(old), reflect.ValueOf(v), func() bool { return c.sameFields(id, old, v) })
	}
	return isScalar(old) && old == v
}

// remember returns whether two values are the same, and compares them unless they are known to
// differ.
func (c *comparison) remember(id int32, length int, old, v reflect.Value, same func() bool) bool {
	pair := comparedPair{id, length, old.Pointer(), v.Pointer()}
	if c.differs[pair] {
		return false
	}
	if same() {
		return true
	}
	if c.differs == nil {
		c.differs = map[comparedPair]bool{}
	}
	c.differs[pair] = true
	return false
}

func (c *comparison) sameItems(id int32, old, v []any) bool {
	n := &c.p.nodes[id]
	if n.list == nil || !n.list.isMap {
		return reflect.DeepEqual(old, v)
	}
	items := c.items(id, correlation{old, true})
	for _, x := range v {
		match := items.find(x)
		if !match.ok || n.items <= nowhere || !c.unchanged(n.items, match.old, x) {
			return false
		}
	}
	return true
}

func (c *comparison) sameFields(id int32, old, v map[string]any) bool {
	n := &c.p.nodes[id]
	for k, x := range v {
		child, _ := n.child(k)
		y, ok := old[k]
		if !ok || child <= nowhere || !c.unchanged(child, y, x) {
			return false
		}
	}
	return true
}
