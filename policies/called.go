package policies

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// webhook is a webhook of a configuration.
type webhook struct {
	source
	position      int
	configuration string
	mutating      bool
	// name and what follows are what decides whether the webhook is called.
	name                              string
	rules                             []admissionregistrationv1.RuleWithOperations
	matchPolicy                       *admissionregistrationv1.MatchPolicyType
	namespaceSelector, objectSelector *metav1.LabelSelector
	// conditions compiles the match conditions on first use.
	conditions func() *conditions
}

// addWebhooks adds the webhooks of a configuration.
func (e *Evaluator) addWebhooks(d *decoded) {
	name := d.object.GetName()
	switch c := d.object.(type) {
	case *admissionregistrationv1.MutatingWebhookConfiguration:
		for i := range c.Webhooks {
			h := &c.Webhooks[i]
			e.webhooks = append(e.webhooks, &webhook{source{index: d.index}, i, name, true, h.Name, h.Rules, h.MatchPolicy,
				h.NamespaceSelector, h.ObjectSelector, e.lazyConditions(h.Name, h.MatchConditions, h.FailurePolicy)})
		}
	case *admissionregistrationv1.ValidatingWebhookConfiguration:
		for i := range c.Webhooks {
			h := &c.Webhooks[i]
			e.webhooks = append(e.webhooks, &webhook{source{index: d.index}, i, name, false, h.Name, h.Rules, h.MatchPolicy,
				h.NamespaceSelector, h.ObjectSelector, e.lazyConditions(h.Name, h.MatchConditions, h.FailurePolicy)})
		}
	}
}

// lazyConditions compiles the match conditions of a webhook on first use.
func (e *Evaluator) lazyConditions(name string, list []admissionregistrationv1.MatchCondition, failure *admissionregistrationv1.FailurePolicyType) func() *conditions {
	return sync.OnceValue(func() *conditions {
		return newConditions(e.conditionCompiler(), list, cel.OptionalVariableDeclarations{HasAuthorizer: true}, failure, name, unobserved{})
	})
}

// called reports whether a webhook is called for a request. The error is the one with which the API
// server rejects the request.
func (w *webhook) called(ctx context.Context, m *Matcher, v *versions, authz authorizer.UnconditionalAuthorizer) (bool, *apierrors.StatusError) {
	selected, unselectable := m.selects(ctx, v.Attributes, w.namespaceSelector, w.objectSelector)
	if !selected {
		return false, nil
	}
	found, err := w.match(v.Attributes, v.o)
	switch {
	case err != nil:
		return false, apierrors.NewInternalError(err)
	case found == nil:
		return false, nil
	case unselectable != nil:
		return false, unselectable
	}
	conditions := w.conditions()
	if conditions == nil {
		return true, nil
	}
	a, err := v.version(found.kind)
	if err != nil {
		return false, apierrors.NewInternalError(err)
	}
	matches, err := conditions.match(ctx, a, nil, authz)
	if err != nil {
		return false, apierrors.NewForbidden(v.GetResource().GroupResource(), v.GetName(), err)
	}
	return matches, nil
}

// match returns what the first rule of a webhook matches that applies to a request, or nil.
func (w *webhook) match(a admission.Attributes, o admission.ObjectInterfaces) (*match, error) {
	for _, r := range w.rules {
		if applies(r, a) {
			return &match{a.GetResource(), a.GetKind()}, nil
		}
	}
	if w.matchPolicy == nil || *w.matchPolicy != admissionregistrationv1.Equivalent {
		return nil, nil
	}
	return matchEquivalent(a, o, len(w.rules), func(i int) admissionregistrationv1.RuleWithOperations { return w.rules[i] }, func(int) bool { return true })
}

// versions converts the object of a request to the version that a webhook asks for.
type versions struct {
	admission.Attributes
	o    admission.ObjectInterfaces
	made map[runtimeschema.GroupVersionKind]*admission.VersionedAttributes
	// unconverted is why the object could not be converted since it was set to nothing.
	unconverted string
}

// version returns the object in a version.
func (v *versions) version(gvk runtimeschema.GroupVersionKind) (*admission.VersionedAttributes, error) {
	if a := v.made[gvk]; a != nil {
		return a, nil
	}
	a, err := admission.NewVersionedAttributes(v.Attributes, gvk, v.o)
	switch {
	case err == nil:
		v.made[gvk] = a
	case errors.Is(err, errWebhook):
		v.unconverted = needsConversion(gvk)
	}
	return a, err
}

// callWebhooks finds the webhooks that the API server calls for a request. It returns the error of
// the first match condition for which it rejects the request. Mutating webhooks are called one after
// the other, and validating ones when all match conditions have been evaluated.
func (e *Evaluator) callWebhooks(ctx context.Context, r Request, s subject, rec *record, mutating bool) error {
	var v *versions
	for _, w := range e.webhooks {
		if w.mutating != mutating {
			continue
		}
		if v == nil {
			a := e.attributes(r, s, rec)
			if rules.IsExemptAdmissionConfigurationResource(a) {
				return nil
			}
			v = &versions{Attributes: a, o: s.interfaces(), made: map[runtimeschema.GroupVersionKind]*admission.VersionedAttributes{}}
		}
		var q question
		called, status := w.called(ctx, e.matcher, v, &q)
		place := w.place(fmt.Sprintf("/webhooks/%d", w.position))
		switch {
		case q.asked, v.unconverted != "":
			reason := asksAuthorizer
			if v.unconverted != "" {
				reason, v.unconverted = v.unconverted, ""
			}
			rec.unjudged(Unjudged{Policy: place, Name: w.configuration, Webhook: w.name, Mutating: mutating, Reason: reason})
		case status != nil:
			rec.result.Webhooks = append(slices.DeleteFunc(rec.result.Webhooks, func(w Webhook) bool { return !w.Mutating }),
				Webhook{Place: place, Configuration: w.configuration, Name: w.name, Mutating: mutating, Err: status})
			return status
		case called:
			rec.result.Webhooks = append(rec.result.Webhooks, Webhook{Place: place, Configuration: w.configuration, Name: w.name, Mutating: mutating})
		}
	}
	return nil
}
