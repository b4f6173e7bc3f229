package schema

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"espalier.dev/internal/jsonx"
)

// fullObjectMeta has a value in every field of ObjectMeta.
func fullObjectMeta(t *testing.T) *metav1.ObjectMeta {
	t.Helper()
	at := metav1.NewTime(time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC))
	yes, seconds := true, int64(0)
	fields := &metav1.FieldsV1{}
	fields.SetRawString(`{"f:spec":{}}`)
	meta := &metav1.ObjectMeta{
		Name: "n", GenerateName: "n-", Namespace: "ns", UID: "u", ResourceVersion: "1", Generation: 2,
		CreationTimestamp: at, DeletionTimestamp: &at, DeletionGracePeriodSeconds: &seconds,
		Labels: map[string]string{"a": ""}, Annotations: map[string]string{"b": "c"}, Finalizers: []string{"f"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "K", Name: "", UID: "u", Controller: &yes, BlockOwnerDeletion: new(bool)}},
		ManagedFields: []metav1.ManagedFieldsEntry{{
			Manager: "m", Operation: "Apply", APIVersion: "v1", Time: &at, FieldsType: "FieldsV1",
			FieldsV1: fields, Subresource: "status",
		}},
	}
	// SelfLink is deprecated, but it is still a field that clients may send.
	reflect.ValueOf(meta).Elem().FieldByName("SelfLink").SetString("/x")
	for _, v := range []reflect.Value{reflect.ValueOf(*meta), reflect.ValueOf(meta.OwnerReferences[0]), reflect.ValueOf(meta.ManagedFields[0])} {
		for i := range v.NumField() {
			if name := v.Type().Field(i).Name; v.Field(i).IsZero() && name != "Name" {
				t.Fatalf("%s.%s has no value: add one", v.Type().Name(), name)
			}
		}
	}
	return meta
}

func TestObjectMeta(t *testing.T) {
	full, err := runtime.DefaultUnstructuredConverter.ToUnstructured(fullObjectMeta(t))
	if err != nil {
		t.Fatal(err)
	}
	s := ObjectMeta()
	if got, want := slices.Sorted(maps.Keys(s.Properties)), slices.Sorted(maps.Keys(full)); !slices.Equal(got, want) {
		t.Errorf("fields %v, want %v", got, want)
	}
	p := mustCompile(t, &Structural{Properties: map[string]*Structural{"meta": s}})
	report, err := p.Normalize(Object{"meta": jsonx.Copy(full)}, DecodeOptions{Report: true})
	if err != nil || len(report.Changes) > 0 {
		t.Errorf("the schema changes metadata: %v, %v", report, err)
	}
	if vs := p.Validate(t.Context(), Object{"meta": jsonx.Copy(full)}, nil); len(vs) > 0 {
		t.Errorf("the schema rejects metadata: %v", vs.FieldErrors())
	}
	for path, s := range s.All() {
		if named := len(path) > 0 && path[len(path)-1].Form == StepNamed; named && s.Description == "" {
			t.Errorf("%s has no description", path)
		}
	}
	if s.ValueValidation != nil {
		t.Errorf("metadata requires %v", s.ValueValidation.Required)
	}
	owner := s.Properties["ownerReferences"].Items
	if got, want := owner.ValueValidation.Required, []string{"apiVersion", "kind", "name", "uid"}; !slices.Equal(got, want) {
		t.Errorf("an owner reference requires %v, want %v", got, want)
	}
	s.Properties["name"].Type = "integer"
	if ObjectMeta().Properties["name"].Type != "string" {
		t.Error("a change of the schema reaches others")
	}
}

// TestNormalMetadata holds isNormal to what ObjectMeta makes of a value: what it takes
// for normal comes out as it went in.
func TestNormalMetadata(t *testing.T) {
	full, err := runtime.DefaultUnstructuredConverter.ToUnstructured(fullObjectMeta(t))
	if err != nil {
		t.Fatal(err)
	}
	if !objectMetaType().isNormal(full) {
		t.Error("metadata that ObjectMeta wrote is not normal")
	}
	simple := []any{
		"", "x", "2026-03-04T05:06:07Z", "2026-03-04T05:06:07+01:00", int64(0), int64(7), 1.5, true, false, nil,
		[]any{}, []any{"x"}, []any{""}, []any{int64(1)}, []any{map[string]any{}}, map[string]any{}, map[string]any{"a": ""}, map[string]any{"a": int64(1)},
	}
	samples := slices.Clone(simple)
	for _, item := range []string{"ownerReferences", "managedFields"} {
		entry := full[item].([]any)[0].(map[string]any)
		for name := range entry {
			for _, v := range simple {
				changed := maps.Clone(entry)
				changed[name] = v
				samples = append(samples, []any{changed})
			}
			less := maps.Clone(entry)
			delete(less, name)
			samples = append(samples, []any{less})
		}
	}
	normal := 0
	for name := range full {
		for _, v := range samples {
			if !objectMetaType().isNormal(map[string]any{name: v}) {
				continue
			}
			normal++
			var meta metav1.ObjectMeta
			text, err := json.Marshal(map[string]any{name: v})
			if err == nil {
				err = json.Unmarshal(text, &meta)
			}
			if err != nil {
				t.Errorf("%s: %v is taken for normal: %v", name, v, err)
				continue
			}
			out, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&meta)
			if err != nil || !reflect.DeepEqual(out[name], v) {
				t.Errorf("%s: %v is taken for normal, but comes out as %v (%v)", name, v, out[name], err)
			}
		}
	}
	if normal < len(full) {
		t.Errorf("only %d values are normal", normal)
	}
}
