package plugins

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/admission"
)

// nodeTaint adds a taint to new nodes, so that no pod is scheduled to a node before it is ready.
type nodeTaint struct{ *admission.Handler }

var _ admission.MutationInterface = &nodeTaint{}

func newNodeTaint() *nodeTaint { return &nodeTaint{admission.NewHandler(admission.Create)} }

// Admit implements admission.MutationInterface.
func (p *nodeTaint) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if !handles(a, nodes) {
		return nil
	}
	node, err := as[*corev1.Node](a.GetObject())
	if err != nil {
		return err
	}
	taint := corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}
	if !slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.MatchTaint(&taint) }) {
		node.Spec.Taints = append(node.Spec.Taints, taint)
	}
	return nil
}
