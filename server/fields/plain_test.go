package fields

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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
