package core_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"espalier.dev/kinds/core"
	"espalier.dev/kinds/kind/kindtest"
)

func TestNamespaces(t *testing.T) {
	t.Parallel()
	rules := core.Rules()["namespaces"]
	valid := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a"}}

	create := kindtest.Create(t, rules, valid)
	got := create(func(ns *corev1.Namespace) { ns.Status.Phase = corev1.NamespaceTerminating })
	if got.Labels["kubernetes.io/metadata.name"] != "a" || got.Status.Phase != corev1.NamespaceActive || len(got.Spec.Finalizers) != 1 || got.Spec.Finalizers[0] != "kubernetes" {
		t.Errorf("got %+v", got)
	}
	create(func(ns *corev1.Namespace) {
		ns.Namespace = "b"
		ns.Spec.Finalizers = []corev1.FinalizerName{"x"}
	},
		`metadata.namespace: Forbidden: not allowed on this type`,
		`spec.finalizers: Invalid value: "x": name is neither a standard finalizer name nor is it fully qualified`)

	update := kindtest.Update(t, rules, "", valid)
	got = update(func(ns *corev1.Namespace) {
		ns.Spec.Finalizers = nil
		ns.Labels = nil
		ns.Status.Phase = corev1.NamespaceTerminating
	})
	if got.Labels["kubernetes.io/metadata.name"] != "a" || got.Status.Phase != corev1.NamespaceActive || len(got.Spec.Finalizers) != 1 {
		t.Errorf("got %+v", got)
	}
	update(func(ns *corev1.Namespace) { ns.Name = "b" }, `metadata.name: Invalid value: "b": field is immutable`)

	status := kindtest.Update(t, rules, "status", valid)
	status(func(ns *corev1.Namespace) { ns.Status.Phase = corev1.NamespaceTerminating },
		"status.Phase: Invalid value: \"Terminating\": may only be 'Active' if `deletionTimestamp` is empty")
	deleted := valid.DeepCopy()
	deleted.DeletionTimestamp = new(metav1.Now())
	kindtest.Update(t, rules, "status", deleted)(func(ns *corev1.Namespace) {},
		"status.Phase: Invalid value: \"Active\": may only be 'Terminating' if `deletionTimestamp` is not empty")

	finalize := kindtest.Update(t, rules, "finalize", valid)
	if got := finalize(func(ns *corev1.Namespace) { ns.Spec.Finalizers = nil }); len(got.Spec.Finalizers) != 0 {
		t.Errorf("got %+v", got.Spec)
	}
	finalize(func(ns *corev1.Namespace) { ns.Spec.Finalizers = append(ns.Spec.Finalizers, "x") },
		`spec.finalizers[1]: Invalid value: "x": name is neither a standard finalizer name nor is it fully qualified`)
}
