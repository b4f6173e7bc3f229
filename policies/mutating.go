package policies

import (
	"context"
	"errors"
	"fmt"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	admissionauthorizer "k8s.io/apiserver/pkg/admission/plugin/authorizer"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// Mutator applies a mutating policy.
type Mutator interface {
	// size returns the number of mutations.
	size() int
	// matches evaluates the match conditions.
	matches(ctx context.Context, in *mutation, a *admission.VersionedAttributes, authz authorizer.UnconditionalAuthorizer) (bool, error)
	// patch returns the object of a request after the mutation at an index.
	patch(ctx context.Context, in *mutation, i int, r patch.Request) (runtime.Object, error)
}

// mutation is the application of a mutating policy for a binding and a parameter.
type mutation struct {
	*match
	policy  *MutatingPolicy
	binding *MutatingBinding
	param   runtime.Object
	mutator Mutator
}

// mutator applies a compiled policy.
type mutator struct {
	compiler   *cel.CompositedCompiler
	conditions *conditions
	patchers   []patch.Patcher
}

func (m *mutator) size() int { return len(m.patchers) }

func (m *mutator) matches(ctx context.Context, in *mutation, a *admission.VersionedAttributes, authz authorizer.UnconditionalAuthorizer) (bool, error) {
	return m.conditions.match(ctx, a, in.param, authz)
}

func (m *mutator) patch(ctx context.Context, _ *mutation, i int, r patch.Request) (runtime.Object, error) {
	// The evaluator finds the variables of the policy in the context.
	return m.patchers[i].Patch(m.compiler.CreateContext(ctx), r, celconfig.RuntimeCELCostBudget)
}

// mutatingDispatcher applies mutating policies.
type mutatingDispatcher struct {
	authorizer authorizer.UnconditionalAuthorizer
	matcher    *Matcher
	types      *Types
	observer   Observer
}

// NewMutatingDispatcher returns the dispatcher of mutating policies, which merge by types.
func NewMutatingDispatcher(a authorizer.UnconditionalAuthorizer, m *Matcher, types *Types, o Observer) Dispatcher[MutatingHook] {
	return &mutatingDispatcher{a, m, types, o}
}

// mutatingRequest is a request that is mutated.
type mutatingRequest struct {
	*mutatingDispatcher
	a        admission.Attributes
	o        admission.ObjectInterfaces
	versions map[runtimeschema.GroupVersionKind]*admission.VersionedAttributes
	// failures are messages about the failures that the failure policies do not ignore, and reason is
	// that of the first.
	failures []string
	reason   metav1.StatusReason
}

// Dispatch applies all policies that match a request, one after the other. What one of them has changed
// does not affect which of the others match.
func (d *mutatingDispatcher) Dispatch(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces, hooks []MutatingHook) error {
	r := &mutatingRequest{mutatingDispatcher: d, a: a, o: o, versions: map[runtimeschema.GroupVersionKind]*admission.VersionedAttributes{}}
	var all []*mutation
	for i := range hooks {
		all = append(all, r.find(ctx, &hooks[i])...)
	}
	if len(all) > 0 {
		if status := r.apply(ctx, all); status != nil {
			return status
		}
	}
	if len(r.failures) == 0 {
		return nil
	}
	// It names the object as it is now, after all mutations.
	status := admission.NewForbidden(r.a, errors.New("admission request denied by policy")).(*apierrors.StatusError)
	status.ErrStatus.Message = r.failures[0]
	if r.reason != "" {
		status.ErrStatus.Reason = r.reason
	}
	for _, message := range r.failures {
		status.ErrStatus.Details.Causes = append(status.ErrStatus.Details.Causes, metav1.StatusCause{Message: message})
	}
	return status
}

// fail records a failure. binding is nil if it is about the policy.
func (r *mutatingRequest) fail(p *MutatingPolicy, binding *MutatingBinding, err error, reason metav1.StatusReason) {
	if failureOf(p.Spec.FailurePolicy) == admissionregistrationv1.Ignore {
		return
	}
	message := fmt.Sprintf("policy %q denied request: %v", p.Name, err)
	if binding != nil {
		message = mutatingDenial(p.Name, binding.Name, err)
	}
	if len(r.failures) == 0 {
		r.reason = reason
	}
	r.failures = append(r.failures, message)
}

// mutatingDenial returns the message of the API server about a mutating policy that failed.
func mutatingDenial(policy, binding string, err error) string {
	return fmt.Sprintf("policy '%s' with binding '%s' denied request: %v", policy, binding, err)
}

// find returns the mutations of a policy for a request: one for each binding that matches and each of
// its parameters.
func (r *mutatingRequest) find(ctx context.Context, h *MutatingHook) (all []*mutation) {
	found, err := r.matcher.policy(ctx, r.a, r.o, h.Policy.Spec.MatchConstraints)
	if err == nil && found != nil {
		err = h.ConfigurationError
	}
	if err != nil {
		r.fail(h.Policy, nil, fmt.Errorf("failed to configure policy: %w", err), "")
		return nil
	}
	if found == nil {
		return nil
	}
	for _, b := range h.Bindings {
		matches, err := r.matcher.binding(ctx, r.a, r.o, b.Spec.MatchResources)
		if err != nil {
			r.fail(h.Policy, b, fmt.Errorf("failed to configure binding: %w", err), "")
			continue
		}
		if !matches {
			continue
		}
		if _, err := r.version(found.kind); err != nil {
			r.fail(h.Policy, nil, fmt.Errorf("failed to configure policy: %w", err), "")
			continue
		}
		params, err := collect(h.Policy.Spec.ParamKind, h.Params, b.Spec.ParamRef, r.a.GetNamespace())
		if err != nil {
			r.fail(h.Policy, b, fmt.Errorf("failed to configure binding: %w", err), "")
			continue
		}
		for _, param := range params {
			all = append(all, &mutation{match: found, policy: h.Policy, binding: b, param: unlabelled(param), mutator: h.Evaluator})
		}
	}
	return all
}

// unlabelled returns a parameter as mutating policies of the API server see it: without apiVersion and
// kind, unless it is a custom resource. Validating policies see both.
func unlabelled(param runtime.Object) runtime.Object {
	if _, ok := param.(*unstructured.Unstructured); ok || param == nil {
		return param
	}
	param = param.DeepCopyObject()
	param.GetObjectKind().SetGroupVersionKind(runtimeschema.GroupVersionKind{})
	return param
}

// version returns the object in a version.
func (r *mutatingRequest) version(gvk runtimeschema.GroupVersionKind) (*admission.VersionedAttributes, error) {
	if v := r.versions[gvk]; v != nil {
		return v, nil
	}
	v, err := admission.NewVersionedAttributes(r.a, gvk, r.o)
	if err != nil {
		return nil, err
	}
	r.versions[gvk] = v
	return v, nil
}

// apply applies mutations. It returns an error to which no failure policy applies.
func (r *mutatingRequest) apply(ctx context.Context, all []*mutation) *apierrors.StatusError {
	again := r.a.GetReinvocationContext()
	known, ok := again.Value(MutatingPluginName).(*reinvocation)
	if !ok {
		known = &reinvocation{}
		again.SetValue(MutatingPluginName, known)
	}
	if again.IsReinvoke() && !apiequality.Semantic.DeepEqual(known.last, r.a.GetObject()) {
		known.invokeAgain() // another plugin has changed the object
	}
	defer func() { known.finish(r.a.GetObject()) }()

	namespace, err := r.matcher.namespaceOf(ctx, r.a)
	if err != nil {
		if status, ok := errors.AsType[*apierrors.StatusError](err); ok {
			return status
		}
		return apierrors.NewNotFound(NamespaceResource(), r.a.GetNamespace())
	}
	authz := admissionauthorizer.NewCachingAuthorizer(r.authorizer)
	var last *admission.VersionedAttributes
	for _, in := range all {
		if n := len(in.policy.Spec.Mutations); in.mutator.size() != n {
			return apierrors.NewInternalError(fmt.Errorf("expected %v compiled evaluators for policy %v, got %v", n, in.policy.Name, in.mutator.size()))
		}
		v, err := r.version(in.kind)
		if err != nil {
			return apierrors.NewInternalError(err)
		}
		matches, err := in.mutator.matches(ctx, in, v, authz)
		if err != nil {
			r.fail(in.policy, in.binding, err, metav1.StatusReasonInvalid)
			continue
		}
		if !matches {
			continue
		}
		key, err := in.key()
		if err != nil {
			return apierrors.NewInternalError(err)
		}
		if again.IsReinvoke() && !known.again[key] {
			continue
		}
		before := v.VersionedObject.Object()
		if len(in.policy.Spec.Mutations) > 0 {
			last = v
		}
		if status := r.mutate(ctx, in, v, namespace, authz); status != nil {
			return status
		}
		if !apiequality.Semantic.DeepEqual(before, v.VersionedObject.Object()) {
			known.invokeAgain()
			again.SetShouldReinvoke()
		}
		if in.policy.Spec.ReinvocationPolicy == admissionregistrationv1.IfNeededReinvocationPolicy {
			known.invoked(key)
		}
	}
	if last == nil || last.VersionedObject.Object() == nil || !last.Dirty {
		return nil
	}
	known.invokeAgain()
	again.SetShouldReinvoke()
	if err := r.o.GetObjectConvertor().Convert(last.VersionedObject.Object(), last.Attributes.GetObject(), nil); err != nil {
		return apierrors.NewInternalError(fmt.Errorf("failed to convert object: %w", err))
	}
	return nil
}

// mutate applies all mutations of a policy, also if one of them fails. It returns an error to which the
// failure policy does not apply.
func (r *mutatingRequest) mutate(ctx context.Context, in *mutation, v *admission.VersionedAttributes, namespace *corev1.Namespace,
	authz authorizer.UnconditionalAuthorizer) *apierrors.StatusError {
	for i := range in.policy.Spec.Mutations {
		if v.VersionedObject.Object() == nil {
			continue // a request without an object
		}
		start := time.Now()
		err := r.patch(ctx, in, i, v, patch.Request{MatchedResource: in.resource, VersionedAttributes: v, ObjectInterfaces: r.o,
			OptionalVariables: cel.OptionalVariableBindings{VersionedParams: in.param, Authorizer: authz}, Namespace: namespace})
		check := Check{Policy: in.policy.Name, Binding: in.binding.Name, Elapsed: time.Since(start)}
		if err != nil {
			check.Action, check.Message = Deny, err.Error()
		}
		r.observer.Mutated(ctx, check)
		if err == nil {
			continue
		}
		if status, ok := errors.AsType[*apierrors.StatusError](err); ok {
			return status
		}
		r.fail(in.policy, in.binding, err, metav1.StatusReasonInvalid)
	}
	return nil
}

// patch applies one mutation.
func (r *mutatingRequest) patch(ctx context.Context, in *mutation, i int, v *admission.VersionedAttributes, request patch.Request) error {
	if request.TypeConverter = r.types.GetTypeConverter(v.VersionedKind); request.TypeConverter == nil {
		return apierrors.NewServiceUnavailable(fmt.Sprintf("Resource kind %s not found. There can be a delay between when CustomResourceDefinitions are created and when they are available.", v.VersionedKind))
	}
	obj, err := in.mutator.patch(ctx, in, i, request)
	if err != nil {
		return err
	}
	if _, ok := v.VersionedObject.Object().(*unstructured.Unstructured); !ok {
		// A merge makes a tree of a Go type.
		if obj, err = r.o.GetObjectConvertor().ConvertToVersion(obj, v.GetKind().GroupVersion()); err != nil {
			return err
		}
	}
	r.o.GetObjectDefaulter().Default(obj)
	v.UpdateObject(obj)
	return nil
}

// The names of the plugins. The mutating one keeps what it has done to a request under its name.
const (
	MutatingPluginName   = "MutatingAdmissionPolicy"
	ValidatingPluginName = "ValidatingAdmissionPolicy"
)

// mutationKey identifies a mutation of a request.
type mutationKey struct{ policy, binding, namespace, param string }

func (m *mutation) key() (mutationKey, error) {
	k := mutationKey{policy: m.policy.Name, binding: m.binding.Name}
	if m.param != nil {
		param, err := meta.Accessor(m.param)
		if err != nil {
			return k, err
		}
		k.namespace, k.param = param.GetNamespace(), param.GetName()
	}
	return k, nil
}

// reinvocation is what mutating policies have done to a request. Those that ask for it are applied
// again if something changes the object after them.
type reinvocation struct {
	// last is the object after the last policy.
	last runtime.Object
	// applied are mutations that may have to be applied again, and again those that have to be.
	applied, again map[mutationKey]bool
}

func (r *reinvocation) invoked(k mutationKey) {
	if r.applied == nil {
		r.applied = map[mutationKey]bool{}
	}
	r.applied[k] = true
}

// invokeAgain is called when the object has changed.
func (r *reinvocation) invokeAgain() {
	if r.again == nil {
		r.again = map[mutationKey]bool{}
	}
	for k := range r.applied {
		r.again[k] = true
	}
	clear(r.applied)
}

func (r *reinvocation) finish(obj runtime.Object) {
	r.last = nil
	if obj != nil {
		r.last = obj.DeepCopyObject()
	}
}
