package admission

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apiserver/pkg/admission"

	"espalier.dev/crd"
	"espalier.dev/policies"
	"espalier.dev/store"
)

// validatingPolicies is the plugin ValidatingAdmissionPolicy.
type validatingPolicies struct {
	*evaluation[*policies.ValidatingPolicy, *policies.ValidatingBinding, policies.Validator]
}

// mutatingPolicies is the plugin MutatingAdmissionPolicy.
type mutatingPolicies struct {
	*evaluation[*policies.MutatingPolicy, *policies.MutatingBinding, policies.Mutator]
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

// evaluation evaluates the stored policies.
type evaluation[P, B runtime.Object, E any] struct {
	*admission.Handler
	*Dynamic
	policies.Plugin[P, B, E]
	policies   *stored[P]
	bindings   *stored[B]
	dispatcher func() policies.Dispatcher[policies.Hook[P, B, E]]

	mu      sync.Mutex
	current atomic.Pointer[policyState[P, B, E]]
}

// policyState is what follows from a state of the policies, the bindings and the CRDs, which
// have the kinds of parameters.
type policyState[P, B runtime.Object, E any] struct {
	policies *list[P]
	bindings *list[B]
	catalog  *crd.Catalog
	hooks    []policies.Hook[P, B, E]
	// compiled has the evaluators of the hooks.
	compiled map[*store.Entry]E
}

func newValidatingPolicies(d *Dynamic, n policies.Namespaces) *validatingPolicies {
	plugin := policies.Validating(observer{})
	p := &evaluation[*policies.ValidatingPolicy, *policies.ValidatingBinding, policies.Validator]{
		Handler: plugin.Operations, Dynamic: d, Plugin: plugin,
		policies: newStored[*policies.ValidatingPolicy](d, "validatingadmissionpolicies"),
		bindings: newStored[*policies.ValidatingBinding](d, "validatingadmissionpolicybindings"),
	}
	p.dispatcher = sync.OnceValue(func() policies.Dispatcher[policies.ValidatingHook] {
		return policies.NewValidatingDispatcher(d.config.Authorizer, policies.NewMatcher(n), observer{})
	})
	return &validatingPolicies{p}
}

func newMutatingPolicies(d *Dynamic, n policies.Namespaces) *mutatingPolicies {
	plugin := policies.Mutating(observer{})
	p := &evaluation[*policies.MutatingPolicy, *policies.MutatingBinding, policies.Mutator]{
		Handler: plugin.Operations, Dynamic: d, Plugin: plugin,
		policies: newStored[*policies.MutatingPolicy](d, "mutatingadmissionpolicies"),
		bindings: newStored[*policies.MutatingBinding](d, "mutatingadmissionpolicybindings"),
	}
	p.dispatcher = sync.OnceValue(func() policies.Dispatcher[policies.MutatingHook] {
		return policies.NewMutatingDispatcher(d.config.Authorizer, policies.NewMatcher(n), &policies.Types{
			Definition: d.config.definition, Builtin: func(gvk runtimeschema.GroupVersionKind) (managedfields.TypeConverter, error) {
				return d.config.Kinds.Types(gvk.Group)
			}}, observer{})
	})
	return &mutatingPolicies{p}
}

// dispatch evaluates the policies of a request.
func (p *evaluation[P, B, E]) dispatch(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	bindings := p.bindings.read()
	if bindings.err == nil && len(bindings.items) == 0 {
		return nil
	}
	if policies.Exempt(a.GetResource().GroupResource()) {
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
func (p *evaluation[P, B, E]) of(list *list[P], bindings *list[B]) []policies.Hook[P, B, E] {
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
	next := &policyState[P, B, E]{policies: list, bindings: bindings, catalog: catalog, compiled: map[*store.Entry]E{}}
	next.hooks = p.Hooks(list.items, bindings.items, func(i int) E {
		entry := list.entries[i]
		var evaluator E
		ok := false
		if before != nil {
			evaluator, ok = before.compiled[entry]
		}
		if !ok {
			evaluator = p.Compile(list.items[i])
		}
		next.compiled[entry] = evaluator
		return evaluator
	}, p.config.params)
	p.current.Store(next)
	return next.hooks
}

// configure rejects a part of the configuration file for the plugin: there is nothing to
// configure.
func (p *evaluation[P, B, E]) configure(file []byte) error {
	if len(file) > 0 {
		return fmt.Errorf("a configuration of static policies is not supported: store the policies on the server")
	}
	return nil
}
