package policies

import (
	"context"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
)

// The policies and their bindings.
type (
	ValidatingPolicy  = admissionregistrationv1.ValidatingAdmissionPolicy
	ValidatingBinding = admissionregistrationv1.ValidatingAdmissionPolicyBinding
	MutatingPolicy    = admissionregistrationv1.MutatingAdmissionPolicy
	MutatingBinding   = admissionregistrationv1.MutatingAdmissionPolicyBinding
)

// Plugin is what validating and mutating policies differ in: P are the policies, B their bindings,
// and E evaluates a policy.
type Plugin[P, B, E any] struct {
	// Compile compiles a policy. Errors of expressions are those of their evaluation.
	Compile func(P) E
	// Operations are the operations for which policies are evaluated.
	Operations *admission.Handler

	// policy returns the name of a policy and the kind of its parameters, and policyName that of the
	// policy of a binding.
	policy     func(P) (name string, params *admissionregistrationv1.ParamKind)
	policyName func(B) string
}

// Hook is a policy with its bindings.
type Hook[P, B, E any] struct {
	Policy    P
	Bindings  []B
	Evaluator E
	// Params are the parameters of the policy, or nil if it has none.
	Params *Params
	// ConfigurationError is why no request that the policy matches can be evaluated, or nil.
	ConfigurationError error
}

// Dispatcher evaluates the policies of hooks for a request.
type Dispatcher[H any] interface {
	Dispatch(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces, hooks []H) error
}

// ValidatingPlugin evaluates validating policies, and ValidatingHook is one of them.
type (
	ValidatingPlugin = Plugin[*ValidatingPolicy, *ValidatingBinding, Validator]
	ValidatingHook   = Hook[*ValidatingPolicy, *ValidatingBinding, Validator]
)

// MutatingPlugin applies mutating policies, and MutatingHook is one of them.
type (
	MutatingPlugin = Plugin[*MutatingPolicy, *MutatingBinding, Mutator]
	MutatingHook   = Hook[*MutatingPolicy, *MutatingBinding, Mutator]
)

// Validating returns the plugin ValidatingAdmissionPolicy.
func Validating(o Observer) ValidatingPlugin {
	return ValidatingPlugin{
		Compile:    func(p *ValidatingPolicy) Validator { return compileValidating(p, meters{}, o) },
		Operations: WebhookOperations(),
		policy: func(p *ValidatingPolicy) (string, *admissionregistrationv1.ParamKind) {
			return p.Name, p.Spec.ParamKind
		},
		policyName: func(b *ValidatingBinding) string { return b.Spec.PolicyName },
	}
}

// Mutating returns the plugin MutatingAdmissionPolicy.
func Mutating(o Observer) MutatingPlugin {
	return MutatingPlugin{
		Compile: func(p *MutatingPolicy) Mutator { return compileMutating(p, meters{}, o) },
		// A deletion has no object to change.
		Operations: admission.NewHandler(admission.Create, admission.Update, admission.Connect),
		policy: func(p *MutatingPolicy) (string, *admissionregistrationv1.ParamKind) {
			return p.Name, p.Spec.ParamKind
		},
		policyName: func(b *MutatingBinding) string { return b.Spec.PolicyName },
	}
}

// Hooks returns the policies that have bindings, in the order of the policies. compiled returns what
// evaluates the policy at an index, and params the parameters of a kind.
func (p *Plugin[P, B, E]) Hooks(policies []P, bindings []B, compiled func(int) E,
	params func(*admissionregistrationv1.ParamKind) (*Params, error)) (hooks []Hook[P, B, E]) {
	bound := map[string][]B{}
	for _, b := range bindings {
		name := p.policyName(b)
		bound[name] = append(bound[name], b)
	}
	for i, policy := range policies {
		name, kind := p.policy(policy)
		if len(bound[name]) == 0 {
			continue
		}
		hook := Hook[P, B, E]{Policy: policy, Bindings: bound[name], Evaluator: compiled(i)}
		if kind != nil {
			hook.Params, hook.ConfigurationError = params(kind)
		}
		hooks = append(hooks, hook)
	}
	return hooks
}

// WebhookOperations are the operations for which webhooks are called and validating policies are
// evaluated.
func WebhookOperations() *admission.Handler {
	return admission.NewHandler(admission.Connect, admission.Create, admission.Delete, admission.Update)
}

// VirtualResources are the resources that are never stored and that neither webhooks nor
// policies may intercept: a wrong configuration would lock everybody out.
func VirtualResources() []runtimeschema.GroupResource {
	return []runtimeschema.GroupResource{
		{Group: "authentication.k8s.io", Resource: "selfsubjectreviews"},
		{Group: "authentication.k8s.io", Resource: "tokenreviews"},
		{Group: "authorization.k8s.io", Resource: "localsubjectaccessreviews"},
		{Group: "authorization.k8s.io", Resource: "selfsubjectaccessreviews"},
		{Group: "authorization.k8s.io", Resource: "selfsubjectrulesreviews"},
		{Group: "authorization.k8s.io", Resource: "subjectaccessreviews"},
	}
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
