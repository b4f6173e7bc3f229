package builtin

import (
	"fmt"
	"maps"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apiserver/pkg/endpoints/handlers"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/client-go/applyconfigurations"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"espalier.dev/kinds"
	"espalier.dev/kinds/kind"
	"espalier.dev/openapi"
	managed "espalier.dev/server/fields"
	"espalier.dev/server/keys"
	serverrest "espalier.dev/server/rest"
	"espalier.dev/server/served"
	"espalier.dev/server/tokens"
)

// endpoint serves one version of a resource.
type endpoint struct {
	*encoding
	resource *kinds.Resource
	rules    kind.Rules
	store    *registry.Store
	// storage is the store for writes of whole objects, with what is special for the kind.
	storage rest.StandardStorage
	scope   handlers.RequestScope
	// subresources are the endpoints below an object, by name.
	subresources map[string]*subendpoint
}

// subendpoint serves a subresource: it updates the object, or creates something from it.
type subendpoint struct {
	scope   handlers.RequestScope
	patcher rest.Patcher
	creater rest.NamedCreater
}

// newEndpoint returns the endpoint of a resource.
func (h *Handler) newEndpoint(r *kinds.Resource) (*endpoint, error) {
	types, err := h.types()
	if err != nil {
		return nil, err
	}
	stored := r.StoredKind()
	e := &endpoint{resource: r, rules: h.rules(r), subresources: map[string]*subendpoint{}}
	if e.encoding, err = h.encoding(r); err != nil {
		return nil, err
	}
	conv := e.convertor
	newList, err := creator(types, stored.GroupVersion().WithKind(stored.Kind+"List"))
	if err != nil {
		return nil, err
	}
	main := &strategy{ObjectTyper: types.Scheme, NameGenerator: nameGenerator(&e.rules, r, h.config.IDs), resource: r,
		rules: &e.rules, write: &e.rules.Main, ids: h.config.IDs, tracked: h.tracked, permitted: h.devicePermission(r, "")}
	e.store = &registry.Store{
		NewFunc:                   e.newObject,
		NewListFunc:               newList,
		DefaultQualifiedResource:  r.GroupResource(),
		SingularQualifiedResource: runtimeschema.GroupResource{Group: r.Group, Resource: r.Singular},
		CreateStrategy:            main,
		UpdateStrategy:            main,
		DeleteStrategy:            main,
		ResetFieldsStrategy:       main,
		ReturnDeletedObject:       r.ReturnsDeleted,
		TableConvertor:            tableConvertor(r.GroupResource()),
	}
	if e.rules.Graceful != nil {
		e.store.DeleteStrategy = &gracefulStrategy{main}
	}
	if r.IsEvent() {
		e.store.TTLFunc = func(runtime.Object, uint64, bool) (uint64, error) { return uint64(h.config.EventTTL.Seconds()), nil }
	}
	if appliesAtOnce(r) {
		applyAtOnce(e.store, h.objects)
	}
	if err := e.store.CompleteWithOptions(&generic.StoreOptions{
		RESTOptions: &serverrest.Options{RESTOptionsGetter: h.config.Storage(r), Codec: e.codec,
			Directory: keys.BuiltinDirectory(r.GroupResource())},
		AttrFunc: main.attributes,
	}); err != nil {
		return nil, fmt.Errorf("storage of %s: %w", r.GroupResource(), err)
	}
	e.storage = e.store
	if e.rules.Graceful != nil {
		e.storage = &gracefulREST{e.store}
	}
	if stored.Group == "" && stored.Kind == "Service" {
		e.storage = h.newServiceStorage(e)
	}
	if stored.Group == "" && stored.Kind == "Namespace" {
		e.store.ShouldDeleteDuringUpdate = finalized
		e.storage = &namespaceREST{e.store}
	}
	base := h.newScope(r, conv)
	base.HubGroupVersion, base.TableConvertor = stored.GroupVersion(), e.store
	if e.scope, err = h.managed(base, "", main); err != nil {
		return nil, err
	}
	for _, sub := range r.Subresources {
		if err := h.addSubresource(e, base, sub); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// newScope returns the scope of the requests for a resource.
func (h *Handler) newScope(r *kinds.Resource, conv *kinds.Converter) handlers.RequestScope {
	return serverrest.NewScope(r.Namespaced, handlers.RequestScope{
		Serializer:               newBodySerializer(conv),
		StandardSerializers:      conv.Codecs.SupportedMediaTypes(),
		Creater:                  conv.Scheme.Scheme,
		UnsafeConvertor:          conv,
		Defaulter:                conv.Scheme,
		Typer:                    conv.Scheme.Scheme,
		Authorizer:               h.config.Authorizer,
		EquivalentResourceMapper: h.equivalents(),
		Resource:                 r.GroupVersionResource(),
		Kind:                     r.GroupVersionKind(),
		HubGroupVersion:          r.GroupVersionKind().GroupVersion(),
		MaxRequestBodyBytes:      h.config.MaxRequestBodyBytes,
	})
}

// managed adds field management to a scope.
func (h *Handler) managed(scope handlers.RequestScope, subresource string, s *strategy) (handlers.RequestScope, error) {
	var reset map[fieldpath.APIVersion]fieldpath.Filter
	if s != nil {
		reset = fieldpath.NewExcludeFilterSetMap(s.GetResetFields())
	}
	return managedBy(h.fieldTypes(scope.Kind), scope, subresource, reset)
}

// fieldTypes returns the types of field management of a kind.
func (h *Handler) fieldTypes(gvk runtimeschema.GroupVersionKind) managedfields.TypeConverter {
	switch {
	case gvk == served.ScaleKind():
		return managedfields.NewDeducedTypeConverter() // a Scale has no lists
	case gvk.Group == tokens.Kind.Group:
		return managedfields.NewDeducedTypeConverter() // client-go does not know the lists of a TokenRequest, which is not stored
	case gvk.Group == apiregistrationv1.GroupName, gvk.Group == corev1.GroupName && gvk.Kind == "Binding":
		return lazyTypes{h.described}
	}
	return lazyTypes{h.converter}
}

// managedBy adds field management with types to a scope.
func managedBy(types managedfields.TypeConverter, scope handlers.RequestScope, subresource string,
	reset map[fieldpath.APIVersion]fieldpath.Filter) (_ handlers.RequestScope, err error) {
	scope.Subresource = subresource
	scope.FieldManager, err = managedfields.NewDefaultFieldManager(types, scope.UnsafeConvertor, scope.Defaulter,
		scope.Creater, scope.Kind, scope.HubGroupVersion, subresource, reset)
	if err != nil {
		return scope, fmt.Errorf("field management of %s: %w", scope.Resource, err)
	}
	return scope, nil
}

// lazyTypes are the types of field management. They take long to make, so that happens with the
// first write.
type lazyTypes struct {
	types func() (managedfields.TypeConverter, error)
}

func (l lazyTypes) ObjectToTyped(obj runtime.Object, o ...typed.ValidationOptions) (*typed.TypedValue, error) {
	c, err := l.types()
	if err != nil {
		return nil, err
	}
	return c.ObjectToTyped(obj, o...)
}

func (l lazyTypes) TypedToObject(v *typed.TypedValue) (runtime.Object, error) {
	c, err := l.types()
	if err != nil {
		return nil, err
	}
	return c.TypedToObject(v)
}

// Types returns the types that the kinds of a group are merged by.
func (h *Handler) Types(group string) (managedfields.TypeConverter, error) {
	if group == apiregistrationv1.GroupName {
		return h.described()
	}
	return h.converter()
}

// tracked returns an error if the fields of an object of a kind would take too long to track.
func (h *Handler) tracked(gvk runtimeschema.GroupVersionKind, obj runtime.Object) error {
	types, err := h.Types(gvk.Group)
	if err != nil {
		return err
	}
	return types.(*managed.Bounded).Check(obj, gvk)
}

// newConverter returns the types of field management of the kinds that client-go knows.
func (h *Handler) newConverter() (managedfields.TypeConverter, error) {
	types, err := h.types()
	if err != nil {
		return nil, err
	}
	return &managed.Bounded{TypeConverter: applyconfigurations.NewTypeConverter(types.Scheme)}, nil
}

// newDescribed returns the types of field management of the other kinds, made from what OpenAPI
// publishes.
func (h *Handler) newDescribed() (managedfields.TypeConverter, error) {
	types, err := h.types()
	if err != nil {
		return nil, err
	}
	schemas := map[string]*spec.Schema{}
	builder := openapi.New(openapi.Options{Scheme: types.Scheme})
	for _, r := range h.resources {
		if r.Group != apiregistrationv1.GroupName && r.GroupVersionKind() != corev1.SchemeGroupVersion.WithKind("Binding") {
			continue
		}
		doc, err := h.openAPI(r).V3(builder)
		if err != nil {
			return nil, err
		}
		maps.Copy(schemas, doc.Components.Schemas)
	}
	converter, err := managedfields.NewTypeConverter(schemas, false)
	if err != nil {
		return nil, err
	}
	return &managed.Bounded{TypeConverter: converter}, nil
}

// parsePath returns the path of a field, such as "status.loadBalancer".
func parsePath(path string) fieldpath.Path {
	var out fieldpath.Path
	for name := range strings.SplitSeq(path, ".") {
		out = append(out, fieldpath.PathElement{FieldName: &name})
	}
	return out
}

// lazily returns a function that calls f once, when it is first called, and again only after an
// error.
func lazily[T any](f func() (T, error)) func() (T, error) {
	var mu sync.Mutex
	var made bool
	var value T
	return func() (T, error) {
		mu.Lock()
		defer mu.Unlock()
		if made {
			return value, nil
		}
		v, err := f()
		if err == nil {
			made, value = true, v
		}
		return v, err
	}
}
