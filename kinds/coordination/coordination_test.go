package coordination_test

import (
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"espalier.dev/kinds/coordination"
	"espalier.dev/kinds/kind/kindtest"
)

func TestLeases(t *testing.T) {
	t.Parallel()
	rules := coordination.Rules()["leases"]
	valid := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "b"}}
	strategy := coordinationv1.CoordinatedLeaseStrategy("x")
	create := kindtest.Create(t, rules, valid)
	if got := create(func(l *coordinationv1.Lease) { l.Spec.Strategy, l.Spec.PreferredHolder = &strategy, new("c") }); got.Spec.Strategy != nil || got.Spec.PreferredHolder != nil {
		t.Errorf("got %+v", got.Spec)
	}
	create(func(l *coordinationv1.Lease) {
		l.Spec.LeaseDurationSeconds, l.Spec.LeaseTransitions = new(int32(0)), new(int32(-1))
	},
		`spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0`,
		`spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0`)

	// A stored lease may have fields that a new one may not.
	old := valid.DeepCopy()
	old.ResourceVersion = "1"
	old.Spec.Strategy, old.Spec.PreferredHolder = &strategy, new("c")
	updated := old.DeepCopy()
	rules.Main.Prepare(updated, old)
	kindtest.Errors(t, rules.Main.Validate(updated, old), `spec.strategy.strategy: Unsupported value: "x": supported values: "OldestEmulationVersion"`)
	updated.Spec.Strategy = nil
	kindtest.Errors(t, rules.Main.Validate(updated, old), "spec.preferredHolder: Forbidden: may only be specified if `strategy` is defined")
}
