package fields

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// entriesOf returns the entries of managedFields.
func entriesOf(u *unstructured.Unstructured) []any {
	return u.Object["metadata"].(map[string]any)["managedFields"].([]any)
}

func first(u *unstructured.Unstructured) map[string]any { return entriesOf(u)[0].(map[string]any) }

// TestUpdateLeft checks that updates without an obvious result are left to the stock field
// manager, with the object unchanged.
func TestUpdateLeft(t *testing.T) {
	d := define(t, widgets)
	for name, change := range map[string]func(live, obj *unstructured.Unstructured){
		"invalid object":  func(_, obj *unstructured.Unstructured) { spec(obj.Object)["size"] = "x" },
		"unknown field":   func(_, obj *unstructured.Unstructured) { spec(obj.Object)["unknown"] = "x" },
		"duplicate items": func(_, obj *unstructured.Unstructured) { spec(obj.Object)["tags"] = []any{"a", "a"} },
		"invalid stored":  func(live, _ *unstructured.Unstructured) { spec(live.Object)["size"] = "x" },
		"changed form":    func(_, obj *unstructured.Unstructured) { spec(obj.Object)["any"].(map[string]any)["a"] = "x" },
		"unusual key":     func(_, obj *unstructured.Unstructured) { spec(obj.Object)["tags"] = []any{"é"} },
		"other kind":      func(_, obj *unstructured.Unstructured) { obj.Object["kind"] = "Gadget" },
		"reset": func(_, obj *unstructured.Unstructured) {
			obj.Object["metadata"].(map[string]any)["managedFields"] = []any{}
		},
		"empty entry": func(_, obj *unstructured.Unstructured) {
			obj.Object["metadata"].(map[string]any)["managedFields"] = []any{map[string]any{}}
		},
		"unknown operation": func(_, obj *unstructured.Unstructured) { first(obj)["operation"] = "Delete" },
		"unknown version":   func(_, obj *unstructured.Unstructured) { first(obj)["apiVersion"] = "example.com/v0" },
		"unknown key":       func(_, obj *unstructured.Unstructured) { first(obj)["x"] = "y" },
		"other time zone":   func(_, obj *unstructured.Unstructured) { first(obj)["time"] = "2026-01-01T00:00:00+01:00" },
		"unsorted entries": func(_, obj *unstructured.Unstructured) {
			first(obj)["time"] = "2100-01-01T00:00:00Z"
			first(obj)["operation"] = "Update"
		},
		"same entry twice": func(_, obj *unstructured.Unstructured) {
			obj.Object["metadata"].(map[string]any)["managedFields"] = []any{first(obj), first(obj)}
		},
		"no longer granular": func(_, obj *unstructured.Unstructured) {
			first(obj)["fieldsV1"] = set{"f:spec": set{"f:point": set{"f:x": set{}}}}
		},
		"no longer a list": func(_, obj *unstructured.Unstructured) {
			first(obj)["fieldsV1"] = set{"f:spec": set{`v:"a"`: set{}}}
		},
		"no longer a map": func(_, obj *unstructured.Unstructured) {
			first(obj)["fieldsV1"] = set{"f:spec": set{"f:tags": set{"f:a": set{}}}}
		},
		"fields below a member": func(_, obj *unstructured.Unstructured) {
			first(obj)["fieldsV1"] = set{"f:spec": set{self: set{"f:a": set{}}, "f:size": set{}}}
		},
		"unusual form of a set": func(_, obj *unstructured.Unstructured) {
			first(obj)["fieldsV1"] = set{"f:spec": set{"f:size": set{self: set{}}}}
		},
		"too many managers": func(_, obj *unstructured.Unstructured) {
			list := []any{}
			for i := range maxUpdaters {
				list = append(list, map[string]any{"apiVersion": "example.com/v1", "fieldsType": "FieldsV1", "operation": "Update",
					"manager": fmt.Sprint("m", i), "fieldsV1": set{"f:spec": set{"f:size": set{}}}})
			}
			obj.Object["metadata"].(map[string]any)["managedFields"] = list
			spec(obj.Object)["color"] = "green"
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := endpoint(t, d, "v1", "")
			live := stored(t, d)
			obj := live.DeepCopy()
			change(live, obj)
			before := obj.DeepCopy()
			if m.update(live, obj, "writer") {
				t.Error("not left to the stock field manager")
			}
			if !reflect.DeepEqual(obj, before) {
				t.Error("the object has changed")
			}
		})
	}
}

