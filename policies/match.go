package policies

import (
	"context"
	"errors"
	"fmt"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/object"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules"
)

// Namespaces reads namespaces.
type Namespaces interface {
	// Get returns a namespace that is in memory, or an error with the reason NotFound.
	Get(name string) (*corev1.Namespace, error)
	// Read returns a namespace that may not be in memory yet.
	Read(ctx context.Context, name string) (*corev1.Namespace, error)
}

// NamespaceResource is the resource of namespaces.
func NamespaceResource() runtimeschema.GroupResource {
	return runtimeschema.GroupResource{Resource: "namespaces"}
}

// Matcher decides which requests the policies, bindings and webhooks apply to.
type Matcher struct{ namespaces Namespaces }

// NewMatcher returns a Matcher that selects namespaces by their labels.
func NewMatcher(n Namespaces) *Matcher { return &Matcher{n} }

// match is the resource that a policy or a webhook matches: that of the request, or an equivalent one.
type match struct {
	resource runtimeschema.GroupVersionResource
	kind     runtimeschema.GroupVersionKind
}

// policy returns what a policy matches, or nil.
func (m *Matcher) policy(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces, constraints *admissionregistrationv1.MatchResources) (*match, error) {
	if constraints == nil {
		return nil, errors.New("policy contained no match constraints, a required field")
	}
	return m.resources(ctx, a, o, constraints)
}

// binding reports whether a binding matches.
func (m *Matcher) binding(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces, constraints *admissionregistrationv1.MatchResources) (bool, error) {
	if constraints == nil {
		return true, nil
	}
	found, err := m.resources(ctx, a, o, constraints)
	return found != nil, err
}

// resources returns what the constraints of a policy or a binding match, or nil.
func (m *Matcher) resources(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces, r *admissionregistrationv1.MatchResources) (*match, error) {
	switch {
	case r.NamespaceSelector == nil:
		return nil, nilSelector("namespace")
	case r.ObjectSelector == nil:
		return nil, nilSelector("object")
	}
	selected, unselectable := m.selects(ctx, a, r.NamespaceSelector, r.ObjectSelector)
	if !selected {
		return nil, nil
	}
	if excluded, err := matchRules(a, o, r.MatchPolicy, r.ExcludeResourceRules); excluded != nil || err != nil {
		return nil, err
	}
	found := &match{a.GetResource(), a.GetKind()}
	if len(r.ResourceRules) > 0 {
		var err error
		if found, err = matchRules(a, o, r.MatchPolicy, r.ResourceRules); found == nil || err != nil {
			return nil, err
		}
	}
	// The errors of selectors concern only requests that match otherwise.
	if unselectable != nil {
		return nil, unselectable
	}
	return found, nil
}

func nilSelector(what string) error {
	return fmt.Errorf("a nil %s selector was passed, please ensure selectors are initialized properly", what)
}

// selects reports whether both selectors may match. If one of them cannot be evaluated, it returns
// the error that applies in case everything else matches.
func (m *Matcher) selects(ctx context.Context, a admission.Attributes, namespace, obj *metav1.LabelSelector) (bool, *apierrors.StatusError) {
	selected, unselectable := m.selectsNamespace(ctx, a, namespace)
	if !selected && unselectable == nil {
		return false, nil
	}
	selected, err := (&object.Matcher{}).MatchObjectSelector(objectSelector{obj}, a)
	if !selected && err == nil {
		return false, nil
	}
	if unselectable == nil {
		unselectable = err
	}
	return true, unselectable
}

// objectSelector is a selector for labels of the object.
type objectSelector struct{ *metav1.LabelSelector }

func (s objectSelector) GetParsedObjectSelector() (labels.Selector, error) {
	return metav1.LabelSelectorAsSelector(s.LabelSelector)
}

