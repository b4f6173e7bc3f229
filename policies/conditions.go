package policies

import (
	"context"
	"time"

	celtypes "github.com/google/cel-go/common/types"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"espalier.dev/kinds/admissionregistration"
)

// conditions are the match conditions of a policy or a webhook.
type conditions struct {
	evaluator cel.ConditionEvaluator
	failure   admissionregistrationv1.FailurePolicyType
	// name is that of the policy, for metrics.
	name     string
	observer Observer
}

// newConditions compiles match conditions. The result is nil if there are none.
func newConditions(c cel.ConditionCompiler, list []admissionregistrationv1.MatchCondition, known cel.OptionalVariableDeclarations,
	failure *admissionregistrationv1.FailurePolicyType, name string, o Observer) *conditions {
	if len(list) == 0 {
		return nil
	}
	expressions := make([]cel.ExpressionAccessor, len(list))
	for i := range list {
		expressions[i] = accessor(admissionregistration.MatchCondition, list[i].Expression)
	}
	return &conditions{c.CompileCondition(expressions, known, atStored), failureOf(failure), name, o}
}

// failureOf returns a failure policy or its default.
func failureOf(p *admissionregistrationv1.FailurePolicyType) admissionregistrationv1.FailurePolicyType {
	if p == nil {
		return admissionregistrationv1.Fail
	}
	return *p
}

// match reports whether all conditions are true. One that is false decides, even if others cannot be
// evaluated. It returns an error only if the failure policy is Fail.
func (c *conditions) match(ctx context.Context, a *admission.VersionedAttributes, params runtime.Object, authz authorizer.UnconditionalAuthorizer) (bool, error) {
	if c == nil {
		return true, nil
	}
	start := time.Now()
	request := cel.CreateAdmissionRequest(a.Attributes, metav1.GroupVersionResource(a.GetResource()), metav1.GroupVersionKind(a.VersionedKind))
	results, _, err := c.evaluator.ForInput(ctx, a, request, cel.OptionalVariableBindings{VersionedParams: params, Authorizer: authz},
		nil, celconfig.RuntimeCELCostBudgetMatchConditions)
	var errs []error
	if err != nil {
		errs = append(errs, err)
	}
	for _, r := range results {
		if r.Error != nil {
			errs = append(errs, r.Error)
			c.observer.ConditionFailed(ctx, c.name, a.GetOperation())
		}
		if r.EvalResult == celtypes.False {
			c.observer.Unmatched(ctx, c.name, a.GetOperation(), time.Since(start))
			return false, nil
		}
	}
	if len(errs) == 0 {
		return true, nil
	}
	c.observer.Unmatched(ctx, c.name, a.GetOperation(), time.Since(start))
	switch c.failure {
	case admissionregistrationv1.Ignore:
		return false, nil
	case admissionregistrationv1.Fail:
		if err != nil {
			return false, err
		}
		return false, utilerrors.NewAggregate(errs)
	}
	return true, nil
}
