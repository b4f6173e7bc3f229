package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/resourcequota"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	quotav1 "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/apiserver/pkg/quota/v1/generic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/quota/v1/evaluator/core"
)

// usage is what is used of a quota.
type usage struct {
	Name string              `json:"name"`
	Used corev1.ResourceList `json:"used"`
}

// charge charges a request to the existing quotas, and counts what existing objects use of them.
// The object of the answer has both.
func charge(req *request) (answer, error) {
	c, err := newCall(req, req.Operation)
	if err != nil {
		return answer{}, err
	}
	client, err := kubernetes.NewForConfig(&restclient.Config{Host: "http://localhost", Transport: nothing{}})
	if err != nil {
		return answer{}, err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	lister := func(r schema.GroupVersionResource) (cache.GenericLister, error) {
		i, err := factory.ForResource(r)
		if err != nil {
			return nil, err
		}
		return i.Lister(), nil
	}
	evaluators, err := core.NewEvaluators(lister, factory, nil)
	if err != nil {
		return answer{}, err
	}
	registry := generic.NewRegistry(evaluators)
	if gr := c.gvr.GroupResource(); registry.Get(gr) == nil {
		registry.Add(generic.NewObjectCountEvaluator(gr, generic.ListResourceUsingListerFunc(lister, c.gvr), ""))
	}
	if err := addExisting(factory, req.Existing); err != nil {
		return answer{}, err
	}
	var quotas []corev1.ResourceQuota
	for _, obj := range factory.Core().V1().ResourceQuotas().Informer().GetIndexer().List() {
		quotas = append(quotas, *obj.(*corev1.ResourceQuota))
	}
	slices.SortFunc(quotas, func(a, b corev1.ResourceQuota) int { return strings.Compare(a.Name, b.Name) })
	attributes, err := c.attributes(req)
	if err != nil {
		return c.answer(nil, err)
	}
	charged, err := resourcequota.CheckRequest(quotas, attributes, registry.Get(c.gvr.GroupResource()), nil)
	if err != nil {
		return c.answer(nil, err)
	}
	var out struct {
		Charged []usage `json:"charged"`
		Counted []usage `json:"counted"`
	}
	for _, q := range charged {
		out.Charged = append(out.Charged, usage{q.Name, q.Status.Used})
		used, err := quotav1.CalculateUsage(req.Namespace, q.Spec.Scopes, q.Spec.Hard, registry, q.Spec.ScopeSelector)
		if err != nil {
			return answer{}, err
		}
		out.Counted = append(out.Counted, usage{q.Name, used})
	}
	a := answer{}
	a.Object, err = json.Marshal(out)
	return a, err
}

// attributes returns the attributes of a write.
func (c *call) attributes(req *request) (admission.Attributes, error) {
	obj, err := c.decodeNew(req.Object)
	if err != nil {
		return nil, err
	}
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return nil, err
	}
	if c.strategy.NamespaceScoped() && accessor.GetNamespace() == "" {
		accessor.SetNamespace(req.Namespace)
	}
	var old runtime.Object
	if len(req.Old) > 0 {
		if old, err = c.decodeStored(req.Old); err != nil {
			return nil, fmt.Errorf("old: %w", err)
		}
	}
	user, _ := genericapirequest.UserFrom(c.ctx)
	return admission.NewAttributesRecord(obj, old, c.gvr.GroupVersion().WithKind(c.kind), req.Namespace, accessor.GetName(), c.gvr, req.Subresource,
		admission.Operation(req.Operation), nil, false, user), nil
}
