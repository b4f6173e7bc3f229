package quota

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apiserver/pkg/admission"
	quota "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/apiserver/pkg/quota/v1/generic"
)

// List returns the stored objects of a resource in a namespace. They must not be changed.
type List func(resource schema.GroupResource, namespace string) ([]runtime.Object, error)

// Count returns the number of stored objects of a resource in a namespace.
type Count func(resource schema.GroupResource, namespace string) (int64, error)

// ignored reports whether objects of a resource are never counted: they are not stored, or are
// events, which Kubernetes does not count.
func ignored(r schema.GroupResource) bool {
	switch r {
	case schema.GroupResource{Resource: "bindings"}, schema.GroupResource{Resource: "componentstatuses"},
		schema.GroupResource{Group: "authentication.k8s.io", Resource: "tokenreviews"},
		schema.GroupResource{Group: "authentication.k8s.io", Resource: "selfsubjectreviews"},
		schema.GroupResource{Group: "authorization.k8s.io", Resource: "subjectaccessreviews"},
		schema.GroupResource{Group: "authorization.k8s.io", Resource: "selfsubjectaccessreviews"},
		schema.GroupResource{Group: "authorization.k8s.io", Resource: "localsubjectaccessreviews"},
		schema.GroupResource{Group: "authorization.k8s.io", Resource: "selfsubjectrulesreviews"},
		schema.GroupResource{Resource: "events"}, schema.GroupResource{Group: "events.k8s.io", Resource: "events"}:
		return true
	}
	return false
}

// Evaluator returns the evaluator of a resource. It can measure stored objects only if list and
// count are set.
func Evaluator(r schema.GroupResource, list List, count Count) quota.Evaluator {
	for _, e := range evaluators(list) {
		if e.resource == r {
			return e
		}
	}
	return newCounter(r, count)
}

// evaluators returns the evaluators of the resources of which more than the number is measured.
func evaluators(list List) []*evaluator {
	all := []*evaluator{pods(), services(), claims(), deviceClaims(list)}
	for _, e := range all {
		e.list = list
	}
	return all
}

// evaluator measures the objects of one resource. It implements [quota.Evaluator].
type evaluator struct {
	resource schema.GroupResource
	list     List
	// handles reports whether a request can change what is used.
	handles func(admission.Attributes) bool
	// matches reports whether a name in a quota is measured by this evaluator.
	matches func(corev1.ResourceName) bool
	// usage measures an object.
	usage func(runtime.Object) (corev1.ResourceList, error)
	// scope reports whether an object is in a scope; nil means that there are no scopes.
	scope func(corev1.ScopedResourceSelectorRequirement, runtime.Object) (bool, error)
	// constraints returns an error if an object does not have what the quota measures.
	constraints func([]corev1.ResourceName, runtime.Object) error
}

var _ quota.Evaluator = &evaluator{}

// GroupResource implements quota.Evaluator.
func (e *evaluator) GroupResource() schema.GroupResource { return e.resource }

// Handles implements quota.Evaluator.
func (e *evaluator) Handles(a admission.Attributes) bool { return e.handles(a) }

// Usage implements quota.Evaluator.
func (e *evaluator) Usage(obj runtime.Object) (corev1.ResourceList, error) { return e.usage(obj) }

// Constraints implements quota.Evaluator.
func (e *evaluator) Constraints(required []corev1.ResourceName, obj runtime.Object) error {
	if e.constraints == nil {
		return nil
	}
	return e.constraints(required, obj)
}

// Matches implements quota.Evaluator.
func (e *evaluator) Matches(q *corev1.ResourceQuota, obj runtime.Object) (bool, error) {
	return generic.Matches(q, obj, e.MatchingResources, e.inScope)
}

func (e *evaluator) inScope(s corev1.ScopedResourceSelectorRequirement, obj runtime.Object) (bool, error) {
	if e.scope == nil {
		return false, nil
	}
	return e.scope(s, obj)
}

// MatchingResources implements quota.Evaluator.
func (e *evaluator) MatchingResources(names []corev1.ResourceName) []corev1.ResourceName {
	return slices.DeleteFunc(slices.Clone(names), func(name corev1.ResourceName) bool { return !e.matches(name) })
}

// MatchingScopes implements quota.Evaluator.
func (e *evaluator) MatchingScopes(obj runtime.Object,
	scopes []corev1.ScopedResourceSelectorRequirement) (matching []corev1.ScopedResourceSelectorRequirement, err error) {
	for _, s := range scopes {
		ok, err := e.inScope(s, obj)
		if err != nil {
			return nil, fmt.Errorf("error on matching scope %v: %w", s, err)
		}
		if ok {
			matching = append(matching, s)
		}
	}
	return matching, nil
}

// UncoveredQuotaScopes implements quota.Evaluator.
func (e *evaluator) UncoveredQuotaScopes(limited,
	covered []corev1.ScopedResourceSelectorRequirement) (uncovered []corev1.ScopedResourceSelectorRequirement, err error) {
	if e.scope == nil {
		return nil, nil
	}
	for _, s := range limited {
		if !slices.ContainsFunc(covered, func(c corev1.ScopedResourceSelectorRequirement) bool { return c.ScopeName == s.ScopeName }) {
			uncovered = append(uncovered, s)
		}
	}
	return uncovered, nil
}

