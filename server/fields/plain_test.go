package fields

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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
