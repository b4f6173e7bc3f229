package fields

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	smd "sigs.k8s.io/structured-merge-diff/v6/schema"
)

// TestPlainWrites checks that writes of valid objects do not need the stock field manager if no value
// changes its form, and an apply removes nothing that its manager has applied before.
func TestPlainWrites(t *testing.T) {
	t.Parallel()
	inner := gadgetSpec("")
	d := define(t, strings.ReplaceAll(gadgets, "SPEC", gadgetSpec(`, "inner": `+inner+`, "by": {"type": "object", "additionalProperties": `+inner+`}`)))
	managers := []*Manager{endpoint(t, d, "v1", ""), endpoint(t, d, "v1", ""), endpoint(t, d, "v1", "status")}
	g := &generator{Rand: rand.New(rand.NewPCG(1, 9))}
	gadget := func() *unstructured.Unstructured {
		u := g.gadget("v1")
		if u.Object["spec"] == nil {
			u.Object["spec"] = map[string]any{}
		}
		delete(spec(u.Object), "any") // its values have several forms
		if inner, ok := spec(u.Object)["inner"].(map[string]any); ok {
			delete(inner, "any")
		}
		return u
	}
	for range 100 {
		live := managers[0].empty()
		var last *unstructured.Unstructured
		for i := range 6 {
			m := managers[g.IntN(len(managers))]
			before := live.DeepCopy()
			obj := gadget()
			var got, want *unstructured.Unstructured
			switch manager := fmt.Sprint("m", i); {
			case i == 0 || g.IntN(2) == 0:
				stock := m.stock.UpdateNoErrors(before.DeepCopy(), obj.DeepCopy(), "writer")
				if want = stock.(*unstructured.Unstructured); m.update(live, obj, "writer") {
					got = obj
				}
			case last != nil && g.IntN(3) == 0:
				// The configuration of another manager again, and a field more.
				obj, manager = last.DeepCopy(), fmt.Sprint("m", i)
				spec(obj.Object)["size"] = int64(9)
				fallthrough
			default:
				last = obj.DeepCopy()
				stock, err := m.stock.Apply(before.DeepCopy(), obj.DeepCopy(), manager, true)
				if err != nil {
					t.Fatal(err)
				}
				want, got = stock.(*unstructured.Unstructured), m.apply(live, obj, manager, true)
			}
			if got == nil {
				t.Fatalf("left to the stock field manager: %s on %s", text(t, obj), text(t, before))
			}
			if got, want := withoutTimes(got, before), withoutTimes(want, before); !reflect.DeepEqual(got, want) {
				t.Fatalf("%s on %s:\ngot  %s\nwant %s", text(t, obj), text(t, before), text(t, got), text(t, want))
			}
			live = got
			live.SetUID("1")
			age(live)
		}
	}
}

