package compliance_test

import (
	"encoding/json"
	"testing"

	"espalier.dev/api"
	"espalier.dev/api/codec"
	"espalier.dev/crd"
	"espalier.dev/crd/cel"
	"espalier.dev/crd/compliance"
	"espalier.dev/internal/testcase"
	"espalier.dev/schema"
)

// BenchmarkInspect inspects an object of medium size that complies.
func BenchmarkInspect(b *testing.B) {
	medium := testcase.Medium()
	src := `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.example.com"},"spec":{"group":"example.com",
		"names":{"kind":"Widget","plural":"widgets"},"scope":"Namespaced","versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":` + string(medium.Schema) + `}}]}}`
	decoded, err := codec.DecodeLenient([]byte(src))
	if err != nil {
		b.Fatal(err)
	}
	api.SetDefaults(decoded)
	d, err := crd.New(decoded, crd.Options{Semantics: schema.KEP, Rules: cel.Checker{}})
	if err != nil {
		b.Fatal(err)
	}
	inspector := compliance.New(d)
	var object map[string]any
	if err := json.Unmarshal(medium.Object, &object); err != nil {
		b.Fatal(err)
	}
	object["apiVersion"], object["kind"] = "example.com/v1", "Widget"
	object["metadata"] = map[string]any{"name": "a", "namespace": "default", "generation": 1}
	stored, err := json.Marshal(object)
	if err != nil {
		b.Fatal(err)
	}
	// As the server stores it.
	first, err := inspector.Inspect(b.Context(), stored)
	if err != nil {
		b.Fatal(err)
	}
	if stored, err = json.Marshal(first.Object); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(stored)))
	b.ReportAllocs()
	for b.Loop() {
		r, err := inspector.Inspect(b.Context(), stored)
		if err != nil || len(r.Problems) > 0 {
			b.Fatal(err, r.Problems)
		}
	}
}
