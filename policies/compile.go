package policies

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/cel/environment"

	"espalier.dev/schema/rules/bounds"
)

// The expressions of stored policies are compiled with the functions of all versions, because
// they were valid when they were stored.
const atStored = environment.StoredExpressions

// newCompiler returns a compiler that knows the variables of a policy.
func newCompiler(variables []admissionregistrationv1.Variable, known cel.OptionalVariableDeclarations) (*cel.CompositedCompiler, error) {
	c, err := cel.NewCompositedCompiler(bounds.EnvSet())
	if err != nil {
		return nil, err
	}
	named := make([]cel.NamedExpressionAccessor, len(variables))
	for i, v := range variables {
		named[i] = &validating.Variable{Name: v.Name, Expression: v.Expression}
	}
	c.CompileAndStoreVariables(named, known, atStored)
	return c, nil
}

// compileConditions compiles the match conditions of a policy. The result is nil if there are
// none.
func compileConditions(c *cel.CompositedCompiler, conditions []admissionregistrationv1.MatchCondition,
	known cel.OptionalVariableDeclarations, failure *admissionregistrationv1.FailurePolicyType, policy string) matchconditions.Matcher {
	if len(conditions) == 0 {
		return nil
	}
	list := make([]cel.ExpressionAccessor, len(conditions))
	for i := range conditions {
		list[i] = (*matchconditions.MatchCondition)(&conditions[i])
	}
	return matchconditions.NewMatcher(c.CompileCondition(list, known, atStored), failure, "policy", "validate", policy)
}

// compileValidating compiles a validating policy. Errors of expressions are those of their
// evaluation.
func compileValidating(p *validating.Policy, m meters) validating.Validator {
	known := cel.OptionalVariableDeclarations{HasParams: p.Spec.ParamKind != nil, HasAuthorizer: true}
	c, err := newCompiler(p.Spec.Variables, known)
	if err != nil {
		return validating.NewValidator(nil, nil, nil, nil, p.Spec.FailurePolicy, err)
	}
	validations := make([]cel.ExpressionAccessor, len(p.Spec.Validations))
	messages := make([]cel.ExpressionAccessor, len(p.Spec.Validations))
	for i, v := range p.Spec.Validations {
		validations[i] = &validating.ValidationCondition{Expression: v.Expression, Message: v.Message, Reason: v.Reason}
		if v.MessageExpression != "" {
			messages[i] = &validating.MessageExpressionCondition{MessageExpression: v.MessageExpression}
		}
	}
	annotations := make([]cel.ExpressionAccessor, len(p.Spec.AuditAnnotations))
	for i, a := range p.Spec.AuditAnnotations {
		annotations[i] = &validating.AuditAnnotationCondition{Key: a.Key, ValueExpression: a.ValueExpression}
	}
	// A message does not depend on what the user may do.
	inMessages := known
	inMessages.HasAuthorizer = false
	return validating.NewValidator(
		m.condition(c.CompileCondition(validations, known, atStored)),
		compileConditions(c, p.Spec.MatchConditions, known, p.Spec.FailurePolicy, p.Name),
		c.CompileCondition(annotations, known, atStored),
		m.condition(c.CompileCondition(messages, inMessages, atStored)),
		p.Spec.FailurePolicy, nil)
}

// compileMutating compiles a mutating policy.
func compileMutating(p *mutating.Policy, m meters) mutating.PolicyEvaluator {
	known := cel.OptionalVariableDeclarations{HasParams: p.Spec.ParamKind != nil, HasAuthorizer: true}
	c, err := newCompiler(p.Spec.Variables, known)
	if err != nil {
		return mutating.PolicyEvaluator{Error: err}
	}
	e := mutating.PolicyEvaluator{CompositedCompiler: c, Matcher: compileConditions(c,
		p.Spec.MatchConditions, known, p.Spec.FailurePolicy, p.Name)}
	known.HasPatchTypes = true
	for _, mutation := range p.Spec.Mutations {
		switch {
		case mutation.PatchType == admissionregistrationv1.PatchTypeJSONPatch && mutation.JSONPatch != nil:
			e.Mutators = append(e.Mutators, patch.NewJSONPatcher(m.mutation(c.CompileMutatingEvaluator(
				&patch.JSONPatchCondition{Expression: mutation.JSONPatch.Expression}, known, atStored))))
		case mutation.PatchType == admissionregistrationv1.PatchTypeApplyConfiguration && mutation.ApplyConfiguration != nil:
			e.Mutators = append(e.Mutators, patch.NewApplyConfigurationPatcher(m.mutation(c.CompileMutatingEvaluator(
				&patch.ApplyConfigurationCondition{Expression: mutation.ApplyConfiguration.Expression}, known, atStored))))
		}
	}
	return e
}
