package policies

import (
	"context"
	"errors"
	"fmt"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/policy/generic"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// The dispatchers return an error, and no more. The types in this file record what happens in
// between. They wrap what evaluates policies, and change only one thing: what asks the authorizer is
// not judged.

// attributes are those of one request. They record what is added to the audit log.
type attributes struct {
	admission.Attributes
	*record
}

// record is what happens to a request.
type record struct {
	result *Result
	// binding is the name of the binding for which a validating policy is evaluated.
	binding string
	// again is set while mutating policies are applied again, and settling while it is tried
	// whether they would change their own result.
	again, settling bool
	// types are those of the CRD of the object, or nil for one of Kubernetes' own kinds.
	types managedfields.TypeConverter
	// cost is that of the expressions since it was set to zero.
	cost int64
}

func (a *attributes) AddAnnotation(key, value string) error {
	if a.result.Annotations == nil {
		a.result.Annotations = map[string]string{}
	}
	a.result.Annotations[key] = value
	return nil
}

func (a *attributes) AddAnnotationWithLevel(key, value string, _ auditinternal.Level) error {
	return a.AddAnnotation(key, value)
}

// AddWarning implements the recorder of warnings for the client, which gets each of them once.
func (r *record) AddWarning(_, text string) {
	if text != "" && !slices.Contains(r.result.Warnings, text) {
		r.result.Warnings = append(r.result.Warnings, text)
	}
}

type recordKey struct{}

func withRecord(ctx context.Context, r *record) context.Context {
	return context.WithValue(ctx, recordKey{}, r)
}

func recordOf(ctx context.Context) *record { return ctx.Value(recordKey{}).(*record) }

// bindingMatcher records the binding before its policy is evaluated.
type bindingMatcher struct{ generic.PolicyMatcher }

func (m bindingMatcher) BindingMatches(a admission.Attributes, o admission.ObjectInterfaces, b generic.BindingAccessor) (bool, error) {
	if recorded, ok := a.(*attributes); ok {
		recorded.binding = b.GetName()
	}
	return m.PolicyMatcher.BindingMatches(a, o, b)
}

// question is an authorizer that records whether it was asked.
type question struct{ asked bool }

var errNotJudged = errors.New("the answer of the authorizer is not known without a server")

func (q *question) Authorize(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
	q.asked = true
	return authorizer.DecisionNoOpinion, "", errNotJudged
}

// recordedValidator records the decisions of a validating policy.
type recordedValidator struct {
	validating.Validator
	policy   *validatingPolicy
	bindings map[string]*validating.PolicyBinding
}

func (v *recordedValidator) Validate(ctx context.Context, resource runtimeschema.GroupVersionResource, a *admission.VersionedAttributes,
	params runtime.Object, namespace *corev1.Namespace, budget int64, _ authorizer.UnconditionalAuthorizer) validating.ValidateResult {
	rec := recordOf(ctx)
	var q question
	rec.cost = 0
	result := v.policy.compiled().Validate(ctx, resource, a, params, namespace, budget, &q)
	// An error that is about no validation, such as that of a match condition, is the only result.
	// Annotations are made after the validations, possibly none.
	evaluated := result.AuditAnnotations != nil
	if q.asked {
		rec.unjudged(Unjudged{Policy: v.policy.place(""), Name: v.policy.Name, Binding: rec.binding, Reason: asksAuthorizer})
		if !evaluated || slices.ContainsFunc(v.policy.Spec.MatchConditions, func(c admissionregistrationv1.MatchCondition) bool { return v.policy.asks(c.Expression) }) {
			return validating.ValidateResult{}
		}
		// What does not ask the authorizer is certain.
		for i := range result.Decisions {
			if v.policy.asks(v.policy.Spec.Validations[i].Expression) {
				result.Decisions[i] = validating.PolicyDecision{Action: validating.ActionAdmit}
			}
		}
	}
	binding := v.bindings[rec.binding]
	add := func(pointer, expression, message string, action Action, failed bool) {
		rec.result.Decisions = append(rec.result.Decisions, Decision{Policy: v.policy.place(pointer), Name: v.policy.Name,
			Binding: rec.binding, Action: action, Message: message, Param: nameOf(params), Failed: failed, Cost: rec.cost,
			Expression: expression, Fields: v.policy.fields(expression)})
	}
	for i, d := range result.Decisions {
		if d.Action != validating.ActionDeny || binding == nil {
			continue
		}
		pointer, expression := "", ""
		if evaluated {
			pointer, expression = fmt.Sprintf("/spec/validations/%d/expression", i), v.policy.Spec.Validations[i].Expression
		}
		for _, action := range binding.Spec.ValidationActions {
			message, as := d.Message, Audit
			switch action {
			case "Deny":
				message, as = denial(v.policy.Name, rec.binding, d.Message), Deny
			case "Warn":
				message, as = fmt.Sprintf("Validation failed for ValidatingAdmissionPolicy '%s' with binding '%s': %s", v.policy.Name, rec.binding, d.Message), Warn
			}
			add(pointer, expression, message, as, d.Evaluation == validating.EvalError)
		}
	}
	for i, a := range result.AuditAnnotations {
		if a.Action == validating.AuditAnnotationActionError {
			add(fmt.Sprintf("/spec/auditAnnotations/%d/valueExpression", i), v.policy.Spec.AuditAnnotations[i].ValueExpression,
				denial(v.policy.Name, rec.binding, a.Error), Deny, true)
		}
	}
	return result
}

// denial returns the message of the API server for a denied request.
func denial(policy, binding, message string) string {
	return fmt.Sprintf("ValidatingAdmissionPolicy '%s' with binding '%s' denied request: %s", policy, binding, message)
}

// nameOf returns the name of a parameter.
func nameOf(params runtime.Object) string {
	if params == nil {
		return ""
	}
	m, err := meta.Accessor(params)
	if err != nil {
		return "" // a wrapper of k8s.io/apiserver
	}
	if m.GetNamespace() != "" {
		return m.GetNamespace() + "/" + m.GetName()
	}
	return m.GetName()
}

// recorded returns what applies a mutating policy for one binding, and records it.
func (p *mutatingPolicy) recorded(binding string) mutating.PolicyEvaluator {
	e := p.compiled()
	if e.Matcher != nil {
		e.Matcher = recordedMatcher{e.Matcher, p, binding}
	}
	mutators := make([]patch.Patcher, len(e.Mutators))
	for i, m := range e.Mutators {
		mutators[i] = recordedPatcher{m, p, binding, i}
	}
	e.Mutators = mutators
	return e
}

// recordedMatcher evaluates the match conditions of a mutating policy.
type recordedMatcher struct {
	matchconditions.Matcher
	policy  *mutatingPolicy
	binding string
}

func (m recordedMatcher) Match(ctx context.Context, a *admission.VersionedAttributes, params runtime.Object,
	_ authorizer.UnconditionalAuthorizer) matchconditions.MatchResult {
	var q question
	result := m.Matcher.Match(ctx, a, params, &q)
	if q.asked {
		recordOf(ctx).unjudged(m.policy.unjudged(m.binding))
		return matchconditions.MatchResult{}
	}
	return result
}

// asksAuthorizer is why an expression is not judged.
const asksAuthorizer = "asks the authorizer"

// unjudged records something that cannot be judged. Policies may be applied twice.
func (r *record) unjudged(u Unjudged) {
	if !slices.Contains(r.result.Unjudged, u) {
		r.result.Unjudged = append(r.result.Unjudged, u)
	}
}

// unjudged returns the policy as one that asks the authorizer.
func (p *mutatingPolicy) unjudged(binding string) Unjudged {
	return Unjudged{Policy: p.place(""), Name: p.Name, Binding: binding, Mutating: true, Reason: asksAuthorizer}
}

// recordedPatcher applies one mutation of a policy.
type recordedPatcher struct {
	patch.Patcher
	policy  *mutatingPolicy
	binding string
	index   int
}

func (m recordedPatcher) Patch(ctx context.Context, r patch.Request, budget int64) (runtime.Object, error) {
	rec := recordOf(ctx)
	var q question
	params := r.OptionalVariables.VersionedParams
	r.OptionalVariables.Authorizer = &q
	if rec.types != nil {
		r.TypeConverter = rec.types // that of the CRD that the request names
	}
	before := r.VersionedAttributes.VersionedObject.Object()
	rec.cost = 0
	after, err := m.Patcher.Patch(ctx, r, budget)
	if q.asked {
		rec.unjudged(m.policy.unjudged(m.binding))
		return before.DeepCopyObject(), nil
	}
	mutation := m.policy.Spec.Mutations[m.index]
	kind, expression := "jsonPatch", ""
	switch {
	case mutation.JSONPatch != nil:
		expression = mutation.JSONPatch.Expression
	case mutation.ApplyConfiguration != nil:
		kind, expression = "applyConfiguration", mutation.ApplyConfiguration.Expression
	}
	place := m.policy.place(fmt.Sprintf("/spec/mutations/%d/%s/expression", m.index, kind))
	if err != nil {
		if message, ok := m.denial(err); ok {
			rec.result.Decisions = append(rec.result.Decisions, Decision{Policy: place, Name: m.policy.Name, Binding: m.binding,
				Mutating: true, Action: Deny, Message: message, Param: nameOf(params), Failed: true, Cost: rec.cost,
				Expression: expression, Fields: m.policy.fields(expression)})
		}
		return nil, err
	}
	paths, differ := changed(before, after)
	if differ != nil {
		return nil, differ
	}
	if len(paths) == 0 {
		return after, nil
	}
	done := Mutation{Policy: place, Name: m.policy.Name, Binding: m.binding, Param: nameOf(params), Paths: paths, Cost: rec.cost, Again: rec.again}
	if rec.settling {
		rec.result.Unsettled = append(rec.result.Unsettled, done)
	} else {
		rec.result.Mutations = append(rec.result.Mutations, done)
	}
	return after, nil
}

// denial returns the message of the API server about an error, and whether it rejects the request. The
// failure policy does not apply to errors that have a status.
func (m recordedPatcher) denial(err error) (message string, ok bool) {
	var status *apierrors.StatusError
	if errors.As(err, &status) {
		return causesOf(status)[0], true
	}
	p := mutating.NewMutatingAdmissionPolicyAccessor(m.policy.Policy)
	if failure := p.GetFailurePolicy(); failure != nil && *failure == admissionregistrationv1.Ignore {
		return "", false
	}
	return generic.PolicyError{Policy: p, Binding: namedBinding{name: m.binding}, Message: err}.Error(), true
}

// namedBinding is a binding of which only the name is known.
type namedBinding struct {
	generic.BindingAccessor
	name string
}

func (b namedBinding) GetName() string { return b.name }
