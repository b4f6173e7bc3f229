package oracle

import (
	"log/slog"
	"testing"

	"k8s.io/klog/v2"
)

// TestFields compares the field manager with that of the reference, over generated sequences
// of applies, creates, updates and updates of the status by several managers. ORACLE_FIELD_STEPS
// is the number of writes, ORACLE_SEED the seed, and ORACLE_FIRST the first CRD.
func TestFields(t *testing.T) {
	klog.SetSlogLogger(slog.New(slog.DiscardHandler)) // both sides log managedFields that they cannot read
	t.Cleanup(klog.ClearLogger)
	crds := (setting(t, "ORACLE_FIELD_STEPS", 2000) + stepsPerCRD - 1) / stepsPerCRD
	gen, first := Generator{Seed: setting(t, "ORACLE_SEED", 1)}, setting(t, "ORACLE_FIRST", 0)
	var stats fieldStats
	parallel(crds, func(n uint64) bool {
		if err := gen.batch(first + n).compareFields(&stats); err != nil {
			t.Errorf("seed %d, CRD %d, %v", gen.Seed, first+n, err)
			return false
		}
		return true
	})
	t.Logf("seed %d: %v", gen.Seed, &stats)
}

// TestApplyEmptyMap compares what happens when a manager replaces the keys it owns by an empty
// map. The merged object has null there, which both sides reject unless the field is nullable.
func TestApplyEmptyMap(t *testing.T) {
	for _, nullable := range []bool{false, true} {
		labels := object("type", "object", "additionalProperties", object("type", "string"))
		if nullable {
			labels["nullable"] = true
		}
		schema := object("type", "object", "properties", object("spec", object("type", "object", "properties", object("labels", labels))))
		managers, err := newFieldManagers(thingsCRD(schema))
		if err != nil {
			t.Fatal(err)
		}
		config := func(labels map[string]any) map[string]any {
			return object("apiVersion", testAPIVersion, "kind", testKind.Kind, "metadata", object("name", "foo"), "spec", object("labels", labels))
		}
		step := fieldStep{endpoint: endpoint{version: "v1"}, manager: "a", apply: true,
			live: object("apiVersion", testAPIVersion, "kind", testKind.Kind), obj: config(object("a", "x"))}
		const now = "2026-01-01T00:00:00Z"
		_, first, err := managers.run(step, now)
		if err != nil || first.err != nil {
			t.Fatal(err, first.err)
		}
		step.live, step.obj = first.obj, config(object())
		ours, ref, err := managers.run(step, now)
		if err != nil || ours.String() != ref.String() || ref.err != nil {
			t.Fatalf("%v\nours: %v\nref:  %v", err, ours, ref)
		}
		if v, ok := ref.obj["spec"].(map[string]any)["labels"]; !ok || v != nil {
			t.Errorf("the reference merges to %v", ref.obj["spec"])
		}
		theirs, err := NewReference(mustJSON(schema), testKind, false, false)
		if err != nil {
			t.Fatal(err)
		}
		own, err := NewOurs(mustJSON(schema), testKind, false, false)
		if err != nil {
			t.Fatal(err)
		}
		want, got := theirs.Validate(ref.obj, first.obj), own.Validate(ours.obj, first.obj)
		if errorsText(got) != errorsText(want) || (len(want) == 0) != nullable {
			t.Errorf("nullable %v: ours: %v, ref: %v", nullable, got, want)
		}
	}
}
