package lint

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"

	"espalier.dev/analysis"
	"espalier.dev/internal/nearest"
)

// kindOf returns the kind of parameters.
func kindOf(k *v1.ParamKind) runtimeschema.GroupVersionKind {
	return runtimeschema.FromAPIVersionAndKind(k.APIVersion, k.Kind)
}

// paramEndpoint returns the resource of a kind, or nil if it is not known.
func (t *resourceTable) paramEndpoint(gvk runtimeschema.GroupVersionKind) *endpoint {
	i := slices.IndexFunc(t.endpoints, func(e *endpoint) bool { return e.sub == "" && e.kind == gvk })
	if i < 0 {
		return nil
	}
	return t.endpoints[i]
}

// policyParams reports a kind of parameters that does not exist.
func (l *policyLinter) policyParams(p *policyObject) {
	if p.spec.params == nil {
		return
	}
	at := root().child("spec", "paramKind")
	gvk := kindOf(p.spec.params)
	if gvk.Kind == "" || gvk.Version == "" || l.resources.paramEndpoint(gvk) != nil {
		return
	}
	if !l.resources.groups[gvk.Group] {
		p.inform(policyParam, at, fmt.Sprintf("no CRD in the input defines %s: params are not checked", gvk.GroupKind()))
		return
	}
	var versions, kinds []string
	for _, e := range l.resources.endpoints {
		switch {
		case e.sub != "" || e.kind.Group != gvk.Group:
		case e.kind.Kind == gvk.Kind && !slices.Contains(versions, e.kind.Version):
			versions = append(versions, e.kind.Version)
		default:
			kinds = append(kinds, e.kind.Kind)
		}
	}
	if len(versions) > 0 {
		p.warn(policyParam, at.child("apiVersion"), fmt.Sprintf("%s has no version %s: the policy fails for all requests", gvk.GroupKind(), gvk.Version),
			nearest.Hint("", versions))
		return
	}
	p.warn(policyParam, at.child("kind"), fmt.Sprintf("there is no kind %s in %s: the policy fails for all requests", gvk.Kind, groupName(gvk.Group)),
		nearest.DidYouMean(nearest.Name(gvk.Kind, slices.Values(kinds))))
}

// policyBindings reports policies without a binding.
func (l *policyLinter) policyBindings(p *policyObject) {
	if p.name != "" && len(l.bindings[p.kind+"/"+p.name]) == 0 {
		p.inform(policyBinding, root().child("metadata", "name"), "no binding in the input binds the policy: without one, it has no effect")
	}
}

// bindingPolicy reports what does not fit together in a binding and its policy.
func (l *policyLinter) bindingPolicy(p *policyObject) {
	b, spec := p.binding, root().child("spec")
	if b.policy == "" {
		return // the API server rejects it
	}
	var policy *policyObject
	switch same := l.policies[policyOf(p)]; len(same) {
	case 0:
		l.noPolicy(p, spec.child("policyName"))
	case 1:
		policy = same[0]
		l.disjoint(p, spec.child("matchResources", "resourceRules"), policy)
	}
	if b.params == nil {
		if policy != nil && policy.spec.params != nil {
			p.warn(policyParam, spec, fmt.Sprintf("the policy has parameters of the kind %s, and the binding has no paramRef: params is null",
				policy.spec.params.Kind))
		}
		return
	}
	ref := spec.child("paramRef")
	if ns := b.params.Namespace; ns != "" {
		l.namespaceExists(p, ref.child("namespace"), ns)
	}
	switch {
	case policy == nil:
	case policy.spec.params == nil:
		p.warn(policyParam, ref, "the policy has no paramKind: the parameters are not used")
	default:
		l.paramObject(p, ref, policy)
	}
}

// noPolicy reports a binding without a policy. It may be in another directory if the input has no
// policies.
func (l *policyLinter) noPolicy(p *policyObject, at *place) {
	kind := strings.TrimSuffix(p.kind, "Binding")
	var names []string
	for _, same := range l.policies {
		if other := same[0]; other.kind == kind {
			names = append(names, other.name)
		} else if other.name == p.binding.policy {
			p.warn(policyBinding, at, fmt.Sprintf("%s is a %s: bind it with a %sBinding", other.name, other.kind, other.kind))
			return
		}
	}
	slices.Sort(names)
	message := fmt.Sprintf("there is no %s %s in the input", kind, p.binding.policy)
	if len(names) == 0 {
		p.inform(policyBinding, at, message)
		return
	}
	p.warn(policyBinding, at, message, nearest.DidYouMean(nearest.Name(p.binding.policy, slices.Values(names))))
}