// UsageStats implements quota.Evaluator.
func (e *evaluator) UsageStats(o quota.UsageStatsOptions) (quota.UsageStats, error) {
	list := func(namespace string) ([]runtime.Object, error) { return e.list(e.resource, namespace) }
	return generic.CalculateUsageStats(o, list, e.inScope, e.usage)
}

// counter counts the objects of one resource without reading them.
type counter struct {
	quota.Evaluator
	names []corev1.ResourceName
	count Count
}

// newCounter returns the evaluator of a resource that is only counted.
func newCounter(r schema.GroupResource, count Count) quota.Evaluator {
	c := &counter{names: []corev1.ResourceName{generic.ObjectCountQuotaResourceNameFor(r)}, count: count}
	var alias corev1.ResourceName
	if name := corev1.ResourceName(r.Resource); r.Group == "" && counted(name) {
		alias = name
		c.names = append(c.names, alias)
	}
	c.Evaluator = generic.NewObjectCountEvaluator(r, nil, alias)
	return c
}

// counted reports whether a name without count/ limits the number of objects of the resource of
// that name.
func counted(name corev1.ResourceName) bool {
	switch name {
	case corev1.ResourceConfigMaps, corev1.ResourceQuotas, corev1.ResourceReplicationControllers, corev1.ResourceSecrets:
		return true
	}
	return false
}

// UsageStats implements quota.Evaluator.
func (c *counter) UsageStats(o quota.UsageStatsOptions) (stats quota.UsageStats, err error) {
	var n int64
	if len(o.Scopes) == 0 && (o.ScopeSelector == nil || len(o.ScopeSelector.MatchExpressions) == 0) {
		if n, err = c.count(c.GroupResource(), o.Namespace); err != nil {
			return stats, fmt.Errorf("failed to list content: %w", err)
		}
	}
	stats.Used = corev1.ResourceList{}
	for _, name := range o.Resources {
		if slices.Contains(c.names, name) {
			stats.Used[name] = whole(n)
		}
	}
	return stats, nil
}

// resourceOf returns the resource whose number a name in a quota limits, and reports whether
// it limits one.
func resourceOf(name corev1.ResourceName) (schema.GroupResource, bool) {
	if counted(name) {
		return schema.GroupResource{Resource: string(name)}, true
	}
	text, ok := strings.CutPrefix(string(name), "count/")
	return schema.ParseGroupResource(text), ok
}

// whole returns a number as a quantity.
func whole(n int64) resource.Quantity { return *resource.NewQuantity(n, resource.DecimalSI) }

// as returns an object as its Go type.
func as[T runtime.Object](obj runtime.Object) (T, error) {
	t, ok := obj.(T)
	if !ok {
		return t, fmt.Errorf("expected %T but got %T", t, obj)
	}
	return t, nil
}

// selects reports whether a scope selects one of some values. No values mean that there is none.
func selects(s corev1.ScopedResourceSelectorRequirement, values ...string) (bool, error) {
	op, ok := map[corev1.ScopeSelectorOperator]selection.Operator{
		corev1.ScopeSelectorOpIn: selection.In, corev1.ScopeSelectorOpNotIn: selection.NotIn,
		corev1.ScopeSelectorOpExists: selection.Exists, corev1.ScopeSelectorOpDoesNotExist: selection.DoesNotExist,
	}[s.Operator]
	if !ok {
		return false, fmt.Errorf("failed to parse and convert selector: %q is not a valid scope selector operator", s.Operator)
	}
	requirement, err := labels.NewRequirement(string(s.ScopeName), op, s.Values)
	if err != nil {
		return false, fmt.Errorf("failed to parse and convert selector: %w", err)
	}
	if len(values) == 0 {
		return requirement.Matches(labels.Set{}), nil
	}
	return slices.ContainsFunc(values, func(v string) bool { return requirement.Matches(labels.Set{string(s.ScopeName): v}) }), nil
}

// scopesDiffer reports whether two states of an object are in different scopes.
func (e *evaluator) scopesDiffer(before, after runtime.Object) bool {
	if e.scope == nil {
		return false
	}
	for _, name := range []corev1.ResourceQuotaScope{
		corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeBestEffort, corev1.ResourceQuotaScopeCrossNamespacePodAffinity,
	} {
		s := corev1.ScopedResourceSelectorRequirement{ScopeName: name}
		was, err := e.scope(s, before)
		is, failed := e.scope(s, after)
		if was != is || err != nil || failed != nil {
			return true
		}
	}
	if claim, ok := after.(*corev1.PersistentVolumeClaim); ok {
		old, ok := before.(*corev1.PersistentVolumeClaim)
		return !ok || !slices.Equal(attributeClasses(old), attributeClasses(claim))
	}
	return false
}
