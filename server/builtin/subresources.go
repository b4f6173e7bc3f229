package builtin

import (
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/endpoints/handlers"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"

	"espalier.dev/kinds"
	serverrest "espalier.dev/server/rest"
	"espalier.dev/server/served"
)

// addSubresource adds a subresource to an endpoint.
func (h *Handler) addSubresource(e *endpoint, scope handlers.RequestScope, sub kinds.Subresource) (err error) {
	s := &subendpoint{}
	if sub.Kind.Kind != "" {
		scope.Kind = sub.Kind
	}
	switch sub.Name {
	case "scale":
		scope.HubGroupVersion = sub.Kind.GroupVersion()
		s.patcher = newScale(e.store, e.scope.Kind.GroupVersion())
	case "binding":
		scope.HubGroupVersion = sub.Kind.GroupVersion()
		s.creater = &bindingREST{store: e.store}
	case "token":
		scope.HubGroupVersion = sub.Kind.GroupVersion()
		s.creater = h.config.Tokens
	case "eviction":
		scope.HubGroupVersion = sub.Kind.GroupVersion()
		eviction := &evictionREST{handler: h, pods: e}
		s.creater, scope.AcceptsGroupVersionDelegate = eviction, eviction
	default:
		write, ok := e.rules.Write(sub.Name)
		if !ok && sub.Kind.Kind != "" {
			return nil // it needs a kubelet
		}
		if !ok {
			write = *kinds.Plain(e.resource).Status
		}
		strategy := *e.store.UpdateStrategy.(*strategy)
		strategy.write, strategy.permitted = &write, h.devicePermission(e.resource, sub.Name)
		store := *e.store
		store.UpdateStrategy, store.ResetFieldsStrategy = &strategy, &strategy
		store.BeginCreate, store.BeginUpdate = nil, nil // a subresource changes nothing that is allocated
		s.patcher = &serverrest.Object{Store: &store}
		if s.scope, err = h.managed(scope, sub.Name, &strategy); err != nil {
			return err
		}
		e.subresources[sub.Name] = s
		return nil
	}
	if s.creater != nil {
		scope.TableConvertor = nil // what it answers has no columns
	}
	if s.scope, err = h.managed(scope, sub.Name, nil); err != nil {
		return err
	}
	e.subresources[sub.Name] = s
	return nil
}

// subHandler returns the handler of a request for a subresource.
func (h *Handler) subHandler(info *apirequest.RequestInfo, r *kinds.Resource) (http.HandlerFunc, error) {
	e, err := h.endpoint(r)
	if err != nil {
		return nil, err
	}
	s := e.subresources[info.Subresource]
	if s == nil {
		return h.withoutKubelet(e, info), nil
	}
	if f := h.rest(&s.scope, r).Subresource(info.Verb, s.patcher, s.creater); f != nil {
		return f, nil
	}
	if info.Name == "" { // which makes a GET a list
		return nil, apierrors.NewBadRequest("name must be provided")
	}
	return nil, served.NotAllowed()
}
