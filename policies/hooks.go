package policies

import (
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/policy/generic"
	"k8s.io/apiserver/pkg/admission/plugin/policy/matching"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// Plugin is what validating and mutating policies differ in: P are the policies, B their bindings,
// and E evaluates a policy.
type Plugin[P, B runtime.Object, E generic.Evaluator] struct {
	// Policy and Binding return what is common to both kinds of policies.
	Policy  func(P) generic.PolicyAccessor
	Binding func(B) generic.BindingAccessor
	// Compile compiles a policy. Errors of expressions are those of their evaluation.
	Compile func(P) E
	// Operations are the operations for which policies are evaluated.
	Operations *admission.Handler
}

// ValidatingPlugin evaluates validating policies.
type ValidatingPlugin = Plugin[*validating.Policy, *validating.PolicyBinding, validating.Validator]

// MutatingPlugin applies mutating policies.
type MutatingPlugin = Plugin[*mutating.Policy, *mutating.PolicyBinding, mutating.PolicyEvaluator]

// Validating returns the plugin ValidatingAdmissionPolicy.
func Validating() ValidatingPlugin {
	return ValidatingPlugin{
		Policy: validating.NewValidatingAdmissionPolicyAccessor, Binding: validating.NewValidatingAdmissionPolicyBindingAccessor,
		Compile: func(p *validating.Policy) validating.Validator { return compileValidating(p, meters{}) }, Operations: WebhookOperations(),
	}
}

// Mutating returns the plugin MutatingAdmissionPolicy.
func Mutating() MutatingPlugin {
	return MutatingPlugin{
		Policy: mutating.NewMutatingAdmissionPolicyAccessor, Binding: mutating.NewMutatingAdmissionPolicyBindingAccessor,
		Compile: func(p *mutating.Policy) mutating.PolicyEvaluator { return compileMutating(p, meters{}) },
		// A deletion has no object to change.
		Operations: admission.NewHandler(admission.Create, admission.Update, admission.Connect),
	}
}

// ValidatingDispatcher returns the dispatcher of validating policies.
func ValidatingDispatcher(a authorizer.UnconditionalAuthorizer, m generic.PolicyMatcher) generic.Dispatcher[validating.PolicyHook] {
	return validating.NewDispatcher(a, m)
}

// NewMatcher returns what decides which policies and bindings match a request.
func NewMatcher(n Namespaces) *matching.Matcher {
	return matching.NewMatcher(NamespaceLister(n), NamespaceClient(n))
}

// MutatingDispatcher returns the dispatcher of mutating policies, which merge by types.
func MutatingDispatcher(a authorizer.UnconditionalAuthorizer, m *matching.Matcher, types patch.TypeConverterManager) generic.Dispatcher[mutating.PolicyHook] {
	return mutating.NewDispatcher(a, m, types)
}

// Hooks returns the policies that have bindings, in the order of the policies. compiled returns what
// evaluates the policy at an index, and params the parameters of a kind.
func (p *Plugin[P, B, E]) Hooks(policies []P, bindings []B, compiled func(int) E,
	params func(*admissionregistrationv1.ParamKind) (*Params, error)) (hooks []generic.PolicyHook[P, B, E]) {
	bound := map[string][]B{}
	for _, b := range bindings {
		name := p.Binding(b).GetPolicyName().Name
		bound[name] = append(bound[name], b)
	}
	for i, policy := range policies {
		accessor := p.Policy(policy)
		if len(bound[accessor.GetName()]) == 0 {
			continue
		}
		hook := generic.PolicyHook[P, B, E]{Policy: policy, Bindings: bound[accessor.GetName()], Evaluator: compiled(i)}
		if kind := accessor.GetParamKind(); kind != nil {
			if found, err := params(kind); err != nil {
				hook.ConfigurationError = err
			} else {
				hook.ParamInformer, hook.ParamScope = found, found.scope()
			}
		}
		hooks = append(hooks, hook)
	}
	return hooks
}

// Exempt reports whether no policy applies to a resource.
func Exempt(gr runtimeschema.GroupResource) bool {
	if gr.Group == admissionregistrationv1.GroupName {
		switch gr.Resource {
		case "validatingadmissionpolicies", "validatingadmissionpolicybindings",
			"mutatingadmissionpolicies", "mutatingadmissionpolicybindings":
			return true // a policy must not keep others from being repaired
		}
	}
	return slices.Contains(VirtualResources(), gr)
}