// TestKeys checks the keys of items, and that keys are recognized in the form in which they are
// written.
func TestKeys(t *testing.T) {
	t.Parallel()
	set := &typList{element: &typ{scalar: smd.Untyped}}
	byKey := &typList{keys: []string{"a", "b"}, defaults: []any{nil, "TCP"}, element: &typ{fields: &typMap{}}}
	noDefaults := &typList{keys: []string{"a", "b"}, defaults: []any{nil, nil}, element: &typ{fields: &typMap{}}}
	for _, test := range []struct {
		list *typList
		item any
		want string
		ok   bool
	}{
		{set, "a", `v:"a"`, true},
		{set, "", `v:""`, true},
		{set, " ~", `v:" ~"`, true},
		{set, true, "v:true", true},
		{set, false, "v:false", true},
		{set, int64(-7), "v:-7", true},
		{set, int64(1e15 - 1), "v:999999999999999", true},
		{set, int64(-1e15 + 1), "v:-999999999999999", true},
		{set, int64(1e15 + 1), "", false},
		{set, int64(-1e15 - 1), "", false},
		{set, 1.5, "", false},
		{set, nil, "", false},
		{set, "a\x1f", "", false},
		{set, "\x7f", "", false},
		{set, `a"`, "", false},
		{set, `a\`, "", false},
		{set, "<", "", false},
		{set, ">", "", false},
		{set, "&", "", false},
		{byKey, map[string]any{"a": int64(1), "b": "UDP"}, `k:{"a":1,"b":"UDP"}`, true},
		{byKey, map[string]any{"a": int64(1)}, `k:{"a":1,"b":"TCP"}`, true},
		{byKey, map[string]any{"a": 1.5}, "", false},
		{byKey, "a", "", false},
		{noDefaults, map[string]any{"b": "UDP"}, `k:{"b":"UDP"}`, true},
		{noDefaults, map[string]any{"c": "UDP"}, "", false},
		{&typList{keys: []string{"a"}, defaults: []any{nil}, element: &typ{}}, map[string]any{"a": "b"}, "", false},
		{&typList{keys: []string{"é"}, defaults: []any{nil}, element: &typ{fields: &typMap{}}}, map[string]any{"é": "b"}, "", false},
	} {
		got, ok := test.list.keyOf(test.item)
		if ok != test.ok || ok && got != test.want {
			t.Errorf("%v: got %s, %v", test.item, got, ok)
		}
		if ok && !simpleKey(got) {
			t.Errorf("%s is not recognized", got)
		}
	}
	for _, key := range []string{
		"", "v:", "x:1", `v:"a`, `v:"a"b`, `v:"é"`, "v:truex", "v:1x", "v:01", "v:-0", "v:-", "v:1.5", "v:1000000000000001", "v:-1000000000000001",
		"k:{}", "k:{", `k:{"a"}`, `k:{"a":}`, `k:{"a":1`, `k:{"a":1,}`, `k:{"b":1,"a":1}`, `k:{"a":1,"a":1}`, `k:{1:1}`, `k:{"a"1}`, `k:{"a":1}x`, `k:{"a":1"b":1}`, `k:{true:1}`, "f:a",
	} {
		if simpleKey(key) {
			t.Errorf("%s is taken for a key", key)
		}
	}
	many := func(n int, last any) []any {
		items := make([]any, n)
		for i := range items {
			items[i] = int64(i)
		}
		return append(items, last)
	}
	for _, test := range []struct {
		items []any
		ok    bool
	}{
		{nil, true}, {many(3, "a"), true}, {many(3, int64(0)), false}, {many(3, int64(2)), false}, {many(7, int64(6)), false}, {many(8, int64(0)), false},
		{many(20, "a"), true}, {many(20, int64(0)), false}, {many(20, 1.5), false},
	} {
		if got, ok := set.keysOf(test.items); ok != test.ok || ok && len(got) != len(test.items) {
			t.Errorf("%v: got %v, %v", test.items, got, ok)
		}
	}
}

// TestEqual checks when values are equal, and when they also have the same form.
func TestEqual(t *testing.T) {
	t.Parallel()
	list, object := []any{"a", int64(1)}, map[string]any{"a": int64(1), "b": nil}
	zero := 0.0
	for _, test := range []struct {
		a, b        any
		equal, same bool
	}{
		{"a", "a", true, true},
		{"a", "b", false, true},
		{nil, nil, true, true},
		{nil, "a", false, true},
		{"a", nil, false, true},
		{true, true, true, true},
		{int64(1), int64(1), true, true},
		{int64(1), int64(2), false, false},
		{int64(1), 1.0, true, false},
		{1.0, int64(1), true, false},
		{1.5, int64(1), false, false},
		{int64(1), 1.5, false, false},
		{1.5, 1.5, true, true},
		{zero, -zero, true, false},
		{list, []any{"a", int64(1)}, true, true},
		{list, []any{"a", 1.0}, true, false},
		{list, []any{"a"}, false, false},
		{object, map[string]any{"a": int64(1), "b": nil}, true, true},
		{object, map[string]any{"a": 1.0, "b": nil}, true, false},
		{object, map[string]any{"a": int64(1), "c": nil}, false, false},
		{object, map[string]any{"a": int64(2), "b": nil}, false, false},
		{object, map[string]any{"a": int64(1)}, false, false},
		{object, object, true, true},
		{object, list, false, false},
		{list, object, false, false},
		{"a", list, false, false},
		{int64(1), object, false, false},
		{1.5, list, false, false},
		{nil, object, false, false},
	} {
		if got := equal(test.a, test.b); got != test.equal {
			t.Errorf("%v, %v: got %v", test.a, test.b, got)
		}
		if test.equal && sameNumbers(test.a, test.b) != test.same {
			t.Errorf("%v, %v: the forms of numbers", test.a, test.b)
		}
	}
	if identical(object, map[string]any{"a": int64(1), "b": nil}) || !identical(object, object) || identical(object, list) || identical(list, object) {
		t.Error("objects")
	}
	if identical(list, []any{"a", int64(1)}) || !identical(list, list) || identical(list, list[:1]) || !identical([]any{}, []any{}) {
		t.Error("lists")
	}
	if identical(int64(1), 1.0) || !identical(1.0, 1.0) || identical("a", "b") || identical(nil, "a") || !identical(nil, nil) {
		t.Error("scalars")
	}
}

// TestValid checks which values fit a type.
func TestValid(t *testing.T) {
	t.Parallel()
	number, anything := &typ{scalar: smd.Numeric}, &typ{scalar: smd.Untyped}
	tags := &typ{items: &typList{element: &typ{scalar: smd.String}}}
	args := &typ{items: &typList{element: &typ{scalar: smd.String}, atomic: true}}
	object := &typ{fields: &typMap{declared: map[string]typField{"n": {typ: number, key: "f:n"}}}}
	for _, test := range []struct {
		typ  *typ
		v    any
		want bool
	}{
		{number, int64(1), true}, {number, 1.5, true}, {number, "a", false}, {number, true, false}, {number, nil, true}, {number, []any{}, false}, {number, map[string]any{}, false},
		{anything, int64(1), true}, {anything, 1.5, true}, {anything, "a", true}, {anything, true, true}, {anything, struct{}{}, false},
		{&typ{scalar: smd.Boolean}, true, true}, {&typ{scalar: smd.Boolean}, "a", false}, {&typ{scalar: smd.String}, "a", true}, {&typ{scalar: smd.String}, int64(1), false},
		{tags, []any{"a", "b"}, true}, {tags, []any{"a", "a"}, false}, {tags, []any{"a", int64(1)}, false}, {tags, []any{"é"}, false}, {tags, "a", false},
		{args, []any{"a", "a", "é"}, true}, {args, []any{"a", int64(1)}, false},
		{object, map[string]any{"n": int64(1)}, true}, {object, map[string]any{"n": "a"}, false}, {object, map[string]any{"m": int64(1)}, false}, {object, int64(1), false},
	} {
		if got := test.typ.valid(test.v); got != test.want {
			t.Errorf("%v: got %v", test.v, got)
		}
	}
}

// TestPlainTime checks the forms of a time that are written.
func TestPlainTime(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"": true, "2026-01-02T03:04:05Z": true, "2026-01-02T03:04:05+01:00": false, "2026-01-02T03:04:05.5Z": false, "0001-01-01T00:00:00Z": false, "2026-13-02T03:04:05Z": false, "yesterday": false,
	} {
		if got := plainTime(text); got != want {
			t.Errorf("%q: got %v", text, got)
		}
	}
}