// TestApplyAgain checks that a configuration that is applied again changes nothing, and that one
// with fewer fields in its metadata is not taken for it.
func TestApplyAgain(t *testing.T) {
	t.Parallel()
	m := endpoint(t, define(t, widgets), "v1", "")
	config := widget(t, "v1", `{"size": 1, "limits": {}, "any": {}, "ports": [{"port": 80}]}`)
	config.SetLabels(map[string]string{"app": "w"})
	live, err := m.Apply(nil, config, "applier", false)
	if err != nil {
		t.Fatal(err)
	}
	if got := m.apply(live, config, "applier", false); got != live {
		t.Errorf("got %v", got)
	}
	for _, metadata := range []map[string]any{nil, {}, {"name": "w"}} {
		less := config.DeepCopy()
		if less.Object["metadata"] = metadata; metadata == nil {
			delete(less.Object, "metadata")
		}
		// The order of the fields is random.
		for range 10 {
			if got := m.apply(live, less, "applier", false); got != nil {
				t.Fatalf("metadata %v: labels that are no longer applied are kept: %s", metadata, text(t, got))
			}
		}
	}
}

// TestUnusualWriters checks which writers and endpoints are left to the stock field manager whatever
// they write.
func TestUnusualWriters(t *testing.T) {
	t.Parallel()
	d := define(t, widgets)
	live := stored(t, d)
	nested, err := New(Config{Types: NewTypes(d), Kind: d.Version("v1").GroupVersionKind(), Reset: fieldpath.NewSet(fieldpath.MakePathOrDie("spec", "size"))})
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		m       *Manager
		manager string
		left    bool
	}{
		"a manager":               {endpoint(t, d, "v1", ""), "writer", false},
		"a name that is no UTF-8": {endpoint(t, d, "v1", ""), "\xff", true},
		"nested fields to reset":  {nested, "writer", true},
	} {
		if got := test.m.update(live, live.DeepCopy(), test.manager); got == test.left {
			t.Errorf("update by %s: %v", name, got)
		}
		if got := test.m.apply(live, widget(t, "v1", `{"old": "x"}`), test.manager, true); (got == nil) != test.left {
			t.Errorf("apply by %s: %v", name, got)
		}
	}
}

// TestUntracked checks that fields of a stored object without managedFields are not tracked, and
// those of an object that is created are.
func TestUntracked(t *testing.T) {
	t.Parallel()
	m := endpoint(t, define(t, widgets), "v1", "")
	for uid, tracked := range map[string]bool{"": true, "1": false} {
		live := widget(t, "v1", `{"size": 1}`)
		live.Object["metadata"].(map[string]any)["uid"] = uid
		obj := live.DeepCopy()
		spec(obj.Object)["size"] = int64(2)
		if !m.update(live, obj, "writer") || (len(obj.GetManagedFields()) > 0) != tracked {
			t.Errorf("uid %q: %s", uid, text(t, obj))
		}
	}
}

// TestTypesOfMaps checks that the values of a map have the types of their schema.
func TestTypesOfMaps(t *testing.T) {
	t.Parallel()
	d := define(t, strings.ReplaceAll(gadgets, "SPEC", gadgetSpec(`, "by": {"type": "object", "additionalProperties": `+gadgetSpec("")+`}`)))
	obj := parse(t, `{"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "g"}, "spec": {"by": {"a": {"tags": ["x"], "args": ["y"]}}}}`)
	typed, err := NewTypes(d).ObjectToTyped(obj)
	if err != nil {
		t.Fatal(err)
	}
	owned, err := typed.ToFieldSet()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []fieldpath.Path{
		fieldpath.MakePathOrDie("spec", "by", "a", "tags", value.NewValueInterface("x")), fieldpath.MakePathOrDie("spec", "by", "a", "args"),
	} {
		if !owned.Has(path) {
			t.Errorf("%s is not in %s", path, owned)
		}
	}
	spec(obj.Object)["by"] = map[string]any{"a": map[string]any{"size": "x"}}
	if _, err := NewTypes(d).ObjectToTyped(obj); err == nil {
		t.Error("a value of the wrong type fits")
	}
}
