package custom

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apiserver/pkg/endpoints/handlers"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/client-go/scale"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"espalier.dev/crd"
	"espalier.dev/policies"
	"espalier.dev/server/fields"
	serverrest "espalier.dev/server/rest"
	"espalier.dev/server/served"
)

// serving holds everything to serve one CRD until its spec changes.
type serving struct {
	handler *Handler
	fixed   *Fixed
	// definition is the newest state that is served this way; its status may differ from the
	// first.
	definition atomic.Pointer[crd.Definition]
	convertor  *objectConvertor
	types      *fields.Types

	// An endpoint asks for kinds while it is built, because it encodes a test object.
	mu        sync.Mutex
	endpoints map[string]*endpoint
	destroyed bool
	kinds     Kinds
	madeMu    sync.Mutex
	made      map[string]Kind // by version

	// named is set if metrics name the resource.
	named bool
	// requests counts the running requests; gone ends when the CRD has changed.
	requests serverrest.Usage
	gone     context.Context
	leave    context.CancelFunc
	// used is set by each request, and reset by each sweep.
	used atomic.Bool
}

// newServing returns the serving of a CRD. kinds receives a function that returns the Kind of
// another version.
func (h *Handler) newServing(d *crd.Definition, b *Fixed, kinds func(kind func(version string) (Kind, error)) Kinds) *serving {
	s := &serving{handler: h, fixed: b, made: map[string]Kind{}, endpoints: map[string]*endpoint{}}
	s.definition.Store(d)
	s.requests.Free = func() { h.discard(s) }
	s.types = fields.NewTypes(d)
	s.kinds = kinds(s.kind)
	s.convertor = &objectConvertor{definition: d, converter: s.kinds}
	s.gone, s.leave = context.WithCancel(context.Background())
	s.named = b != nil || h.named.add(d.GroupResource())
	s.used.Store(true)
	return s
}

// serves reports whether this serving also fits another state of the CRD.
func (s *serving) serves(d *crd.Definition) bool {
	return s.definition.Load().Equivalent(d)
}

// terminating reports whether this server knows that the CRD is being deleted.
func (s *serving) terminating() bool {
	if s.fixed != nil {
		return false
	}
	d := s.handler.config.Source.Catalog().Get(s.definition.Load().Name())
	return d == nil || d.Terminating()
}

// close ends watches immediately, and closes the storage when the running requests have
// finished. Work that a timed-out request has left behind may still use the storage: it
// fails, or writes what the fence allows.
func (s *serving) close() {
	s.leave()
	s.requests.Close()
}

func (s *serving) destroy() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.endpoints {
		e.store.DestroyFunc()
	}
	clear(s.endpoints)
	s.destroyed = true
}

// kind returns the Kind of a version, served or not.
func (s *serving) kind(version string) (Kind, error) {
	s.madeMu.Lock()
	defer s.madeMu.Unlock()
	if k, ok := s.made[version]; ok {
		return k, nil
	}
	v := s.convertor.definition.Version(version)
	if v == nil {
		return nil, fmt.Errorf("%s has no version %s", s.convertor.definition.Name(), version)
	}
	k, err := s.kinds.Kind(v)
	if err != nil {
		return nil, fmt.Errorf("version %s of %s cannot be served: %w", version, s.convertor.definition.Name(), err)
	}
	s.made[version] = k
	return k, nil
}

// endpoint is one served version.
type endpoint struct {
	version     *crd.Version
	kind        Kind
	strategy    *strategy
	codec       *storageCodec
	description *served.Description
	// labels are the names of the version in metrics.
	labels  runtimeschema.GroupVersionResource
	store   *registry.Store
	storage rest.StandardStorage
	status  rest.Patcher
	scale   *serverrest.Scale
	// reader handles reads as bytes. It is nil if it cannot.
	reader *reader
	// fields and statusFields manage the fields of trees; they are nil for Go structs.
	fields, statusFields *fields.Manager

	serializer                     *bodySerializer
	scope, statusScope, scaleScope *handlers.RequestScope
}

