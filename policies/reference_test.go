package policies

import (
	"context"
	"fmt"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/generic"
	"k8s.io/apiserver/pkg/admission/plugin/policy/matching"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	webhookplugin "k8s.io/apiserver/pkg/admission/plugin/webhook"
	webhookgeneric "k8s.io/apiserver/pkg/admission/plugin/webhook/generic"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	mutatingwebhook "k8s.io/apiserver/pkg/admission/plugin/webhook/mutating"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
)

// reference evaluates policies with the plugins of k8s.io/apiserver.
type reference struct {
	*Oracle
	matcher         *matching.Matcher
	webhook         *webhookgeneric.Webhook
	accessors       []webhookplugin.WebhookAccessor
	validatingHooks []validating.PolicyHook
	mutatingHooks   []mutating.PolicyHook
	validating      generic.Dispatcher[validating.PolicyHook]
	mutating        generic.Dispatcher[mutating.PolicyHook]
}

func newReference(t testing.TB, o *Oracle) *reference {
	t.Helper()
	client := fake.NewClientset()
	client.PrependReactor("get", "namespaces", o.reaction)
	lister := oracleLister{o: o}
	r := &reference{Oracle: o, matcher: matching.NewMatcher(lister, client)}
	r.validating = validating.NewDispatcher(o, generic.NewPolicyMatcher(r.matcher))
	r.mutating = mutating.NewDispatcher(o, r.matcher, oracleTypes{o.e.types()})
	plugin, err := mutatingwebhook.NewMutatingWebhook(nil)
	if err != nil {
		t.Fatal(err)
	}
	r.webhook = plugin.Webhook
	r.webhook.SetUnconditionalAuthorizer(o)
	r.webhook.SetExternalKubeClientSet(client)
	factory := informers.NewSharedInformerFactory(client, 0)
	r.webhook.SetExternalKubeInformerFactory(factory)
	// The informer is not started, so the plugin reads everything with the client.
	return r
}

// oracleLister has the namespaces that are in memory.
type oracleLister struct {
	corelisters.NamespaceLister
	o *Oracle
}

func (l oracleLister) Get(name string) (*corev1.Namespace, error) { return l.o.Get(name) }

// oracleTypes are types that are always up to date.
type oracleTypes struct{ *Types }

func (oracleTypes) Run(context.Context) {}

// informer reads parameters. It has always synced.
type informer struct{ *Params }

func (i informer) Informer() cache.SharedIndexInformer { return alwaysSynced{} }

type alwaysSynced struct{ cache.SharedIndexInformer }

func (alwaysSynced) HasSynced() bool { return true }

func (i informer) Lister() cache.GenericLister { return lister{i.Params, ""} }

type lister struct {
	*Params
	namespace string
}

func (l lister) ByNamespace(name string) cache.GenericNamespaceLister { return lister{l.Params, name} }
func (l lister) Get(name string) (runtime.Object, error) {
	obj, err := l.reader.Get(l.Params, l.namespace, name)
	return unlabelled(obj), err // as clients decode it
}
func (l lister) List(s labels.Selector) ([]runtime.Object, error) {
	list, err := l.reader.List(l.Params, l.namespace, s)
	for i := range list {
		list[i] = unlabelled(list[i])
	}
	return list, err
}

func (r *reference) validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	return r.validating.Dispatch(ctx, a, o, r.validatingHooks)
}

func (r *reference) mutate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	return r.mutating.Dispatch(ctx, a, o, r.mutatingHooks)
}

func (r *reference) addMutating(c *admissionregistrationv1.MutatingWebhookConfiguration) {
	for i := range c.Webhooks {
		r.accessors = append(r.accessors, webhookplugin.NewMutatingWebhookAccessor(fmt.Sprint(i), c.Name, &c.Webhooks[i]))
	}
}

func (r *reference) addValidating(c *admissionregistrationv1.ValidatingWebhookConfiguration) {
	for i := range c.Webhooks {
		r.accessors = append(r.accessors, webhookplugin.NewValidatingWebhookAccessor(fmt.Sprint(i), c.Name, &c.Webhooks[i]))
	}
}

func (r *reference) shouldCall(ctx context.Context, i int, a admission.Attributes, o admission.ObjectInterfaces) (*webhookgeneric.WebhookInvocation, *apierrors.StatusError) {
	return r.webhook.ShouldCallHook(ctx, r.accessors[i], a, o, referenceVersions{newVersions(a, o)})
}

