package fields

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"espalier.dev/api"
	"espalier.dev/crd"
	"espalier.dev/schema"
)

// widgets is a CRD with two versions, of which the second lacks spec.old.
const widgets = `{
	"metadata": {"name": "widgets.example.com"},
	"spec": {
		"group": "example.com", "scope": "Namespaced",
		"names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
		"versions": [{
			"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
			"schema": {"openAPIV3Schema": {"type": "object", "properties": {
				"spec": {"type": "object", "properties": {
					"size": {"type": "integer"},
					"old": {"type": "string"},
					"color": {"type": "string", "default": "red"},
					"limits": {"type": "object", "additionalProperties": {"x-kubernetes-int-or-string": true}},
					"point": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}}},
					"tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
					"args": {"type": "array", "items": {"type": "string"}},
					"any": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
					"ports": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"], "items": {
						"type": "object", "required": ["port"], "properties": {
							"port": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP"}, "name": {"type": "string"}}}}
				}},
				"status": {"type": "object", "properties": {"ready": {"type": "boolean"}}}
			}}}
		}, {
			"name": "v2", "served": true, "storage": false, "subresources": {"status": {}},
			"schema": {"openAPIV3Schema": {"type": "object", "properties": {
				"spec": {"type": "object", "properties": {"size": {"type": "integer"}, "color": {"type": "string"}}},
				"status": {"type": "object", "properties": {"ready": {"type": "boolean"}}}
			}}}
		}]
	}
}`

