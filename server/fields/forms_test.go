package fields

import (
	"reflect"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// missing is a field that an object does not have.
type missing struct{}

// formValues returns values of all forms, and the fields of widgets to which each belongs.
func formValues() []struct {
	value any
	of    []string
} {
	list, tree := func(items ...any) []any { return items }, func(name string, v any) map[string]any { return map[string]any{name: v} }
	all := []string{"size", "old", "limits", "point", "tags", "args", "ports"}
	return []struct {
		value any
		of    []string
	}{
		{missing{}, all}, {nil, all},
		{int64(1), []string{"size"}}, {int64(2), []string{"size"}}, {float64(1), []string{"size"}}, {"x", []string{"old"}}, {true, nil},
		{list(), []string{"tags", "args", "ports"}}, {list("x"), []string{"tags", "args"}}, {list("y", "x"), []string{"tags", "args"}}, {list("x", "z"), []string{"tags", "args"}},
		{list("x", "x"), []string{"args"}}, {list(int64(1)), nil}, {list(nil), []string{"args"}}, {list(list()), nil},
		{list(tree("port", int64(80))), []string{"ports"}}, {list(tree("port", int64(81)), tree("port", int64(80))), []string{"ports"}},
		{list(map[string]any{"port": int64(80), "name": "n"}), []string{"ports"}}, {list(map[string]any{"port": float64(80), "name": "n"}), nil},
		{list(tree("port", int64(80)), tree("port", int64(80))), nil}, {list(tree("name", "n")), []string{"ports"}}, {list(tree("port", "x")), nil},
		{map[string]any{}, []string{"limits", "point"}}, {tree("cpu", int64(1)), []string{"limits"}}, {map[string]any{"cpu": int64(1), "mem": int64(2)}, []string{"limits"}},
		{tree("mem", int64(2)), []string{"limits"}}, {tree("cpu", nil), []string{"limits"}}, {tree("cpu", list("x")), nil},
		{tree("x", int64(1)), []string{"limits", "point"}}, {map[string]any{"x": int64(1), "y": int64(2)}, []string{"limits", "point"}}, {tree("x", "1"), []string{"limits"}},
	}
}

// put sets a field of the spec.
func put(obj *unstructured.Unstructured, field string, v any) {
	if _, none := v.(missing); none {
		delete(spec(obj.Object), field)
		return
	}
	spec(obj.Object)[field] = v
}

// TestForms changes every field from values of any form to any other. What is handled without the stock
// field manager has its result.
func TestForms(t *testing.T) {
	t.Parallel()
	d := define(t, widgets)
	m := endpoint(t, d, "v1", "")
	base := stored(t, d)
	for _, field := range []string{"size", "old", "limits", "point", "tags", "args", "ports"} {
		t.Run(field, func(t *testing.T) {
			t.Parallel()
			// Of the values that do not belong to the field, one of each form.
			var values []any
			seen := map[form]bool{}
			for _, v := range formValues() {
				if slices.Contains(v.of, field) {
					values = append(values, v.value)
				} else if !seen[formOf(v.value)] {
					seen[formOf(v.value)] = true
					values = append(values, v.value)
				}
			}
			for _, before := range values {
				for _, after := range values {
					testForms(t, m, base, field, before, after)
				}
			}
		})
	}
}

// testForms updates and applies a field.
func testForms(t *testing.T, m *Manager, base *unstructured.Unstructured, field string, before, after any) {
	t.Helper()
	live := base.DeepCopy()
	put(live, field, before)
	obj := live.DeepCopy()
	put(obj, field, after)
	sent := obj.DeepCopy()
	want := m.stock.UpdateNoErrors(live.DeepCopy(), obj.DeepCopy(), "writer").(*unstructured.Unstructured)
	handled := m.update(live, obj, "writer")
	if handled && !reflect.DeepEqual(withoutTimes(obj, live), withoutTimes(want, live)) {
		t.Errorf("update of %v to %v: got %s, want %s", before, after, text(t, obj), text(t, want))
	}
	if !handled && !reflect.DeepEqual(obj, sent) {
		t.Errorf("update of %v to %v: the object has changed", before, after)
	}
	config := widget(t, "v1", `{}`)
	put(config, field, after)
	for _, manager := range []string{"applier", "other"} {
		got := m.apply(live.DeepCopy(), config.DeepCopy(), manager, true)
		if got == nil {
			continue
		}
		out, err := m.stock.Apply(live.DeepCopy(), config.DeepCopy(), manager, true)
		if err != nil {
			t.Errorf("apply of %v to %v by %s: got %s, want %v", after, before, manager, text(t, got), err)
			continue
		}
		if want := out.(*unstructured.Unstructured); !reflect.DeepEqual(withoutTimes(got, live), withoutTimes(want, live)) {
			t.Errorf("apply of %v to %v by %s: got %s, want %s", after, before, manager, text(t, got), text(t, want))
		}
	}
}

// TestApplyItemNumbers checks that the numbers of merged items are those of the configuration.
func TestApplyItemNumbers(t *testing.T) {
	t.Parallel()
	d := define(t, `{"metadata": {"name": "widgets.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
		"versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"},
			"list": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["id"], "items": {"type": "object", "required": ["id"], "properties": {"id": {"type": "string"}, "n": {"type": "number"}}}}}}}}}}]}}`)
	m := endpoint(t, d, "v1", "")
	live, err := m.Apply(nil, widget(t, "v1", `{"list": [{"id": "a", "n": 1}, {"id": "b"}]}`), "applier", false)
	if err != nil {
		t.Fatal(err)
	}
	config := widget(t, "v1", `{"size": 1, "list": [{"id": "a"}, {"id": "b"}]}`)
	spec(config.Object)["list"].([]any)[0].(map[string]any)["n"] = float64(1)
	got := m.apply(live, config, "other", false)
	if got == nil {
		t.Fatal("left to the stock field manager")
	}
	if n := spec(got.Object)["list"].([]any)[0].(map[string]any)["n"]; n != float64(1) {
		t.Errorf("got a number of type %T", n)
	}
}

// TestUnusualEndpoints checks that an endpoint whose version has no types, or that resets something other
// than fields, leaves everything to the stock field manager.
func TestUnusualEndpoints(t *testing.T) {
	t.Parallel()
	d := define(t, widgets)
	types := NewTypes(d)
	for name, c := range map[string]Config{
		"no types": {Types: types, Kind: runtimeschema.GroupVersionKind{Group: "example.com", Version: "v0", Kind: "Widget"}},
		"an item":  {Types: types, Kind: d.Version("v1").GroupVersionKind(), Reset: fieldpath.NewSet(fieldpath.MakePathOrDie(value.NewValueInterface("x")))},
	} {
		m, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		live := widget(t, c.Kind.Version, `{"size": 1}`)
		if m.update(live, live.DeepCopy(), "writer") || m.apply(live, widget(t, c.Kind.Version, `{"size": 2}`), "writer", true) != nil {
			t.Errorf("%s: not left to the stock field manager", name)
		}
	}
}

// TestUnreadableEntries checks that entries that cannot be read are left to the stock field manager.
func TestUnreadableEntries(t *testing.T) {
	t.Parallel()
	d := define(t, widgets)
	m := endpoint(t, d, "v1", "")
	for name, change := range map[string]func(*unstructured.Unstructured){
		"no list":            func(u *unstructured.Unstructured) { u.Object["metadata"].(map[string]any)["managedFields"] = "x" },
		"no entry":           func(u *unstructured.Unstructured) { entriesOf(u)[0] = "x" },
		"no text":            func(u *unstructured.Unstructured) { first(u)["manager"] = int64(1) },
		"empty text":         func(u *unstructured.Unstructured) { first(u)["manager"] = "" },
		"other type":         func(u *unstructured.Unstructured) { first(u)["fieldsType"] = "FieldsV2" },
		"no type":            func(u *unstructured.Unstructured) { delete(first(u), "fieldsType") },
		"no fields":          func(u *unstructured.Unstructured) { first(u)["fieldsV1"] = set{} },
		"fields that are no": func(u *unstructured.Unstructured) { first(u)["fieldsV1"] = "x" },
		"the object itself":  func(u *unstructured.Unstructured) { first(u)["fieldsV1"] = set{self: set{}, "f:spec": set{}} },
		"no node":            func(u *unstructured.Unstructured) { first(u)["fieldsV1"] = set{"f:spec": "x"} },
		"an unusual item": func(u *unstructured.Unstructured) {
			first(u)["fieldsV1"] = set{"f:spec": set{"f:tags": set{`v: "x"`: set{}}}}
		},
		"no time":           func(u *unstructured.Unstructured) { first(u)["time"] = "x" },
		"the first time":    func(u *unstructured.Unstructured) { first(u)["time"] = "0001-01-01T00:00:00Z" },
		"parts of a second": func(u *unstructured.Unstructured) { first(u)["time"] = "2026-01-01T00:00:00.5Z" },
	} {
		live := stored(t, d)
		change(live)
		if m.update(live, live.DeepCopy(), "writer") {
			t.Errorf("%s: the update is not left to the stock field manager", name)
		}
		if m.apply(live, widget(t, "v1", `{"old": "x"}`), "other", true) != nil {
			t.Errorf("%s: the apply is not left to the stock field manager", name)
		}
	}
}
