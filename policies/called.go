package policies

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	webhookplugin "k8s.io/apiserver/pkg/admission/plugin/webhook"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// webhook is a webhook of a configuration.
type webhook struct {
	source
	position          int
	configuration     string
	mutating          bool
	accessor          webhookplugin.WebhookAccessor
	namespaceSelector *metav1.LabelSelector
}

// addWebhooks adds the webhooks of a configuration.
func (e *Evaluator) addWebhooks(d *decoded) {
	name := d.object.GetName()
	switch c := d.object.(type) {
	case *admissionregistrationv1.MutatingWebhookConfiguration:
		for i := range c.Webhooks {
			h := &c.Webhooks[i]
			e.webhooks = append(e.webhooks, &webhook{source{index: d.index}, i, name, true,
				webhookplugin.NewMutatingWebhookAccessor(fmt.Sprintf("%s/%d", name, i), name, h), h.NamespaceSelector})
		}
	case *admissionregistrationv1.ValidatingWebhookConfiguration:
		for i := range c.Webhooks {
			h := &c.Webhooks[i]
			e.webhooks = append(e.webhooks, &webhook{source{index: d.index}, i, name, false,
				webhookplugin.NewValidatingWebhookAccessor(fmt.Sprintf("%s/%d", name, i), name, h), h.NamespaceSelector})
		}
	}
}

// webhookPlugins returns the plugins of webhooks, which are made on first use.
func (e *Evaluator) webhookPlugins() (mutating, validating func() (*Webhooks, error)) {
	return sync.OnceValues(func() (*Webhooks, error) { return NewMutatingWebhooks(nil, e.objects, asked{}) }),
		sync.OnceValues(func() (*Webhooks, error) { return NewValidatingWebhooks(nil, e.objects, asked{}) })
}

// asked is an authorizer that finds the question of a request in its context.
type asked struct{}

type questionKey struct{}

func (asked) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if q, ok := ctx.Value(questionKey{}).(*question); ok {
		return q.Authorize(ctx, a)
	}
	return authorizer.DecisionNoOpinion, "", errNotJudged
}

// versions converts the object of a request to the version that a webhook asks for.
type versions struct {
	admission.Attributes
	o    admission.ObjectInterfaces
	made map[runtimeschema.GroupVersionKind]*admission.VersionedAttributes
	// unconverted is why the object could not be converted since it was set to nothing.
	unconverted string
}

func (v *versions) VersionedAttribute(gvk runtimeschema.GroupVersionKind) (*admission.VersionedAttributes, error) {
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
	var plugin *Webhooks
	var v *versions
	for _, w := range e.webhooks {
		if w.mutating != mutating {
			continue
		}
		if plugin == nil {
			get := e.validatingWebhooks
			if mutating {
				get = e.mutatingWebhooks
			}
			var err error
			if plugin, err = get(); err != nil {
				return err
			}
			a := e.attributes(r, s, rec)
			if rules.IsExemptAdmissionConfigurationResource(a) {
				return nil
			}
			v = &versions{Attributes: a, o: s.interfaces(), made: map[runtimeschema.GroupVersionKind]*admission.VersionedAttributes{}}
		}
		var q question
		invocation, status := plugin.Base.ShouldCallHook(context.WithValue(ctx, questionKey{}, &q), w.accessor, v.Attributes, v.o, v)
		place := w.place(fmt.Sprintf("/webhooks/%d", w.position))
		switch {
		case q.asked, v.unconverted != "":
			reason := asksAuthorizer
			if v.unconverted != "" {
				reason, v.unconverted = v.unconverted, ""
			}
			rec.unjudged(Unjudged{Policy: place, Name: w.configuration, Webhook: w.accessor.GetName(), Mutating: mutating, Reason: reason})
		case status != nil:
			rec.result.Webhooks = append(slices.DeleteFunc(rec.result.Webhooks, func(w Webhook) bool { return !w.Mutating }),
				Webhook{Place: place, Configuration: w.configuration, Name: w.accessor.GetName(), Mutating: mutating, Err: status})
			return status
		case invocation != nil:
			rec.result.Webhooks = append(rec.result.Webhooks, Webhook{Place: place, Configuration: w.configuration, Name: w.accessor.GetName(), Mutating: mutating})
		}
	}
	return nil
}