// TestConvertor checks the conversions for the stock field manager.
func TestConvertor(t *testing.T) {
	t.Parallel()
	d := define(t, widgets)
	m := endpoint(t, d, "v1", "")
	c := convertor{m}
	v1, v2 := runtimeschema.GroupVersion{Group: "example.com", Version: "v1"}, runtimeschema.GroupVersion{Group: "example.com", Version: "v2"}
	in := widget(t, "v1", `{"size": 1}`)
	same, err := c.ConvertToVersion(in, v1)
	if err != nil || !reflect.DeepEqual(same, in) || sameMemory(same.(*unstructured.Unstructured).Object, in.Object) {
		t.Errorf("got %v, %v", same, err)
	}
	if out, err := c.ConvertToVersion(in, v2); err != nil || out.GetObjectKind().GroupVersionKind().Version != "v2" || in.GetAPIVersion() != "example.com/v1" {
		t.Errorf("got %v, %v", out, err)
	}
	if _, err := c.ConvertToVersion(in, runtimeschema.GroupVersions{}); err == nil {
		t.Error("converted to nothing")
	}
	if _, err := c.ConvertToVersion(&unstructured.UnstructuredList{}, v1); err == nil {
		t.Error("a list is converted")
	}
	m.convert = func(o map[string]any, to runtimeschema.GroupVersion) (map[string]any, error) {
		if to != v2 {
			return nil, fmt.Errorf("to %s", to)
		}
		return map[string]any{"converted": o["kind"]}, nil
	}
	if out, err := c.ConvertToVersion(in, v2); err != nil || out.(*unstructured.Unstructured).Object["converted"] != "Widget" {
		t.Errorf("got %v, %v", out, err)
	}
	if _, err := c.ConvertToVersion(widget(t, "v2", `{}`), v1); err == nil || err.Error() != "to example.com/v1" {
		t.Errorf("got %v", err)
	}
}

