package fields

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// gadgets is a CRD with all types of fields, also nested, in two versions.
const gadgets = `{
	"metadata": {"name": "gadgets.example.com"},
	"spec": {
		"group": "example.com", "scope": "Namespaced",
		"names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"},
		"versions": [{
			"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
			"schema": {"openAPIV3Schema": {"type": "object", "properties": {"status": {"type": "object", "properties": {"size": {"type": "integer"}}}, "spec": SPEC}}}
		}, {
			"name": "v2", "served": true, "storage": false, "subresources": {"status": {}},
			"schema": {"openAPIV3Schema": {"type": "object", "properties": {"status": {"type": "object", "properties": {"size": {"type": "integer"}}}, "spec": SPEC}}}
		}]
	}
}`

// gadgetSpec has, for each field of the spec of a gadget, its schema.
func gadgetSpec(nested string) string {
	return `{"type": "object", "properties": {
		"size": {"type": "integer"}, "ratio": {"type": "number"}, "on": {"type": "boolean"}, "color": {"type": "string", "default": "red"},
		"amount": {"x-kubernetes-int-or-string": true},
		"limits": {"type": "object", "additionalProperties": {"x-kubernetes-int-or-string": true}},
		"point": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}}},
		"tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
		"numbers": {"type": "array", "items": {"type": "integer"}, "x-kubernetes-list-type": "set"},
		"flags": {"type": "array", "items": {"type": "boolean"}, "x-kubernetes-list-type": "set"},
		"args": {"type": "array", "items": {"type": "string"}},
		"any": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
		"ports": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"], "items": {
			"type": "object", "required": ["port"], "properties": {
				"port": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP"}, "name": {"type": "string"},
				"tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}}}}` + nested + `
	}}`
}

// A generator makes random values.
type generator struct {
	*rand.Rand
	// odd is the share of values, in percent, that are unusual or invalid.
	odd int
}

func (g *generator) pick(of ...any) any { return of[g.IntN(len(of))] }

// value returns a value of a field, as its name demands.
func (g *generator) value(field string) any {
	if g.IntN(100) < g.odd {
		return g.pick(nil, "x", int64(1), 1.5, true, map[string]any{}, []any{}, map[string]any{"x": "y"}, []any{"a", "a"}, []any{nil}, []any{"b", int64(1)},
			[]any{int64(1e16)}, []any{map[string]any{"port": int64(1)}, map[string]any{"port": int64(1)}},
			[]any{map[string]any{"protocol": "UDP"}}, []any{map[string]any{"port": nil}}, map[string]any{"a": map[string]any{}}, map[string]any{"f:a": "b"}, map[string]any{"k:{}": "b"})
	}
	switch field {
	case "size", "x", "y":
		return int64(g.IntN(3))
	case "ratio":
		return g.pick(0.5, int64(1), 1.0)
	case "on":
		return g.IntN(2) == 0
	case "color", "name", "protocol":
		return g.pick("red", "TCP", "UDP")
	case "amount":
		return g.pick(int64(1), "1")
	case "limits":
		return g.some(func() any { return g.pick(int64(1), "1") }, "cpu", "memory", "a/b")
	case "point":
		return g.object("x", "y")
	case "tags", "args":
		return g.list(func(i int) any {
			if g.IntN(100) < g.odd {
				return g.pick(`a"b`, `a\b`, "a<b", "\n", "é", "", nil)
			}
			return fmt.Sprint("t", i)
		})
	case "numbers":
		return g.list(func(i int) any { return int64(i - 2) })
	case "flags":
		return g.pick([]any{true}, []any{false, true}, []any{true, false})
	case "any":
		return g.some(func() any { return g.pick("b", int64(1), map[string]any{"c": "d"}, []any{"e"}) }, "a", "b")
	case "ports":
		return g.list(func(i int) any {
			port := g.object("name", "tags")
			port["port"] = int64(i)
			if g.IntN(2) == 0 {
				port["protocol"] = "UDP"
			}
			return port
		})
	case "inner":
		return g.object(specFields...)
	case "by":
		return g.some(func() any { return g.object("size", "tags", "ports") }, "a", "b")
	}
	panic(field)
}

var specFields = []string{"size", "ratio", "on", "color", "amount", "limits", "point", "tags", "numbers", "flags", "args", "any", "ports"}

// object returns an object with some fields.
func (g *generator) object(fields ...string) map[string]any {
	o := map[string]any{}
	for _, f := range fields {
		if g.IntN(4) == 0 {
			o[f] = g.value(f)
		}
	}
	if g.IntN(100) < g.odd {
		o["unknown"] = "x"
	}
	return o
}

func (g *generator) some(value func() any, keys ...string) map[string]any {
	o := map[string]any{}
	for _, k := range keys {
		if g.IntN(2) == 0 {
			o[k] = value()
		}
	}
	return o
}

func (g *generator) list(item func(i int) any) []any {
	list := []any{}
	for _, i := range g.Perm(4)[:g.IntN(4)] {
		list = append(list, item(i))
	}
	return list
}