// endpoint returns the endpoint of a version and builds it on first use, because many
// versions are never used.
func (s *serving) endpoint(version string) (*endpoint, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e, ok := s.endpoints[version]; ok {
		return e, nil
	}
	if s.destroyed {
		return nil, apierrors.NewServiceUnavailable("the CRD has changed: try again")
	}
	kind, err := s.kind(version)
	if err != nil {
		return nil, err
	}
	e, err := s.newEndpoint(s.convertor.definition.Version(version), kind)
	if err != nil {
		return nil, err
	}
	s.endpoints[version] = e
	return e, nil
}

func (s *serving) newEndpoint(v *crd.Version, kind Kind) (*endpoint, error) {
	d := v.Definition()
	gvk := v.GroupVersionKind()
	names := d.Names()
	if d.Storage() == nil {
		return nil, fmt.Errorf("%s has no storage version", d.Name())
	}
	strategy, err := newStrategy(v, kind, typer{s.handler.scheme}, s.handler.config.IDs)
	if err != nil {
		return nil, err
	}
	e := &endpoint{version: v, kind: kind, strategy: strategy, description: s.describe(v), labels: s.labels(v)}
	e.store = &registry.Store{
		NewFunc:                   kind.New,
		NewListFunc:               kind.NewList,
		DefaultQualifiedResource:  d.GroupResource(),
		SingularQualifiedResource: runtimeschema.GroupResource{Group: d.Group(), Resource: names.Singular},
		CreateStrategy:            strategy,
		UpdateStrategy:            strategy,
		DeleteStrategy:            strategy,
		ResetFieldsStrategy:       strategy,
		TableConvertor:            newTable(v.Spec().AdditionalPrinterColumns),
	}
	if s.fixed != nil {
		e.store.TableConvertor = rest.NewDefaultTableConvertor(d.GroupResource())
	}
	undecodableValues() // register the metric
	codec := &storageCodec{kind: kind, memory: gvk.GroupVersion(),
		stored: d.Storage().GroupVersionKind().GroupVersion(), undecodable: undecodableLog{resource: d.GroupResource()},
		written: s.handler.reads.written}
	e.codec = codec
	var options generic.RESTOptionsGetter
	if s.fixed != nil {
		options = s.fixed.Storage
	} else {
		options = s.handler.config.Storage(d)
	}
	if err := e.store.CompleteWithOptions(&generic.StoreOptions{
		RESTOptions: &serverrest.Options{RESTOptionsGetter: options, Codec: codec},
		AttrFunc:    strategy.attributes,
	}); err != nil {
		return nil, fmt.Errorf("storage of %s: %w", d.Name(), err)
	}
	e.storage = e.store
	if s.fixed != nil && s.fixed.Wrap != nil {
		e.storage = s.fixed.Wrap(e.store)
	}

	scope := s.handler.newScope(v, kind, s.convertor, s.kind)
	scope.EquivalentResourceMapper, scope.TableConvertor = policies.CustomEquivalents(d), e.store
	e.serializer = scope.Serializer.(*bodySerializer)
	if e.scope, e.fields, err = s.managed(scope, "", strategy.GetResetFields()); err != nil {
		return nil, err
	}
	// What a webhook converts is not kept: the handlers of k8s.io/apiserver read it.
	if k, ok := kind.(*customKind); ok && s.handler.reads.store != nil && (v.Storage() || !k.hasWebhook()) {
		e.reader = s.newReader(e, k, strategy)
	}
	if v.HasStatus() {
		st := *e.store
		st.UpdateStrategy, st.ResetFieldsStrategy = statusStrategy{strategy}, statusStrategy{strategy}
		e.status = s.wrap("status", &serverrest.Object{Store: &st})
		if e.statusScope, e.statusFields, err = s.managed(scope, "status", statusStrategy{strategy}.GetResetFields()); err != nil {
			return nil, err
		}
	}
	if sub := v.Spec().Subresources; sub != nil && sub.Scale != nil {
		e.scale = newScale(e.store, v, sub.Scale)
		scope.Kind, scope.Creater = served.ScaleKind(), scaleCreator{creator{s.kind}}
		scope.Serializer = serializer.NewCodecFactory(scale.NewScaleConverter().Scheme(),
			serializer.WithStreamingCollectionEncodingToJSON(), serializer.WithStreamingCollectionEncodingToProtobuf())
		scope.TableConvertor = newScaleTable()
		if e.scaleScope, _, err = s.managed(scope, "scale", nil); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// newScope returns the scope of the requests for a version. kinds returns the Kinds of all versions.
func (h *Handler) newScope(v *crd.Version, kind Kind, convertor *objectConvertor,
	kinds func(version string) (Kind, error)) handlers.RequestScope {
	gvk, typer := v.GroupVersionKind(), typer{h.scheme}
	serializer := newBodySerializer(kind, convertor, h.scheme, creator{kinds}, typer)
	return serverrest.NewScope(v.Definition().Namespaced(), handlers.RequestScope{
		Serializer:          serializer,
		StandardSerializers: serializer.standardMedia(),
		Creater:             creator{kinds},
		UnsafeConvertor:     convertor,
		Defaulter:           &defaulter{ObjectDefaulter: h.scheme, kinds: kinds, group: gvk.GroupKind()},
		Typer:               typer,
		Authorizer:          h.config.Authorizer,
		Resource:            gvk.GroupVersion().WithResource(v.Definition().Names().Plural),
		Kind:                gvk,
		HubGroupVersion:     gvk.GroupVersion(),
		MaxRequestBodyBytes: h.config.MaxRequestBodyBytes,
	})
}

// describe describes a version.
func (s *serving) describe(v *crd.Version) *served.Description {
	if s.fixed != nil && s.fixed.Describe != nil {
		return s.fixed.Describe(v)
	}
	return served.Describe(v)
}

// wrap applies the resource's wrapper to the storage of a subresource.
func (s *serving) wrap(subresource string, storage rest.Patcher) rest.Patcher {
	if s.fixed != nil && s.fixed.WrapSubresource != nil {
		return s.fixed.WrapSubresource(subresource, storage)
	}
	return storage
}

// managed adds field management to a scope. reset are the fields that the endpoint ignores.
// The Manager is nil if the objects are Go structs.
func (s *serving) managed(scope handlers.RequestScope, subresource string,
	reset map[fieldpath.APIVersion]*fieldpath.Set) (_ *handlers.RequestScope, m *fields.Manager, err error) {
	scope.Subresource = subresource
	if kinds, ok := s.kinds.(*customKinds); ok && scope.Kind != served.ScaleKind() {
		m, err = fields.New(fields.Config{
			Types: s.types, Kind: scope.Kind, Subresource: subresource,
			Reset:   reset[fieldpath.APIVersion(scope.Kind.GroupVersion().String())],
			Convert: kinds.convertOwned(),
			Default: func(obj map[string]any) { scope.Defaulter.Default(&unstructured.Unstructured{Object: obj}) },
		})
		if err != nil {
			return nil, nil, err
		}
		scope.FieldManager = m.Stock()
		return &scope, m, nil
	}
	convertor := scope.Convertor
	if s.fixed != nil {
		convertor = scope.UnsafeConvertor // a copy of a CRD is large, and the field manager only reads it
	}
	scope.FieldManager, err = managedfields.NewDefaultCRDFieldManager(s.types, convertor, scope.Defaulter, scope.Creater,
		scope.Kind, scope.HubGroupVersion, subresource, fieldpath.NewExcludeFilterSetMap(reset))
	if err != nil {
		return nil, nil, fmt.Errorf("field management of %s: %w", s.convertor.definition.Name(), err)
	}
	return &scope, nil, nil
}
