package oracle

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
)

// thingsCRD returns a CRD with one version.
func thingsCRD(schema map[string]any) map[string]any {
	return map[string]any{
		"metadata": object("name", "things.example.com"),
		"spec": object("group", "example.com", "scope", "Cluster",
			"names", object("plural", "things", "singular", "thing", "kind", "Thing", "listKind", "ThingList"),
			"versions", list(object("name", "v1", "served", true, "storage", true, "schema", object("openAPIV3Schema", schema))),
			"conversion", object("strategy", "None")),
	}
}

// TestFieldCases compares the field managers over sequences of writes in which they have
// differed. The spec is what the last write leaves.
func TestFieldCases(t *testing.T) {
	type write struct {
		manager string
		apply   bool
		spec    any
	}
	for _, test := range []struct {
		name   string
		schema map[string]any // of the spec
		writes []write
		spec   any
	}{
		{
			// Nothing in the spec has an owner, so that the reference takes it for absent.
			name: "applied empty map with an empty list",
			schema: object("type", "object", "properties", object(
				"size", object("type", "integer", "default", int64(1)),
				"tags", object("type", "array", "items", object("type", "string"), "x-kubernetes-list-type", "set"))),
			writes: []write{
				{manager: "a", apply: true, spec: object()},
				{manager: "u", spec: object("size", int64(1), "tags", list())},
				{manager: "a", apply: true, spec: object()},
			},
		},
		{
			name: "applied empty map with an empty list in a map",
			schema: object("type", "object", "properties", object("inner", object("type", "object", "properties", object(
				"size", object("type", "integer", "default", int64(1)),
				"ports", object("type", "array", "x-kubernetes-list-type", "map", "x-kubernetes-list-map-keys", list("port"),
					"items", object("type", "object", "required", list("port"), "properties", object("port", object("type", "integer")))))))),
			writes: []write{
				{manager: "a", apply: true, spec: object("inner", object())},
				{manager: "u", spec: object("inner", object("size", int64(1), "ports", list()))},
				{manager: "a", apply: true, spec: object("inner", object())},
			},
		},
		{
			name: "applied empty map with an owned field",
			schema: object("type", "object", "properties", object(
				"size", object("type", "integer"),
				"tags", object("type", "array", "items", object("type", "string"), "x-kubernetes-list-type", "set"))),
			writes: []write{
				{manager: "a", apply: true, spec: object()},
				{manager: "u", spec: object("size", int64(1), "tags", list())},
				{manager: "a", apply: true, spec: object()},
			},
			spec: object("size", int64(1), "tags", list()),
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			managers, err := newFieldManagers(thingsCRD(object("type", "object", "properties", object("spec", test.schema))))
			if err != nil {
				t.Fatal(err)
			}
			live := object("apiVersion", testAPIVersion, "kind", testKind.Kind)
			for i, w := range test.writes {
				step := fieldStep{endpoint: endpoint{version: "v1"}, manager: w.manager, apply: w.apply, live: live,
					obj: object("apiVersion", testAPIVersion, "kind", testKind.Kind, "metadata", object("name", "foo"), "spec", w.spec)}
				now := time.Date(2026, 1, 1, 0, 0, i, 0, time.UTC).Format(time.RFC3339)
				ours, ref, err := managers.run(step, now)
				if err != nil || ref.err != nil || ours.String() != ref.String() {
					t.Fatalf("write %d: %v\n%v\nours: %v\nref:  %v", i, err, &step, ours, ref)
				}
				live = runtime.DeepCopyJSON(ref.obj)
				live["metadata"].(map[string]any)["uid"] = "1"
			}
			if got := fmt.Sprint(live["spec"]); got != fmt.Sprint(test.spec) {
				t.Errorf("got %v, want %v", got, test.spec)
			}
		})
	}
}