// gadget returns a gadget in a version.
func (g *generator) gadget(version string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/" + version, "kind": "Gadget", "metadata": map[string]any{"name": "g"},
		"spec": g.object(append(specFields, "inner", "by")...), "status": g.object("size"),
	}}
	if g.IntN(3) == 0 {
		u.SetLabels(map[string]string{"app": fmt.Sprint(g.IntN(2))})
	}
	if g.IntN(20) == 0 {
		delete(u.Object, "spec")
	}
	return u
}

// TestRandomWrites checks that writes that are handled without the stock field manager have its
// result, on objects with a history, valid and invalid ones. Of the valid ones, most are handled.
func TestRandomWrites(t *testing.T) {
	t.Parallel()
	inner := gadgetSpec("")
	d := define(t, strings.ReplaceAll(gadgets, "SPEC", gadgetSpec(`, "inner": `+inner+`, "by": {"type": "object", "additionalProperties": `+inner+`}`)))
	for _, odd := range []int{0, 3} {
		t.Run(fmt.Sprintf("%d%% odd", odd), func(t *testing.T) {
			t.Parallel()
			g := &generator{Rand: rand.New(rand.NewPCG(uint64(odd), 7)), odd: odd}
			managers := map[string]*Manager{}
			for _, version := range []string{"v1", "v2"} {
				for _, subresource := range []string{"", "status"} {
					managers[version+subresource] = endpoint(t, d, version, subresource)
				}
			}
			all, handled := 0, 0
			for range 150 {
				a, h := history(t, g, managers)
				all, handled = all+a, handled+h
			}
			t.Logf("%d of %d writes are handled", handled, all)
			if odd == 0 && handled < all/2 {
				t.Errorf("%d of %d writes are left to the stock field manager", all-handled, all)
			}
		})
	}
}

// history makes random writes of one object, and compares the result of each with that of the
// stock field manager. It returns the number of writes, and of those that were handled.
func history(t *testing.T, g *generator, managers map[string]*Manager) (all, handled int) {
	t.Helper()
	var live, last *unstructured.Unstructured
	for range 8 {
		version := "v1"
		if g.IntN(8) == 0 {
			version = "v2"
		}
		m := managers[version+g.pick("", "", "", "status").(string)]
		if live == nil {
			live = m.empty()
		} else {
			live.SetUID("1")
			live.SetAPIVersion("example.com/" + version)
			age(live)
		}
		obj, manager := g.gadget(version), g.pick("a", "b", "").(string)
		before, sent := live.DeepCopy(), obj.DeepCopy()
		var got, want *unstructured.Unstructured
		all++
		if apply, force := g.IntN(2) == 0, g.IntN(2) == 0; apply {
			if last != nil && g.IntN(3) == 0 {
				// The last configuration, maybe with less or more.
				obj = last.DeepCopy()
				if s, ok := obj.Object["spec"].(map[string]any); ok && g.IntN(2) == 0 {
					f := specFields[g.IntN(len(specFields))]
					if s[f] != nil && g.IntN(2) == 0 {
						delete(s, f)
					} else {
						s[f] = g.value(f)
					}
				}
				obj.SetAPIVersion(sent.GetAPIVersion())
				sent = obj.DeepCopy()
			}
			last = sent
			got = m.apply(live, obj, manager, force)
			out, err := m.stock.Apply(before.DeepCopy(), sent.DeepCopy(), manager, force)
			if err != nil && got != nil {
				t.Fatalf("%s applied to %s is handled: %v", text(t, sent), text(t, before), err)
			}
			if err != nil {
				continue
			}
			want = out.(*unstructured.Unstructured)
			if !reflect.DeepEqual(obj, sent) {
				t.Fatalf("the configuration has changed: %s, was %s", text(t, obj), text(t, sent))
			}
		} else {
			if len(live.Object) > 2 && g.IntN(2) == 0 {
				// A change of a few fields.
				changed := live.DeepCopy()
				if s, ok := changed.Object["spec"].(map[string]any); ok {
					f := specFields[g.IntN(len(specFields))]
					s[f] = g.value(f)
				}
				obj, sent = changed, changed.DeepCopy()
			}
			if m.update(live, obj, manager) {
				got = obj
			} else if !reflect.DeepEqual(obj, sent) {
				t.Fatalf("the object has changed: %s, was %s", text(t, obj), text(t, sent))
			}
			want = m.stock.UpdateNoErrors(before.DeepCopy(), sent.DeepCopy(), manager).(*unstructured.Unstructured)
		}
		if !reflect.DeepEqual(live, before) {
			t.Fatalf("the live object has changed: %s, was %s", text(t, live), text(t, before))
		}
		if got != nil {
			handled++
			if got, want := withoutTimes(got, before), withoutTimes(want, before); !reflect.DeepEqual(got, want) {
				t.Fatalf("%s on %s:\ngot  %s\nwant %s", text(t, sent), text(t, before), text(t, got), text(t, want))
			}
		}
		live = want
	}
	return all, handled
}
