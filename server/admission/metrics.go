package admission

import (
	"context"
	"strings"
	"time"

	"k8s.io/apiserver/pkg/admission"
	admissionmetrics "k8s.io/apiserver/pkg/admission/metrics"
	mutatingmetrics "k8s.io/apiserver/pkg/admission/plugin/policy/mutating/metrics"
	validatingmetrics "k8s.io/apiserver/pkg/admission/plugin/policy/validating/metrics"

	"espalier.dev/policies"
)

// observer counts what policies do in the metrics of k8s.io/apiserver.
type observer struct{}

// failureOf returns why an expression failed, as the metrics name it.
func failureOf[T any](message string, compile, budget, other T) T {
	switch {
	case strings.HasPrefix(message, "compilation"):
		return compile
	case strings.HasPrefix(message, "validation failed due to running out of cost budget"):
		return budget
	}
	return other
}

// Validated implements [policies.Observer].
func (observer) Validated(ctx context.Context, c policies.Check) {
	m := validatingmetrics.Metrics
	observe := m.ObserveAdmission
	switch c.Action {
	case policies.Deny:
		observe = m.ObserveRejection
	case policies.Warn:
		observe = m.ObserveWarn
	case policies.Audit:
		observe = m.ObserveAudit
	}
	observe(ctx, c.Elapsed, c.Policy, c.Binding, failureOf(c.Message, validatingmetrics.ValidationCompileError,
		validatingmetrics.ValidatingOutOfBudget, validatingmetrics.ValidatingInvalidError))
}

// Mutated implements [policies.Observer].
func (observer) Mutated(ctx context.Context, c policies.Check) {
	if c.Action == "" {
		mutatingmetrics.Metrics.ObserveAdmission(ctx, c.Elapsed, c.Policy, c.Binding, mutatingmetrics.MutationNoError)
		return
	}
	mutatingmetrics.Metrics.ObserveRejection(ctx, c.Elapsed, c.Policy, c.Binding, failureOf(c.Message,
		mutatingmetrics.MutationCompileError, mutatingmetrics.MutatingOutOfBudget, mutatingmetrics.MutatingInvalidError))
}

// The kind and type that k8s.io/apiserver gives to the match conditions of all policies.
const conditionKind, conditionType = "policy", "validate"

// Unmatched implements [policies.Observer].
func (observer) Unmatched(ctx context.Context, policy string, operation admission.Operation, elapsed time.Duration) {
	admissionmetrics.Metrics.ObserveMatchConditionEvaluationTime(ctx, elapsed, policy, conditionKind, conditionType, string(operation))
}

// ConditionFailed implements [policies.Observer].
func (observer) ConditionFailed(ctx context.Context, policy string, operation admission.Operation) {
	admissionmetrics.Metrics.ObserveMatchConditionEvalError(ctx, policy, conditionKind, conditionType, string(operation))
}
