package policies

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	celtypes "github.com/google/cel-go/common/types"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/klog/v2"
)

// Validator evaluates a validating policy.
type Validator interface {
	validate(context.Context, *validation) validated
}

// validation is the evaluation of a validating policy for a binding and a parameter.
type validation struct {
	binding    *ValidatingBinding
	resource   runtimeschema.GroupVersionResource
	attributes *admission.VersionedAttributes
	param      runtime.Object
	namespace  *corev1.Namespace
	authorizer authorizer.UnconditionalAuthorizer
}

// validated is the result of a validation. If the validations were not evaluated, because match
// conditions do not match or something failed before, annotations are nil.
type validated struct {
	decisions   []decision
	annotations []annotation
}

// decision is the verdict of one validation.
type decision struct {
	denied bool
	// failed is set if the validation could not be evaluated.
	failed  bool
	message string
	reason  metav1.StatusReason
	elapsed time.Duration
}

// annotation is the result of one audit annotation. It is published if it has a value.
type annotation struct {
	key, value string
	// err is the error that denies the request, or empty.
	err     string
	elapsed time.Duration
}

// validator evaluates a compiled policy.
type validator struct {
	policy     *ValidatingPolicy
	conditions *conditions
	// validations, messages and annotations have the expressions of the policy. Those of messages
	// may be missing.
	validations, messages, annotations cel.ConditionEvaluator
	// err is why the policy could not be compiled, or nil.
	err error
}

// failed returns the result of a policy that cannot be evaluated.
func (v *validator) failed(err error) validated {
	return validated{decisions: []decision{v.failure(err.Error(), 0)}}
}

// failure returns the decision about something that cannot be evaluated.
func (v *validator) failure(message string, elapsed time.Duration) decision {
	return decision{denied: !v.ignoresFailures(), failed: true, message: message, elapsed: elapsed}
}

func (v *validator) ignoresFailures() bool {
	return failureOf(v.policy.Spec.FailurePolicy) == admissionregistrationv1.Ignore
}

func (v *validator) validate(ctx context.Context, in *validation) validated {
	if v.err != nil {
		return v.failed(v.err)
	}
	matches, err := v.conditions.match(ctx, in.attributes, in.param, in.authorizer)
	if err != nil {
		return v.failed(err)
	}
	if !matches {
		return validated{}
	}
	request := cel.CreateAdmissionRequest(in.attributes.Attributes, metav1.GroupVersionResource(in.resource), metav1.GroupVersionKind(in.attributes.VersionedKind))
	namespace := cel.CreateNamespaceObject(in.namespace)
	// Only validations may ask the authorizer.
	vars := cel.OptionalVariableBindings{VersionedParams: in.param}
	withAuthorizer := vars
	withAuthorizer.Authorizer = in.authorizer
	results, left, err := v.validations.ForInput(ctx, in.attributes, request, withAuthorizer, namespace, celconfig.RuntimeCELCostBudget)
	if err != nil {
		return v.failed(err)
	}
	// Messages share the budget of the validations.
	messages, _, err := v.messages.ForInput(ctx, in.attributes, request, vars, namespace, left)
	var out validated
	for i, r := range results {
		var message *cel.EvaluationResult
		if i < len(messages) {
			message = &messages[i]
		}
		out.decisions = append(out.decisions, v.decide(i, r, message, err))
	}
	// Audit annotations have a budget of their own, and see the whole namespace.
	values, _, err := v.annotations.ForInput(ctx, in.attributes, request, vars, in.namespace, celconfig.RuntimeCELCostBudget)
	if err != nil {
		return v.failed(err)
	}
	out.annotations = make([]annotation, len(values))
	for i, r := range values {
		out.annotations[i] = v.annotate(i, r)
	}
	return out
}

// decide returns the verdict of the validation at an index. unmessaged is why no message could be
// evaluated, or nil.
func (v *validator) decide(i int, r cel.EvaluationResult, message *cel.EvaluationResult, unmessaged error) decision {
	switch {
	case r.Error != nil:
		return v.failure(r.Error.Error(), r.Elapsed)
	case errors.Is(unmessaged, apiservercel.ErrInternal) || errors.Is(unmessaged, apiservercel.ErrOutOfBudget):
		return v.failure(fmt.Sprintf("failed messageExpression: %s", unmessaged), r.Elapsed)
	case r.EvalResult == celtypes.True:
		return decision{elapsed: r.Elapsed}
	}
	validation := &v.policy.Spec.Validations[i]
	d := decision{denied: true, message: evaluatedMessage(message), reason: metav1.StatusReasonInvalid, elapsed: r.Elapsed}
	if validation.Reason != nil {
		d.reason = *validation.Reason
	}
	if d.message == "" {
		d.message = strings.TrimSpace(validation.Message)
	}
	if d.message == "" {
		d.message = fmt.Sprintf("failed expression: %v", strings.TrimSpace(validation.Expression))
	}
	return d
}

// evaluatedMessage returns the message of a messageExpression, or "" if it has none that can be used.
func evaluatedMessage(r *cel.EvaluationResult) string {
	if r == nil {
		return ""
	}
	if r.Error != nil {
		klog.V(2).ErrorS(r.Error, "messageExpression failed")
		return ""
	}
	if r.EvalResult == nil {
		return ""
	}
	message, _ := r.EvalResult.Value().(string)
	message = strings.TrimSpace(message)
	if len(message) > celconfig.MaxEvaluatedMessageExpressionSizeBytes || strings.Contains(message, "\n") {
		klog.V(2).InfoS("The result of a messageExpression is too long or has several lines", "message", message)
		return ""
	}
	return message
}

// annotate returns the audit annotation at an index.
func (v *validator) annotate(i int, r cel.EvaluationResult) annotation {
	spec := &v.policy.Spec.AuditAnnotations[i]
	a := annotation{key: spec.Key, elapsed: r.Elapsed}
	if r.Error != nil {
		if !v.ignoresFailures() {
			a.err = r.Error.Error()
		}
		return a
	}
	switch r.EvalResult.Type() {
	case celtypes.StringType:
		a.value = strings.TrimSpace(r.EvalResult.Value().(string))
	case celtypes.NullType:
	default:
		a.err = fmt.Sprintf("valueExpression '%v' resulted in unsupported return type: %v. Return type must be either string or null.",
			spec.ValueExpression, r.EvalResult.Type())
	}
	return a
}
