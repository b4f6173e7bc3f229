package scheduling_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"espalier.dev/kinds/kind/kindtest"
	"espalier.dev/kinds/scheduling"
)

func TestPriorityClasses(t *testing.T) {
	t.Parallel()
	rules := scheduling.Rules()["priorityclasses"]
	valid := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Value: 1000000000}
	create := kindtest.Create(t, rules, valid)
	if got := create(func(*schedulingv1.PriorityClass) {}); got.Generation != 1 || *got.PreemptionPolicy != "PreemptLowerPriority" {
		t.Errorf("got %+v", got)
	}
	create(func(pc *schedulingv1.PriorityClass) {
		pc.Value++
		pc.PreemptionPolicy = new(corev1.PreemptionPolicy("x"))
	},
		`value: Forbidden: maximum allowed value of a user defined priority is 1000000000`,
		`preemptionPolicy: Unsupported value: "x": supported values: "PreemptLowerPriority", "Never"`)
	const reserved = `metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. error: `
	create(func(pc *schedulingv1.PriorityClass) { pc.Name = "system-a" }, reserved+`system-a is not a known system priority class`)
	create(func(pc *schedulingv1.PriorityClass) { pc.Name = "system-node-critical" }, reserved+`value of system-node-critical PriorityClass must be 2000001000`)
	for _, system := range scheduling.SystemPriorityClasses() {
		create(func(pc *schedulingv1.PriorityClass) { *pc = *system })
		create(func(pc *schedulingv1.PriorityClass) { *pc, pc.GlobalDefault = *system, true },
			reserved+`globalDefault of `+system.Name+` PriorityClass must be false`)
	}
	kindtest.Update(t, rules, "", valid)(func(pc *schedulingv1.PriorityClass) {
		pc.Value = 1
		pc.PreemptionPolicy = new(corev1.PreemptNever)
		pc.GlobalDefault, pc.Description = true, "changed"
	},
		`value: Forbidden: may not be changed in an update.`,
		`preemptionPolicy: Invalid value: "Never": field is immutable`)
}
