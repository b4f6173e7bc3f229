package oracle

import (
	"log/slog"
	"testing"
	"time"

	"k8s.io/klog/v2"
)

// stepsPerCRD is the number of writes to the objects of one generated CRD.
const stepsPerCRD = 40

// TestFields compares the field manager with that of the reference, over generated sequences
// of applies, creates, updates and updates of the status by several managers. ORACLE_FIELD_STEPS
// is the number of writes, ORACLE_SEED the seed, and ORACLE_FIRST the first CRD.
func TestFields(t *testing.T) {
	klog.SetSlogLogger(slog.New(slog.DiscardHandler)) // both sides log managedFields that they cannot read
	t.Cleanup(klog.ClearLogger)
	steps := setting(t, "ORACLE_FIELD_STEPS", 4000)
	seed, first := setting(t, "ORACLE_SEED", 1), setting(t, "ORACLE_FIRST", 0)
	var done, applied, failed, unchanged uint64
	for n := first; done < steps; n++ {
		g := Generator{Seed: seed}.batch(n)
		tree := g.fieldsCRD()
		managers, err := newFieldManagers(tree)
		if err != nil {
			continue // not a CRD that the server accepts
		}
		s := g.fieldSequence(tree, managers)
		for i := range stepsPerCRD {
			step := s.next()
			now := time.Date(2026, 1, 1, 0, 0, i, 0, time.UTC).Format(time.RFC3339)
			ours, ref, err := managers.run(step, now)
			for again := 0; err == nil && ours.String() != ref.String() && ref.err != nil && again < 300; again++ {
				_, ref, err = managers.run(step, now) // which error is first depends on the order of maps
			}
			if err != nil {
				t.Fatalf("seed %d, CRD %d, step %d: %v\n%v", seed, n, i, err, &step)
			}
			if ours.String() != ref.String() {
				t.Fatalf("seed %d, CRD %d, step %d: %v\nours: %v\nref:  %v\nCRD: %s", seed, n, i, &step, ours, ref, mustJSON(tree))
			}
			done++
			if step.apply {
				applied++
			}
			switch {
			case ref.err != nil:
				failed++
			case equal(ref.obj, step.live):
				unchanged++
			}
			if ref.err == nil {
				s.stored = ref.obj
				s.stored["metadata"].(map[string]any)["uid"] = "1"
				s.stored["kind"] = testKind.Kind // the server rejects others
			}
			if g.chance(2) {
				s.stored = nil
			}
		}
	}
	t.Logf("seed %d: %d writes, %d of them applies; %d failed, %d changed nothing", seed, done, applied, failed, unchanged)
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
