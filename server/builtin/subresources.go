package builtin

import (
	"context"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/handlers"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"

	"espalier.dev/kinds"
	"espalier.dev/server/resource"
	"espalier.dev/server/resources"
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
		s.patcher = &scaleREST{store: e.store, gv: e.scope.Kind.GroupVersion()}
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
		strategy.write = &write
		store := *e.store
		store.UpdateStrategy, store.ResetFieldsStrategy = &strategy, &strategy
		store.BeginCreate, store.BeginUpdate = nil, nil // a subresource changes nothing that is allocated
		s.patcher = &objectREST{store: &store}
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
	admit := h.config.Admission
	switch info.Verb {
	case "get":
		return handlers.GetResource(s.patcher, &s.scope), nil
	case "update":
		return handlers.UpdateResource(resources.WorkingPatcher(s.patcher, r.GroupVersionKind().GroupKind()), &s.scope, admit), nil
	case "patch":
		return handlers.PatchResource(resources.WorkingPatcher(s.patcher, r.GroupVersionKind().GroupKind()), &s.scope, admit, patchTypes()), nil
	case "create":
		return handlers.CreateNamedResource(s.creater, &s.scope, admit), nil
	}
	if info.Name == "" { // which makes a GET a list
		return nil, apierrors.NewBadRequest("name must be provided")
	}
	return nil, resource.NotAllowed()
}

// objectREST is a subresource that reads and writes the object itself, with rules of its own.
type objectREST struct{ store *registry.Store }

var _ rest.Patcher = &objectREST{}

// New returns an empty object.
func (r *objectREST) New() runtime.Object { return r.store.New() }

// Destroy does nothing: the store belongs to the main endpoint.
func (r *objectREST) Destroy() {}

// Get returns the object.
func (r *objectREST) Get(ctx context.Context, name string, o *metav1.GetOptions) (runtime.Object, error) {
	return r.store.Get(ctx, name, o)
}

// Update updates the object; it never creates one.
func (r *objectREST) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc, update rest.ValidateObjectUpdateFunc, _ bool, o *metav1.UpdateOptions) (runtime.Object, bool, error) {
	return r.store.Update(ctx, name, info, create, update, false, o)
}

// ConvertToTable returns the columns of the object.
func (r *objectREST) ConvertToTable(ctx context.Context, obj, options runtime.Object) (*metav1.Table, error) {
	return r.store.ConvertToTable(ctx, obj, options)
}
