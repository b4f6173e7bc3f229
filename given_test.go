package espalier_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"espalier.dev"
	"espalier.dev/crd"
	"espalier.dev/schema"
)

// TestJSON compares the results for objects as JSON with those for parsed objects.
func TestJSON(t *testing.T) {
	a := admitter(t, workers)
	for _, spec := range []string{`{"image":"img"}`, `{"image":"i","extra":1,"tags":null}`, `{}`} {
		obj := worker(spec, `{"replicas":2}`)
		src, err := json.Marshal(obj)
		if err != nil {
			t.Fatal(err)
		}
		tree, err := a.Create(t.Context(), obj)
		if err != nil {
			t.Fatal(err)
		}
		text, err := a.CreateJSON(t.Context(), src)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(text.Object, tree.Object) || !reflect.DeepEqual(text.Warnings, tree.Warnings) ||
			!reflect.DeepEqual(text.Violations.Messages(), tree.Violations.Messages()) || len(text.Changes) != len(tree.Changes) {
			t.Errorf("%s: got %+v as text, %+v as a tree", spec, text, tree)
		}
		old := worker(`{"image":"old"}`, "")
		if tree, err = a.Update(t.Context(), obj, old); err != nil {
			t.Fatal(err)
		}
		if text, err = a.UpdateJSON(t.Context(), src, old); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(text.Object, tree.Object) {
			t.Errorf("%s: an update gives %v as text, %v as a tree", spec, text.Object, tree.Object)
		}
		if tree, err = a.UpdateStatus(t.Context(), obj, old); err != nil {
			t.Fatal(err)
		}
		if text, err = a.UpdateStatusJSON(t.Context(), src, old); err != nil {
			t.Fatal(err)
		}
		if status, _ := text.Object["status"].(map[string]any); !reflect.DeepEqual(text.Object, tree.Object) || status["replicas"] != int64(2) {
			t.Errorf("%s: an update of the status gives %v as text, %v as a tree", spec, text.Object, tree.Object)
		}
	}
}

// TestJSONRejects passes JSON that is not an object of the CRD.
func TestJSONRejects(t *testing.T) {
	a := admitter(t, workers)
	for src, want := range map[string]string{
		`{"apiVersion":"example.com/v1","kind":"Worker","metadata":`: "JSON",
		`{"apiVersion":`:                      "JSON",
		`[]`:                                  `apiVersion and kind are required`,
		`{"kind":3,"apiVersion":"v1"}`:        `apiVersion and kind are required`,
		`{"apiVersion":"v1","kind":"Worker"}`: `no CRD serves v1 Worker: the CRDs define Worker.example.com`,
	} {
		if _, err := a.CreateJSON(t.Context(), []byte(src)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", src, err, want)
		}
		if _, err := a.UpdateJSON(t.Context(), []byte(src), worker(`{"image":"img"}`, "")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", src, err, want)
		}
	}
}

// TestOf uses an invalid CRD: validating it is up to the caller.
func TestOf(t *testing.T) {
	invalid := definition(t, strings.Replace(workers, "name: workers.example.com", "name: other.example.com", 1))
	if _, err := espalier.New(t.Context(), invalid); err == nil {
		t.Fatal("New takes an invalid definition")
	}
	d, err := crd.New(invalid, crd.Options{Semantics: schema.Kubernetes})
	if err != nil {
		t.Fatal(err)
	}
	result, err := espalier.ForDefinition(d, "here").Create(t.Context(), worker(`{"image":"img"}`, ""))
	if err != nil {
		t.Fatal(err)
	}
	if got := result.Object["metadata"].(map[string]any)["namespace"]; got != "here" || len(result.Violations) != 0 {
		t.Errorf("got namespace %v and %v", got, result.Violations)
	}
}
