package policies

import (
	"context"
	"time"

	"k8s.io/apiserver/pkg/admission"
)

// Observer is told what policies do, for metrics.
type Observer interface {
	// Validated is called for each action of a failed validation, and Mutated for each mutation.
	Validated(context.Context, Check)
	Mutated(context.Context, Check)
	// Unmatched is called when the match conditions of a policy did not match or failed, and
	// ConditionFailed for each condition that could not be evaluated.
	Unmatched(ctx context.Context, policy string, operation admission.Operation, elapsed time.Duration)
	ConditionFailed(ctx context.Context, policy string, operation admission.Operation)
}

// Check is the result of one expression of a policy.
type Check struct {
	Policy, Binding string
	// Action is empty if nothing follows: the mutation succeeded, or the error of a validation is
	// ignored.
	Action  Action
	Elapsed time.Duration
	// Message is that of the failed validation or of the error.
	Message string
}

// unobserved is an Observer that ignores everything.
type unobserved struct{}

func (unobserved) Validated(context.Context, Check)                                      {}
func (unobserved) Mutated(context.Context, Check)                                        {}
func (unobserved) Unmatched(context.Context, string, admission.Operation, time.Duration) {}
func (unobserved) ConditionFailed(context.Context, string, admission.Operation)          {}
