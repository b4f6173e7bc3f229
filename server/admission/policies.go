package admission

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/policy/generic"
	"k8s.io/apiserver/pkg/admission/plugin/policy/matching"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"

	"espalier.dev/crd"
	"espalier.dev/store"
)

// validatingPolicies is the plugin ValidatingAdmissionPolicy.
type validatingPolicies struct {
	*policies[*validating.Policy, *validating.PolicyBinding, validating.Validator]
}

// mutatingPolicies is the plugin MutatingAdmissionPolicy.
type mutatingPolicies struct {
	*policies[*mutating.Policy, *mutating.PolicyBinding, mutating.PolicyEvaluator]
}

var (
	_ admission.ValidationInterface = validatingPolicies{}
	_ admission.MutationInterface   = mutatingPolicies{}
)

// Validate evaluates the validating policies of a request.
func (v validatingPolicies) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	return v.dispatch(ctx, a, o)
}

// Admit applies the mutating policies of a request.
func (m mutatingPolicies) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	return m.dispatch(ctx, a, o)
}

// policies evaluates policies with the dispatcher of k8s.io/apiserver.
type policies[P, B runtime.Object, E generic.Evaluator] struct {
	*admission.Handler
	*Dynamic
	policies *stored[P]
	bindings *stored[B]
	compile  func(P) E
	// policy and binding return what is common to both kinds of policies.
	policy     func(P) generic.PolicyAccessor
	binding    func(B) generic.BindingAccessor
	dispatcher func() generic.Dispatcher[generic.PolicyHook[P, B, E]]

	mu      sync.Mutex
	current atomic.Pointer[policyState[P, B, E]]
}

// policyState is what follows from a state of the policies, the bindings and the CRDs, which
// have the kinds of parameters.
type policyState[P, B runtime.Object, E generic.Evaluator] struct {
	policies *list[P]
	bindings *list[B]
	catalog  *crd.Catalog
	hooks    []generic.PolicyHook[P, B, E]
	// compiled has the evaluators of the hooks.
	compiled map[*store.Entry]E
}

func newValidatingPolicies(d *Dynamic, n *namespaceReader) *validatingPolicies {
	p := &policies[*validating.Policy, *validating.PolicyBinding, validating.Validator]{
		Handler: webhookOperations(), Dynamic: d,
		policies: newStored[*validating.Policy](d, "validatingadmissionpolicies"),
		bindings: newStored[*validating.PolicyBinding](d, "validatingadmissionpolicybindings"),
		compile:  compileValidating, policy: validating.NewValidatingAdmissionPolicyAccessor,
		binding: validating.NewValidatingAdmissionPolicyBindingAccessor,
	}
	p.dispatcher = sync.OnceValue(func() generic.Dispatcher[validating.PolicyHook] {
		return validating.NewDispatcher(d.config.Authorizer, generic.NewPolicyMatcher(matching.NewMatcher(n.lister(), n.client())))
	})
	return &validatingPolicies{p}
}

func newMutatingPolicies(d *Dynamic, n *namespaceReader) *mutatingPolicies {
	p := &policies[*mutating.Policy, *mutating.PolicyBinding, mutating.PolicyEvaluator]{
		// A deletion has no object to change.
		Handler: admission.NewHandler(admission.Create, admission.Update, admission.Connect), Dynamic: d,
		policies: newStored[*mutating.Policy](d, "mutatingadmissionpolicies"),
		bindings: newStored[*mutating.PolicyBinding](d, "mutatingadmissionpolicybindings"),
		compile:  compileMutating, policy: mutating.NewMutatingAdmissionPolicyAccessor,
		binding: mutating.NewMutatingAdmissionPolicyBindingAccessor,
	}
	p.dispatcher = sync.OnceValue(func() generic.Dispatcher[mutating.PolicyHook] {
		return mutating.NewDispatcher(d.config.Authorizer, matching.NewMatcher(n.lister(), n.client()), &typeConverters{Dynamic: d})
	})
	return &mutatingPolicies{p}
}

// exempt reports whether no policy applies to a resource.
func exempt(gr runtimeschema.GroupResource) bool {
	if gr.Group == admissionregistrationv1.GroupName {
		switch gr.Resource {
		case "validatingadmissionpolicies", "validatingadmissionpolicybindings",
			"mutatingadmissionpolicies", "mutatingadmissionpolicybindings":
			return true // a policy must not keep others from being repaired
		}
	}
	return slices.Contains(virtualResources(), gr)
}

// dispatch evaluates the policies of a request.
func (p *policies[P, B, E]) dispatch(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	bindings := p.bindings.read()
	if bindings.err == nil && len(bindings.items) == 0 {
		return nil
	}
	if exempt(a.GetResource().GroupResource()) {
		return nil
	}
	list := p.policies.read()
	if list.err != nil {
		return list.err
	}
	if bindings.err != nil {
		return bindings.err
	}
	if len(list.items) == 0 {
		return nil
	}
	hooks := p.of(list, bindings)
	if len(hooks) == 0 {
		return nil
	}
	return p.dispatcher().Dispatch(ctx, a, o, hooks)
}

// of returns the policies that have bindings, in the order of their names.
func (p *policies[P, B, E]) of(list *list[P], bindings *list[B]) []generic.PolicyHook[P, B, E] {
	catalog := p.config.Catalog()
	same := func(s *policyState[P, B, E]) bool {
		return s != nil && s.policies == list && s.bindings == bindings && s.catalog == catalog
	}
	if s := p.current.Load(); same(s) {
		return s.hooks
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.current.Load()
	if same(before) {
		return before.hooks
	}
	bound := map[string][]B{}
	for _, b := range bindings.items {
		name := p.binding(b).GetPolicyName().Name
		bound[name] = append(bound[name], b)
	}
	next := &policyState[P, B, E]{policies: list, bindings: bindings, catalog: catalog, compiled: map[*store.Entry]E{}}
	for i, policy := range list.items {
		accessor := p.policy(policy)
		if len(bound[accessor.GetName()]) == 0 {
			continue
		}
		entry := list.entries[i]
		var evaluator E
		ok := false
		if before != nil {
			evaluator, ok = before.compiled[entry]
		}
		if !ok {
			evaluator = p.compile(policy)
		}
		next.compiled[entry] = evaluator
		hook := generic.PolicyHook[P, B, E]{Policy: policy, Bindings: bound[accessor.GetName()], Evaluator: evaluator}
		if kind := accessor.GetParamKind(); kind != nil {
			if params, err := p.config.params(kind); err != nil {
				hook.ConfigurationError = err
			} else {
				hook.ParamInformer, hook.ParamScope = params, params.scope()
			}
		}
		next.hooks = append(next.hooks, hook)
	}
	p.current.Store(next)
	return next.hooks
}

// configure rejects a part of the configuration file for the plugin: there is nothing to
// configure.
func (p *policies[P, B, E]) configure(file []byte) error {
	if len(file) > 0 {
		return fmt.Errorf("a configuration of static policies is not supported: store the policies on the server")
	}
	return nil
}
