package policies

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	"k8s.io/apiserver/pkg/cel/environment"

	"espalier.dev/kinds/admissionregistration"
	kindscel "espalier.dev/kinds/cel"
	"espalier.dev/schema/rules/bounds"
)

// The expressions of stored policies are compiled with the functions of all versions, because
// they were valid when they were stored.
const atStored = environment.StoredExpressions

// accessor returns an expression for a purpose.
func accessor(purpose admissionregistration.Purpose, text string) cel.ExpressionAccessor {
	return kindscel.Accessor(admissionregistration.Expression{Purpose: purpose, Text: text})
}

// newCompiler returns a compiler that knows the variables of a policy.
func newCompiler(variables []admissionregistrationv1.Variable, known cel.OptionalVariableDeclarations) (*cel.CompositedCompiler, error) {
	c, err := kindscel.NewComposition(bounds.EnvSet())
	if err != nil {
		return nil, err
	}
	named := make([]cel.NamedExpressionAccessor, len(variables))
	for i, v := range variables {
		named[i] = kindscel.Variable(v.Name, v.Expression)
	}
	c.CompileAndStoreVariables(named, known, atStored)
	return c, nil
}

// compileValidating compiles a validating policy. Errors of expressions are those of their
// evaluation.
func compileValidating(p *ValidatingPolicy, m meters, o Observer) Validator {
	known := cel.OptionalVariableDeclarations{HasParams: p.Spec.ParamKind != nil, HasAuthorizer: true}
	c, err := newCompiler(p.Spec.Variables, known)
	if err != nil {
		return &validator{policy: p, err: err}
	}
	validations := make([]cel.ExpressionAccessor, len(p.Spec.Validations))
	messages := make([]cel.ExpressionAccessor, len(p.Spec.Validations))
	for i, v := range p.Spec.Validations {
		validations[i] = accessor(admissionregistration.Validation, v.Expression)
		if v.MessageExpression != "" {
			messages[i] = accessor(admissionregistration.Message, v.MessageExpression)
		}
	}
	annotations := make([]cel.ExpressionAccessor, len(p.Spec.AuditAnnotations))
	for i, a := range p.Spec.AuditAnnotations {
		annotations[i] = accessor(admissionregistration.AuditValue, a.ValueExpression)
	}
	// A message does not depend on what the user may do.
	inMessages := known
	inMessages.HasAuthorizer = false
	return &validator{
		policy:      p,
		conditions:  newConditions(c, p.Spec.MatchConditions, known, p.Spec.FailurePolicy, p.Name, o),
		validations: m.condition(c.CompileCondition(validations, known, atStored)),
		messages:    m.condition(c.CompileCondition(messages, inMessages, atStored)),
		annotations: c.CompileCondition(annotations, known, atStored),
	}
}

// compileMutating compiles a mutating policy.
func compileMutating(p *MutatingPolicy, m meters, o Observer) Mutator {
	known := cel.OptionalVariableDeclarations{HasParams: p.Spec.ParamKind != nil, HasAuthorizer: true}
	c, err := newCompiler(p.Spec.Variables, known)
	if err != nil {
		return &mutator{} // the dispatcher reports that mutations are missing
	}
	compiled := &mutator{compiler: c, conditions: newConditions(c, p.Spec.MatchConditions, known, p.Spec.FailurePolicy, p.Name, o)}
	known.HasPatchTypes = true
	for _, mutation := range p.Spec.Mutations {
		switch {
		case mutation.PatchType == admissionregistrationv1.PatchTypeJSONPatch && mutation.JSONPatch != nil:
			compiled.patchers = append(compiled.patchers, patch.NewJSONPatcher(m.mutation(c.CompileMutatingEvaluator(
				accessor(admissionregistration.JSONPatch, mutation.JSONPatch.Expression), known, atStored))))
		case mutation.PatchType == admissionregistrationv1.PatchTypeApplyConfiguration && mutation.ApplyConfiguration != nil:
			compiled.patchers = append(compiled.patchers, patch.NewApplyConfigurationPatcher(m.mutation(c.CompileMutatingEvaluator(
				accessor(admissionregistration.ApplyConfiguration, mutation.ApplyConfiguration.Expression), known, atStored))))
		}
	}
	return compiled
}
