package policies

import (
	"context"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
)

// meters measures the cost of expressions, if it is on. The dispatchers do not return it.
type meters struct{ on bool }

func (m meters) condition(e cel.ConditionEvaluator) cel.ConditionEvaluator {
	if !m.on {
		return e
	}
	return meteredCondition{e}
}

func (m meters) mutation(e cel.MutatingEvaluator) cel.MutatingEvaluator {
	if !m.on {
		return e
	}
	return meteredMutation{e}
}

// charge adds the cost of an evaluation to the record of the request. What is left of a budget that
// was exceeded is negative. The context cannot carry a counter of its own: it is of a type that
// k8s.io/apiserver knows.
func charge(ctx context.Context, budget, left int64) {
	if rec, ok := ctx.Value(recordKey{}).(*record); ok {
		rec.cost += budget - max(left, 0)
	}
}

type meteredCondition struct{ cel.ConditionEvaluator }

func (m meteredCondition) ForInput(ctx context.Context, a *admission.VersionedAttributes, r *admissionv1.AdmissionRequest,
	v cel.OptionalVariableBindings, ns *corev1.Namespace, budget int64) ([]cel.EvaluationResult, int64, error) {
	results, left, err := m.ConditionEvaluator.ForInput(ctx, a, r, v, ns, budget)
	charge(ctx, budget, left)
	return results, left, err
}

type meteredMutation struct{ cel.MutatingEvaluator }

func (m meteredMutation) ForInput(ctx context.Context, a *admission.VersionedAttributes, r *admissionv1.AdmissionRequest,
	v cel.OptionalVariableBindings, ns *corev1.Namespace, budget int64) (cel.EvaluationResult, int64, error) {
	result, left, err := m.MutatingEvaluator.ForInput(ctx, a, r, v, ns, budget)
	charge(ctx, budget, left)
	return result, left, err
}