// disjoint reports a binding that matches nothing of what its policy matches.
func (l *policyLinter) disjoint(p *policyObject, at *place, policy *policyObject) {
	if policy.matches == nil {
		l.quietly(policy)
	}
	theirs, ours := policy.matches.all(), p.matches.all()
	if len(theirs) == 0 || len(ours) == 0 || policy.matches.unknown || p.matches.unknown {
		return
	}
	for _, a := range ours {
		for _, b := range theirs {
			// Another version of the resource may be equivalent.
			if a.GroupResource() != b.GroupResource() || a.sub != b.sub {
				continue
			}
			for op := range a.operations {
				if b.operations[op] {
					return
				}
			}
		}
	}
	p.warn(policyMatch, at, fmt.Sprintf("the binding matches nothing: the policy %s has no rule for these requests", policy.name))
}

// quietly computes what a policy matches before it is linted.
func (l *policyLinter) quietly(policy *policyObject) {
	probe := &policyObject{check: newCheck(&selection{}, policy.sem), kind: policy.kind, name: policy.name, spec: policy.spec}
	l.matching(probe, root(), policy.spec.match)
	policy.matches = probe.matches
}

// paramObject reports a reference to a parameter that does not fit or does not exist.
func (l *policyLinter) paramObject(p *policyObject, at *place, policy *policyObject) {
	ref, gvk := p.binding.params, kindOf(policy.spec.params)
	e := l.resources.paramEndpoint(gvk)
	if e == nil {
		return // reported, or not known
	}
	if !e.namespaced && ref.Namespace != "" {
		p.warn(policyParam, at.child("namespace"), fmt.Sprintf("%s is cluster-scoped: with a namespace, the policy fails for all requests", gvk.Kind))
		return
	}
	if e.namespaced && ref.Namespace == "" {
		for _, m := range policy.matches.endpoints {
			if !m.namespaced {
				p.warn(policyParam, at, fmt.Sprintf("%s is namespaced, paramRef has no namespace, and the policy matches %s, which are cluster-scoped: it fails for them",
					gvk.Kind, m.name()))
				break
			}
		}
	}
	if ref.Name == "" || l.Incomplete {
		return
	}
	others := 0
	for _, o := range l.Objects {
		if o.GroupKind != gvk.GroupKind() {
			continue
		}
		if o.Name == ref.Name && (ref.Namespace == "" || o.Namespace == ref.Namespace || o.Namespace == "" && ref.Namespace == corev1.NamespaceDefault) {
			return
		}
		others++
	}
	name := ref.Name
	if ref.Namespace != "" {
		name = ref.Namespace + "/" + name
	}
	message := fmt.Sprintf("there is no %s %s in the input", gvk.Kind, name)
	switch denies := ref.ParameterNotFoundAction != nil && *ref.ParameterNotFoundAction == v1.DenyAction; {
	case others > 0:
		p.warn(policyParam, at.child("name"), message)
	case denies:
		p.add(policyParam, at.child("name"), note{severity: analysis.Info, detail: []string{"without it, all requests are denied"}}, message)
	}
}

// namespaceExists reports a namespace that is not among those of the input, if it has any.
func (l *policyLinter) namespaceExists(p *policyObject, at *place, name string) {
	switch name {
	case corev1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic, corev1.NamespaceNodeLease:
		return
	}
	var names []string
	for _, o := range l.Objects {
		if o.GroupKind == (runtimeschema.GroupKind{Kind: "Namespace"}) {
			if o.Name == name {
				return
			}
			names = append(names, o.Name)
		}
	}
	if len(names) > 0 {
		p.warn(policyNamespace, at, fmt.Sprintf("the input has namespaces, but not %s", name), nearest.DidYouMean(nearest.Name(name, slices.Values(names))))
	}
}

// selectedNamespaces reports names of namespaces in a selector that do not exist.
func (l *policyLinter) selectedNamespaces(p *policyObject, at *place, s *metav1.LabelSelector) {
	if s == nil {
		return
	}
	if name, ok := s.MatchLabels[corev1.LabelMetadataName]; ok {
		l.namespaceExists(p, at.child("matchLabels").key(corev1.LabelMetadataName), name)
	}
	for i, e := range s.MatchExpressions {
		if e.Key != corev1.LabelMetadataName || e.Operator != metav1.LabelSelectorOpIn {
			continue
		}
		for j, name := range e.Values {
			l.namespaceExists(p, at.child("matchExpressions").index(i).child("values").index(j), name)
		}
	}
}
