package builtin

import (
	"net/http"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apiserver/pkg/endpoints/handlers"

	"espalier.dev/kinds"
	"espalier.dev/server/served"
)

// reviewHandler returns the handler of a request to a resource whose objects are only answered.
func (h *Handler) reviewHandler(r *kinds.Resource) (http.HandlerFunc, error) {
	storage := h.config.Reviews[r.GroupVersionResource()]
	if r.Group == "" && r.Plural == "bindings" {
		pods, err := h.endpoint(h.byName[corev1.Resource("pods")])
		if err != nil {
			return nil, err
		}
		storage = &unnamedBindingREST{bindingREST{store: pods.store}}
	}
	if storage == nil {
		return nil, served.NotFound()
	}
	scope, err := h.reviewScope(r)
	if err != nil {
		return nil, err
	}
	return handlers.CreateResource(storage, scope, h.config.Admission()), nil
}

// reviewScope returns the scope of requests to such a resource, and makes it on first use.
func (h *Handler) reviewScope(r *kinds.Resource) (*handlers.RequestScope, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s := h.reviews[r.GroupVersionResource()]; s != nil {
		return s, nil
	}
	types, err := h.types()
	if err != nil {
		return nil, err
	}
	// The types of field management would take long to make, and nothing is applied here.
	s, err := managedBy(managedfields.NewDeducedTypeConverter(), h.newScope(r, &kinds.Converter{Scheme: types}), "", nil)
	if err != nil {
		return nil, err
	}
	h.reviews[r.GroupVersionResource()] = &s
	return &s, nil
}