func define(t testing.TB, text string) *crd.Definition {
	t.Helper()
	c := &api.CustomResourceDefinition{}
	if err := api.Unmarshal([]byte(text), c); err != nil {
		t.Fatal(err)
	}
	api.SetDefaults(c)
	d, err := crd.New(c, crd.Options{Semantics: schema.Kubernetes, IgnoreRules: true})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// endpoint returns the field manager of an endpoint.
func endpoint(t testing.TB, d *crd.Definition, version, subresource string) *Manager {
	t.Helper()
	reset := fieldpath.NewSet(fieldpath.MakePathOrDie("status"))
	if subresource == "status" {
		reset = fieldpath.NewSet(fieldpath.MakePathOrDie("metadata"), fieldpath.MakePathOrDie("spec"))
	}
	v := d.Version(version)
	program, err := v.Program()
	if err != nil {
		t.Fatal(err)
	}
	m, err := New(Config{Types: NewTypes(d), Kind: v.GroupVersionKind(), Subresource: subresource, Reset: reset,
		Default: func(obj map[string]any) { _ = program.Default(obj) }})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// widget returns a widget with a spec.
func widget(t testing.TB, apiVersion, spec string) *unstructured.Unstructured {
	t.Helper()
	return parse(t, `{"apiVersion": "example.com/`+apiVersion+`", "kind": "Widget", "metadata": {"name": "w"}, "spec": `+spec+`}`)
}

func parse(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(text), u); err != nil {
		t.Fatal(err)
	}
	return u
}

// stored returns the object that a few writes leave.
func stored(t testing.TB, d *crd.Definition) *unstructured.Unstructured {
	t.Helper()
	m := endpoint(t, d, "v1", "")
	obj := widget(t, "v1", `{"size": 1, "args": ["a"], "any": {"a": {"b": 1}}, "limits": {"cpu": 1}, "ports": [{"port": 80, "protocol": "TCP"}], "tags": ["x"]}`)
	obj.SetLabels(map[string]string{"app": "w"})
	m.Update(nil, obj, "creator")
	obj.SetUID("1")
	out, err := m.Apply(obj, widget(t, "v1", `{"color": "blue", "ports": [{"port": 80, "name": "http"}, {"port": 443}], "tags": ["y"], "point": {"x": 1, "y": 2}}`), "applier", true)
	if err != nil {
		t.Fatal(err)
	}
	status := out.DeepCopy()
	status.Object["status"] = map[string]any{"ready": true}
	endpoint(t, d, "v1", "status").Update(out, status, "controller")
	age(status)
	return status
}

// age gives the entries of managedFields different times in the past, so that the time of a later
// write is seen, also in the same second.
func age(obj *unstructured.Unstructured) {
	metadata, _ := obj.Object["metadata"].(map[string]any)
	entries, _ := metadata["managedFields"].([]any)
	for i, e := range entries {
		e.(map[string]any)["time"] = time.Date(2026, 1, 1, 0, 0, i, 0, time.UTC).Format(time.RFC3339)
	}
}

// withoutTimes returns the entries of managedFields with the times that are not in before
// replaced.
func withoutTimes(obj, before *unstructured.Unstructured) *unstructured.Unstructured {
	obj = obj.DeepCopy()
	known := map[any]bool{}
	each := func(u *unstructured.Unstructured, f func(map[string]any)) {
		metadata, _ := u.Object["metadata"].(map[string]any)
		list, _ := metadata["managedFields"].([]any)
		for _, e := range list {
			f(e.(map[string]any))
		}
	}
	each(before, func(e map[string]any) { known[e["time"]] = true })
	each(obj, func(e map[string]any) {
		if t, ok := e["time"]; ok && !known[t] {
			e["time"] = "now"
		}
	})
	return obj
}

func spec(o map[string]any) map[string]any { return o["spec"].(map[string]any) }

func text(t *testing.T, u *unstructured.Unstructured) string {
	t.Helper()
	b, err := json.Marshal(u)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestApplyNumbers checks that merged numbers are those of the configuration, also where they
// equal those of the object.
func TestApplyNumbers(t *testing.T) {
	d := define(t, widgets)
	m := endpoint(t, d, "v1", "")
	live := stored(t, d)
	spec(live.Object)["any"] = map[string]any{"zero": math.Copysign(0, -1), "one": int64(1)}
	config := widget(t, "v1", `{"old": "x"}`)
	spec(config.Object)["any"] = map[string]any{"zero": float64(0), "one": float64(1)}
	got := m.apply(live, config, "other", true)
	if got == nil {
		t.Fatal("left to the stock field manager")
	}
	numbers := spec(got.Object)["any"].(map[string]any)
	if zero := numbers["zero"].(float64); math.Signbit(zero) {
		t.Error("the sign of a zero is that of the object")
	}
	if _, ok := numbers["one"].(float64); !ok {
		t.Errorf("got a number of type %T", numbers["one"])
	}
}

// TestOwnersWithoutUID checks that an owner without a uid is one with an empty uid, as in
// kube-apiserver. The metadata of embedded resources may have such owners.
func TestOwnersWithoutUID(t *testing.T) {
	obj := widget(t, "v1", `{}`)
	obj.Object["metadata"].(map[string]any)["ownerReferences"] = []any{map[string]any{"kind": "Pod"}}
	typed, err := NewTypes(define(t, widgets)).ObjectToTyped(obj)
	if err != nil {
		t.Fatal(err)
	}
	set, err := typed.ToFieldSet()
	if err != nil {
		t.Fatal(err)
	}
	if !set.Has(fieldpath.MakePathOrDie("metadata", "ownerReferences", fieldpath.KeyByFields("uid", ""))) {
		t.Errorf("got %v", set)
	}
}

// TestApplyConflict checks the error of a conflict.
func TestApplyConflict(t *testing.T) {
	d := define(t, widgets)
	m := endpoint(t, d, "v1", "")
	_, err := m.Apply(stored(t, d), widget(t, "v1", `{"size": 5}`), "other", false)
	if !apierrors.IsConflict(err) {
		t.Fatalf("expected a conflict, got %v", err)
	}
	causes := err.(apierrors.APIStatus).Status().Details.Causes
	if len(causes) != 1 || causes[0].Field != ".spec.size" || causes[0].Message != `conflict with "creator" using example.com/v1` {
		t.Errorf("got %v", causes)
	}
}

// TestOtherVersions checks fields that are owned in another version, which may lack them.
func TestOtherVersions(t *testing.T) {
	d := define(t, widgets)
	v1, v2 := endpoint(t, d, "v1", ""), endpoint(t, d, "v2", "")
	obj := widget(t, "v2", `{"size": 1}`)
	v2.Update(nil, obj, "creator")
	obj.SetUID("1")
	obj.SetAPIVersion("example.com/v1")

	// A change of a field that both versions have.
	changed := obj.DeepCopy()
	spec(changed.Object)["size"] = int64(2)
	if !v1.update(obj, changed, "writer") {
		t.Error("left to the stock field manager")
	}
	owners := changed.GetManagedFields()
	if len(owners) != 2 || owners[0].APIVersion != "example.com/v2" || strings.Contains(owners[0].FieldsV1.String(), "size") {
		t.Errorf("got %v", owners)
	}

	// A field that the other version lacks.
	changed = obj.DeepCopy()
	spec(changed.Object)["old"] = "x"
	v1.Update(obj, changed, "writer")
	if got := changed.GetManagedFields(); !reflect.DeepEqual(got, obj.GetManagedFields()) {
		t.Errorf("got %v, want those of the live object", got)
	}
	if _, err := v1.Apply(changed, widget(t, "v1", `{"color": "red"}`), "applier", true); err == nil || !strings.Contains(err.Error(), "field not declared in schema") {
		t.Errorf("got %v", err)
	}

	// With a conversion that drops it.
	v1.convert = func(obj map[string]any, to runtimeschema.GroupVersion) (map[string]any, error) {
		obj["apiVersion"] = to.String()
		delete(spec(obj), "old")
		return obj, nil
	}
	if _, err := v1.Apply(changed, widget(t, "v1", `{"color": "red"}`), "applier", true); err != nil {
		t.Error(err)
	}
}