// selectsNamespace reports whether a selector matches the namespace of a request. It matches all
// requests for cluster-scoped resources other than namespaces.
func (m *Matcher) selectsNamespace(ctx context.Context, a admission.Attributes, s *metav1.LabelSelector) (bool, *apierrors.StatusError) {
	if a.GetNamespace() == "" && a.GetResource().Resource != "namespaces" {
		return true, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return false, apierrors.NewInternalError(err)
	}
	if selector.Empty() {
		return true, nil
	}
	set, err := m.namespaceLabels(ctx, a)
	if err == nil {
		return selector.Matches(labels.Set(set)), nil
	}
	if status, ok := err.(apierrors.APIStatus); ok && apierrors.IsNotFound(err) {
		return false, &apierrors.StatusError{ErrStatus: status.Status()}
	}
	return false, apierrors.NewInternalError(err)
}

// namespaceLabels returns the labels of the namespace of a request. A request that writes a namespace
// has them in its object.
func (m *Matcher) namespaceLabels(ctx context.Context, a admission.Attributes) (map[string]string, error) {
	writes := a.GetOperation() == admission.Create || a.GetOperation() == admission.Update
	if a.GetResource().Resource == "namespaces" && a.GetSubresource() == "" && writes {
		obj, err := meta.Accessor(a.GetObject())
		if err != nil {
			return nil, err
		}
		return obj.GetLabels(), nil
	}
	ns, err := m.namespace(ctx, a.GetNamespace())
	if err != nil {
		return nil, err
	}
	return ns.Labels, nil
}

// namespace returns a namespace, which may be newer than those in memory.
func (m *Matcher) namespace(ctx context.Context, name string) (*corev1.Namespace, error) {
	ns, err := m.namespaces.Get(name)
	if apierrors.IsNotFound(err) {
		return m.namespaces.Read(ctx, name)
	}
	return ns, err
}

// namespaceOf returns the namespace that expressions see, or nil for a cluster-scoped object. The
// attributes of a namespace name itself.
func (m *Matcher) namespaceOf(ctx context.Context, a admission.Attributes) (*corev1.Namespace, error) {
	if a.GetNamespace() == "" || a.GetKind() == corev1.SchemeGroupVersion.WithKind("Namespace") {
		return nil, nil
	}
	return m.namespace(ctx, a.GetNamespace())
}

// as are the attributes of a request for an equivalent resource.
type as struct {
	admission.Attributes
	resource runtimeschema.GroupVersionResource
}

func (a *as) GetResource() runtimeschema.GroupVersionResource { return a.resource }

// matchRules returns what the first rule of a policy or a binding matches that applies to a request, or
// nil. Rules for the resource of the request take precedence over those for equivalent ones.
func matchRules(a admission.Attributes, o admission.ObjectInterfaces, policy *admissionregistrationv1.MatchPolicyType,
	list []admissionregistrationv1.NamedRuleWithOperations) (*match, error) {
	named := func(i int) bool {
		return len(list[i].ResourceNames) == 0 || slices.Contains(list[i].ResourceNames, a.GetName())
	}
	for i := range list {
		if applies(list[i].RuleWithOperations, a) && named(i) {
			return &match{a.GetResource(), a.GetKind()}, nil
		}
	}
	if policy == nil || *policy == admissionregistrationv1.Exact {
		return nil, nil
	}
	return matchEquivalent(a, o, len(list), func(i int) admissionregistrationv1.RuleWithOperations { return list[i].RuleWithOperations }, named)
}

// matchEquivalent returns the equivalent resource that the first of n rules matches, or nil. accepts
// reports whether a rule that matches applies.
func matchEquivalent(a admission.Attributes, o admission.ObjectInterfaces, n int,
	rule func(int) admissionregistrationv1.RuleWithOperations, accepts func(int) bool) (*match, error) {
	mapper := o.GetEquivalentResourceMapper()
	equivalents := mapper.EquivalentResourcesFor(a.GetResource(), a.GetSubresource())
	for i := range n {
		for _, resource := range equivalents {
			if resource == a.GetResource() || !applies(rule(i), &as{a, resource}) {
				continue
			}
			kind := mapper.KindFor(resource, a.GetSubresource())
			if kind.Empty() {
				return nil, fmt.Errorf("unable to convert to %v: unknown kind", resource)
			}
			if accepts(i) {
				return &match{resource, kind}, nil
			}
		}
	}
	return nil, nil
}

func applies(r admissionregistrationv1.RuleWithOperations, a admission.Attributes) bool {
	return (&rules.Matcher{Rule: r, Attr: a}).Matches()
}