// TestHollow checks which maps have an empty list whose items have owners.
func TestHollow(t *testing.T) {
	t.Parallel()
	number := typField{typ: &typ{scalar: smd.Numeric}}
	tags, args := typField{typ: &typ{items: &typList{}}}, typField{typ: &typ{items: &typList{atomic: true}}}
	inside := map[string]typField{"tags": tags, "args": args, "n": number}
	m := &typMap{declared: map[string]typField{
		"tags": tags, "args": args, "n": number, "granular": {typ: &typ{fields: &typMap{declared: inside}}}, "atomic": {typ: &typ{fields: &typMap{declared: inside, atomic: true}}},
	}}
	for config, want := range map[string]bool{
		`{}`: false, `{"tags": []}`: true, `{"tags": ["a"]}`: false, `{"args": []}`: false, `{"n": []}`: false, `{"unknown": []}`: false, `{"n": {"tags": []}}`: false,
		`{"granular": {}}`: false, `{"granular": {"tags": []}}`: true, `{"granular": {"args": []}}`: false, `{"atomic": {"tags": []}}`: false,
	} {
		if got := m.hollow(spec(widget(t, "v1", config).Object)); got != want {
			t.Errorf("%s: got %v", config, got)
		}
	}
}

// TestFits checks which fields of managedFields fit the types of an object that keeps unknown
// fields.
func TestFits(t *testing.T) {
	t.Parallel()
	d := define(t, strings.ReplaceAll(gadgets, "SPEC", `{"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
		"point": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"x": {"type": "integer"}}}, "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}}}`))
	root := NewTypes(d).versions["example.com/v1"].walked()
	for _, test := range []struct {
		spec set
		want bool
	}{
		{set{"f:point": set{}}, true},
		{set{"f:point": set{"f:x": set{}}}, false},
		{set{"f:other": set{"f:x": set{}}}, true},
		{set{"f:other": set{`v:"a"`: set{}}}, true},
		{set{"f:tags": set{`v:"a"`: set{}}}, true},
		{set{"f:tags": set{self: set{}, `v:"a"`: set{}}}, true},
		{set{"f:tags": set{"f:a": set{}}}, false},
		{set{"f:tags": set{"v:a": set{}}}, false},
		{set{`v:"a"`: set{}}, false},
		{set{self: set{}}, false},
		{set{self: set{}, "f:point": set{}}, true},
		{set{self: set{"f:a": set{}}, "f:point": set{}}, false},
		{set{"f:point": "x"}, false},
	} {
		if got := root.fits(set{"f:spec": test.spec}); got != test.want {
			t.Errorf("%v: got %v", test.spec, got)
		}
	}
	m := endpoint(t, d, "v1", "")
	if m.Stock() != m.stock {
		t.Error("another field manager")
	}
	if err := m.bounded.Check(&unstructured.Unstructured{Object: map[string]any{"a": "b"}}, runtimeschema.GroupVersionKind{Kind: "Unknown"}); err != nil {
		t.Error(err)
	}
}