// compile makes hooks as the plugins do, from policies that they would read with a client.
func (r *reference) compile(o *Oracle) {
	for _, p := range o.validatingPolicies {
		h := validating.PolicyHook{Policy: p, Evaluator: referenceValidator(p)}
		for _, b := range o.validatingBindings {
			if b.Spec.PolicyName == p.Name {
				h.Bindings = append(h.Bindings, b)
			}
		}
		h.ParamInformer, h.ParamScope, h.ConfigurationError = r.informer(p.Spec.ParamKind)
		if len(h.Bindings) > 0 {
			r.validatingHooks = append(r.validatingHooks, h)
		}
	}
	for _, p := range o.mutatingPolicies {
		h := mutating.PolicyHook{Policy: p, Evaluator: referenceMutator(p)}
		for _, b := range o.mutatingBindings {
			if b.Spec.PolicyName == p.Name {
				h.Bindings = append(h.Bindings, b)
			}
		}
		h.ParamInformer, h.ParamScope, h.ConfigurationError = r.informer(p.Spec.ParamKind)
		if len(h.Bindings) > 0 {
			r.mutatingHooks = append(r.mutatingHooks, h)
		}
	}
}

// informer returns the parameters of a kind.
func (r *reference) informer(kind *admissionregistrationv1.ParamKind) (informers.GenericInformer, meta.RESTScope, error) {
	if kind == nil {
		return nil, nil, nil
	}
	p, err := r.params(kind)
	if err != nil {
		return nil, nil, err
	}
	if p.Namespaced {
		return informer{p}, meta.RESTScopeNamespace, nil
	}
	return informer{p}, meta.RESTScopeRoot, nil
}

func referenceCompiler(variables []admissionregistrationv1.Variable, known cel.OptionalVariableDeclarations) *cel.CompositedCompiler {
	c, err := cel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		panic(err)
	}
	for _, v := range variables {
		c.CompileAndStoreVariable(&validating.Variable{Name: v.Name, Expression: v.Expression}, known, environment.StoredExpressions)
	}
	return c
}

func referenceConditions(c *cel.CompositedCompiler, list []admissionregistrationv1.MatchCondition, known cel.OptionalVariableDeclarations,
	failure *admissionregistrationv1.FailurePolicyType, name string) matchconditions.Matcher {
	if len(list) == 0 {
		return nil
	}
	var all []cel.ExpressionAccessor
	for i := range list {
		all = append(all, (*matchconditions.MatchCondition)(&list[i]))
	}
	return matchconditions.NewMatcher(c.CompileCondition(all, known, environment.StoredExpressions), failure, "policy", "validate", name)
}

func referenceValidator(p *validating.Policy) validating.Validator {
	known := cel.OptionalVariableDeclarations{HasParams: p.Spec.ParamKind != nil, HasAuthorizer: true}
	c := referenceCompiler(p.Spec.Variables, known)
	var validations, messages, annotations []cel.ExpressionAccessor
	for _, v := range p.Spec.Validations {
		validations = append(validations, &validating.ValidationCondition{Expression: v.Expression, Message: v.Message, Reason: v.Reason})
		if v.MessageExpression == "" {
			messages = append(messages, nil)
		} else {
			messages = append(messages, &validating.MessageExpressionCondition{MessageExpression: v.MessageExpression})
		}
	}
	for _, a := range p.Spec.AuditAnnotations {
		annotations = append(annotations, &validating.AuditAnnotationCondition{Key: a.Key, ValueExpression: a.ValueExpression})
	}
	inMessages := cel.OptionalVariableDeclarations{HasParams: known.HasParams}
	return validating.NewValidator(c.CompileCondition(validations, known, environment.StoredExpressions),
		referenceConditions(c, p.Spec.MatchConditions, known, p.Spec.FailurePolicy, p.Name),
		c.CompileCondition(annotations, known, environment.StoredExpressions),
		c.CompileCondition(messages, inMessages, environment.StoredExpressions), p.Spec.FailurePolicy, nil)
}

func referenceMutator(p *mutating.Policy) mutating.PolicyEvaluator {
	known := cel.OptionalVariableDeclarations{HasParams: p.Spec.ParamKind != nil, HasAuthorizer: true}
	c := referenceCompiler(p.Spec.Variables, known)
	e := mutating.PolicyEvaluator{CompositedCompiler: c, Matcher: referenceConditions(c, p.Spec.MatchConditions, known, p.Spec.FailurePolicy, p.Name)}
	known.HasPatchTypes = true
	for _, m := range p.Spec.Mutations {
		switch {
		case m.PatchType == admissionregistrationv1.PatchTypeJSONPatch && m.JSONPatch != nil:
			e.Mutators = append(e.Mutators, patch.NewJSONPatcher(c.CompileMutatingEvaluator(
				&patch.JSONPatchCondition{Expression: m.JSONPatch.Expression}, known, environment.StoredExpressions)))
		case m.PatchType == admissionregistrationv1.PatchTypeApplyConfiguration && m.ApplyConfiguration != nil:
			e.Mutators = append(e.Mutators, patch.NewApplyConfigurationPatcher(c.CompileMutatingEvaluator(
				&patch.ApplyConfigurationCondition{Expression: m.ApplyConfiguration.Expression}, known, environment.StoredExpressions)))
		}
	}
	return e
}
