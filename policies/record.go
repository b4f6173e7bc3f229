package policies

import (
	"context"
	"errors"
	"fmt"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// The dispatchers return an error, and no more. The types in this file record what happens in
// between. They wrap what evaluates policies, and change only two things: what asks the authorizer is
// not judged, and custom resources are merged by the CRD of the request.

// attributes are those of one request. They record what is added to the audit log.
type attributes struct {
	admission.Attributes
	*record
}

// record is what happens to a request.
type record struct {
	result *Result
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

// question is an authorizer that records whether it was asked.
type question struct{ asked bool }

var errNotJudged = errors.New("the answer of the authorizer is not known without a server")

func (q *question) Authorize(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
	q.asked = true
	return authorizer.DecisionNoOpinion, "", errNotJudged
}

// recordedValidator records the decisions of a validating policy.
type recordedValidator struct{ policy *validatingPolicy }

func (v recordedValidator) validate(ctx context.Context, in *validation) validated {
	rec, p := recordOf(ctx), v.policy
	var q question
	rec.cost = 0
	judged := *in
	judged.authorizer = &q
	result := p.compiled().validate(ctx, &judged)
	// An error that is about no validation, such as that of a match condition, is the only result.
	evaluated := result.annotations != nil
	if q.asked {
		rec.unjudged(Unjudged{Policy: p.place(""), Name: p.Name, Binding: in.binding.Name, Reason: asksAuthorizer})
		if !evaluated || slices.ContainsFunc(p.Spec.MatchConditions, func(c admissionregistrationv1.MatchCondition) bool { return p.asks(c.Expression) }) {
			return validated{}
		}
		// What does not ask the authorizer is certain.
		for i := range result.decisions {
			if p.asks(p.Spec.Validations[i].Expression) {
				result.decisions[i] = decision{}
			}
		}
	}
	add := func(pointer, expression, message string, action Action, failed bool) {
		rec.result.Decisions = append(rec.result.Decisions, Decision{Policy: p.place(pointer), Name: p.Name,
			Binding: in.binding.Name, Action: action, Message: message, Param: nameOf(in.param), Failed: failed, Cost: rec.cost,
			Expression: expression, Fields: p.fields(expression)})
	}
	for i, d := range result.decisions {
		if !d.denied {
			continue
		}
		pointer, expression := "", ""
		if evaluated {
			pointer, expression = fmt.Sprintf("/spec/validations/%d/expression", i), p.Spec.Validations[i].Expression
		}
		for _, action := range in.binding.Spec.ValidationActions {
			message, as := d.message, Audit
			switch action {
			case admissionregistrationv1.Deny:
				message, as = denial(p.Name, in.binding.Name, d.message), Deny
			case admissionregistrationv1.Warn:
				message, as = warningOf(p.Name, in.binding.Name, d.message), Warn
			}
			add(pointer, expression, message, as, d.failed)
		}
	}
	for i, a := range result.annotations {
		if a.err != "" {
			add(fmt.Sprintf("/spec/auditAnnotations/%d/valueExpression", i), p.Spec.AuditAnnotations[i].ValueExpression,
				denial(p.Name, in.binding.Name, a.err), Deny, true)
		}
	}
	return result
}

// nameOf returns the name of a parameter.
func nameOf(param runtime.Object) string {
	m, ok := param.(metav1.Object)
	if !ok {
		return ""
	}
	if m.GetNamespace() != "" {
		return m.GetNamespace() + "/" + m.GetName()
	}
	return m.GetName()
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

// recordedMutator records what a mutating policy does.
type recordedMutator struct{ policy *mutatingPolicy }

func (m recordedMutator) size() int { return m.policy.compiled().size() }

func (m recordedMutator) matches(ctx context.Context, in *mutation, a *admission.VersionedAttributes, _ authorizer.UnconditionalAuthorizer) (bool, error) {
	var q question
	matches, err := m.policy.compiled().matches(ctx, in, a, &q)
	if q.asked {
		recordOf(ctx).unjudged(m.policy.unjudged(in.binding.Name))
		return false, nil
	}
	return matches, err
}

func (m recordedMutator) patch(ctx context.Context, in *mutation, i int, r patch.Request) (runtime.Object, error) {
	rec, p := recordOf(ctx), m.policy
	var q question
	r.OptionalVariables.Authorizer = &q
	if rec.types != nil {
		r.TypeConverter = rec.types // that of the CRD that the request names
	}
	before := r.VersionedAttributes.VersionedObject.Object()
	rec.cost = 0
	after, err := p.compiled().patch(ctx, in, i, r)
	if q.asked {
		rec.unjudged(p.unjudged(in.binding.Name))
		return before.DeepCopyObject(), nil
	}
	kind, expression := "jsonPatch", ""
	switch spec := &p.Spec.Mutations[i]; {
	case spec.JSONPatch != nil:
		expression = spec.JSONPatch.Expression
	case spec.ApplyConfiguration != nil:
		kind, expression = "applyConfiguration", spec.ApplyConfiguration.Expression
	}
	place := p.place(fmt.Sprintf("/spec/mutations/%d/%s/expression", i, kind))
	if err != nil {
		if message, ok := p.denial(in.binding.Name, err); ok {
			rec.result.Decisions = append(rec.result.Decisions, Decision{Policy: place, Name: p.Name, Binding: in.binding.Name,
				Mutating: true, Action: Deny, Message: message, Param: nameOf(in.param), Failed: true, Cost: rec.cost,
				Expression: expression, Fields: p.fields(expression)})
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
	done := Mutation{Policy: place, Name: p.Name, Binding: in.binding.Name, Param: nameOf(in.param), Paths: paths, Cost: rec.cost, Again: rec.again}
	if rec.settling {
		rec.result.Unsettled = append(rec.result.Unsettled, done)
	} else {
		rec.result.Mutations = append(rec.result.Mutations, done)
	}
	return after, nil
}

// denial returns the message of the API server about an error, and whether it rejects the request. The
// failure policy does not apply to errors that have a status.
func (p *mutatingPolicy) denial(binding string, err error) (message string, ok bool) {
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok {
		return causesOf(status)[0], true
	}
	if failureOf(p.Spec.FailurePolicy) == admissionregistrationv1.Ignore {
		return "", false
	}
	return mutatingDenial(p.Name, binding, err), true
}
