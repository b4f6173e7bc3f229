package builtin

import (
	"fmt"

	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/rest"
)

// Subresource returns a subresource that updates objects, such as status, for writes of the
// server itself.
func (h *Handler) Subresource(gvr runtimeschema.GroupVersionResource, name string) (rest.Patcher, error) {
	r := h.resources[gvr]
	if r == nil {
		return nil, fmt.Errorf("there is no resource %s", gvr)
	}
	e, err := h.endpoint(r)
	if err != nil {
		return nil, err
	}
	s := e.subresources[name]
	if s == nil || s.patcher == nil {
		return nil, fmt.Errorf("%s has no subresource %s that updates it", gvr, name)
	}
	return s.patcher, nil
}
