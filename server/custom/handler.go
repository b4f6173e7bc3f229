package custom

import (
	"context"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/handlers"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
	"k8s.io/apiserver/pkg/endpoints/metrics"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/apiserver/pkg/warning"

	"espalier.dev/api"
	"espalier.dev/crd"
	"espalier.dev/kinds"
	"espalier.dev/schema"
	"espalier.dev/server/fence"
	"espalier.dev/server/ids"
	serverrest "espalier.dev/server/rest"
	"espalier.dev/server/served"
	"espalier.dev/server/webhooks"
	"espalier.dev/store"
)

// Source provides the CRDs.
type Source interface {
	// Catalog returns the newest catalog of this server.
	Catalog() *crd.Catalog
	// Refresh reads a CRD that is not in the catalog from the storage, because another server
	// may have written it, and returns when the catalog is at least as new. It returns an
	// error if the CRD is stored but cannot be served, because its resource does exist.
	Refresh(ctx context.Context, name string) error
}

// Fixed is a resource that no CRD defines: customresourcedefinitions itself.
type Fixed struct {
	Definition *crd.Definition
	Kinds      Kinds
	// Storage returns the storage options for its objects.
	Storage generic.RESTOptionsGetter
	// Describe describes a version.
	Describe func(*crd.Version) *served.Description
	// Wrap, if not nil, wraps the storage of a version, and WrapSubresource that of a
	// subresource.
	Wrap            func(*registry.Store) rest.StandardStorage
	WrapSubresource func(name string, storage rest.Patcher) rest.Patcher
}

// Config configures a Handler.
type Config struct {
	Source Source
	// Fixed are resources that no CRD defines, and Virtual those whose objects are
	// computed. A CRD cannot replace them.
	Fixed   []*Fixed
	Virtual []*Virtual
	// Store has all stored objects in memory.
	Store *store.Store
	// Storage returns the storage options for the objects of a CRD.
	Storage func(*crd.Definition) generic.RESTOptionsGetter
	// Admission returns the admission plugins, which use the handler.
	Admission  func() admission.Interface
	Authorizer authorizer.UnconditionalAuthorizer
	// IDs makes the names and UIDs of new objects. Nil means random ones.
	IDs *ids.Source
	// Scheme has the types of responses that are not resources, such as Status.
	Scheme *runtime.Scheme
	// Webhooks connects to conversion webhooks. The default finds services by DNS.
	Webhooks *webhooks.Network
	// Serves reports whether another handler serves resources of a group.
	Serves func(group string) bool
	// NotFound handles requests for groups that are not served.
	NotFound http.Handler
	// RequestTimeout limits requests other than watches; MinWatch is the minimum time after
	// which the server ends a watch.
	RequestTimeout, MinWatch time.Duration
	MaxRequestBodyBytes      int64
}

// Handler serves resources under /apis.
type Handler struct {
	config Config
	scheme *runtime.Scheme
	codecs serializer.CodecFactory
	reads  *reads
	noops  *noops
	// webhooks creates the clients of conversion webhooks.
	webhooks *webhook.ClientManager
	// named are the resources that metrics name.
	named metricNames
	// fixed, virtuals and servings are by the names of their definitions.
	fixed    map[string]*Fixed
	virtuals map[string]*virtual

	mu       sync.RWMutex
	servings map[string]*serving
	closed   bool
	// lifetime ends with Close, which cancels calls of webhooks.
	lifetime context.Context
	stop     context.CancelFunc

	// discards tracks the storage that is being closed; discarding guards it.
	discarding sync.Mutex
	discards   sync.WaitGroup
	discarded  bool
}

// New returns a handler for the resources of the source.
func New(c Config) (*Handler, error) {
	if c.Webhooks == nil {
		c.Webhooks = webhooks.NewNetwork(webhook.NewDefaultServiceResolver())
	}
	clients, err := c.Webhooks.NewClients(conversionReviews())
	if err != nil {
		return nil, fmt.Errorf("conversion webhooks: %w", err)
	}
	lifetime, stop := context.WithCancel(context.Background())
	h := &Handler{
		lifetime: lifetime, stop: stop, config: c, scheme: c.Scheme, codecs: serializer.NewCodecFactory(c.Scheme), reads: newReads(c.Store), noops: newNoops(),
		webhooks: clients, servings: map[string]*serving{}, fixed: map[string]*Fixed{}, virtuals: map[string]*virtual{},
		named: metricNames{resources: map[runtimeschema.GroupResource]bool{}},
	}
	for _, b := range c.Fixed {
		h.fixed[b.Definition.Name()] = b
	}
	for _, v := range c.Virtual {
		if h.virtuals[v.Definition.Name()], err = h.newVirtual(v); err != nil {
			stop()
			return nil, err
		}
	}
	return h, nil
}

// Storage returns the storage of a CRD's objects, in a version, for internal use. The caller
// must call release when it is done.
func (h *Handler) Storage(d *crd.Definition, version string) (storage rest.StandardStorage, release func(), err error) {
	storage, _, release, err = h.Scoped(d, version)
	return storage, release, err
}

// Scoped returns the storage of a CRD's objects, in a version, and the scope of requests for them,
// which admission needs. The caller must call release when it is done.
func (h *Handler) Scoped(d *crd.Definition, version string) (storage rest.StandardStorage,
	scope *handlers.RequestScope, release func(), err error) {
	s, err := h.acquire(d)
	if err != nil {
		return nil, nil, nil, err
	}
	e, err := s.endpoint(version)
	if err != nil {
		s.requests.Release()
		return nil, nil, nil, err
	}
	return e.storage, e.scope, s.requests.Release, nil
}

// Changed applies a new catalog: it closes the storage of resources that are no longer
// defined, or defined differently. names are the CRDs that may have changed; none means all.
func (h *Handler) Changed(c *crd.Catalog, names ...string) {
	for _, gone := range h.change(c, names) {
		h.forget(gone)
	}
}

// change returns the resources that are no longer defined.
func (h *Handler) change(c *crd.Catalog, names []string) (gone []runtimeschema.GroupResource) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(names) == 0 {
		names = slices.AppendSeq(h.named.names(), maps.Keys(h.servings))
	}
	for _, name := range names {
		d := c.Get(name)
		if d == nil && h.fixed[name] == nil {
			gone = append(gone, runtimeschema.ParseGroupResource(name))
		}
		s := h.servings[name]
		if s == nil || s.fixed != nil {
			continue
		}
		if d != nil && s.serves(d) {
			s.definition.Store(d)
			continue
		}
		delete(h.servings, name)
		s.close()
	}
	return gone
}

// Close ends all watches and closes all storage, even if it is in use.
func (h *Handler) Close() {
	h.stop()
	h.mu.Lock()
	h.closed = true
	for name, s := range h.servings {
		delete(h.servings, name)
		s.close()
		s.destroy()
	}
	h.mu.Unlock()

	h.discarding.Lock()
	h.discarded = true
	h.discarding.Unlock()
	h.discards.Wait()
}

// discard closes the storage of a serving that is no longer used. It does so in the
// background, because that takes a moment and the last user is answering a request.
func (h *Handler) discard(s *serving) {
	h.discarding.Lock()
	defer h.discarding.Unlock()
	if h.discarded {
		s.destroy()
		return
	}
	h.discards.Go(s.destroy)
}

// acquire returns the serving of a CRD. The caller must call requests.Release.
func (h *Handler) acquire(d *crd.Definition) (*serving, error) {
	h.mu.RLock()
	s := h.servings[d.Name()]
	if s != nil && s.serves(d) && s.requests.Acquire() {
		h.mu.RUnlock()
		s.use()
		return s, nil
	}
	h.mu.RUnlock()

	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, apierrors.NewServiceUnavailable("the server is shutting down")
	}
	if h.fixed[d.Name()] == nil {
		// The catalog may have changed since the lookup.
		if d = h.config.Source.Catalog().Get(d.Name()); d == nil {
			return nil, apierrors.NewServiceUnavailable("the CRD has been deleted")
		}
	}
	if s := h.servings[d.Name()]; s != nil {
		if s.serves(d) && s.requests.Acquire() {
			return s, nil
		}
		s.close()
	}
	s, err := h.make(d)
	if err != nil {
		return nil, err
	}
	h.servings[d.Name()] = s
	s.requests.Acquire()
	return s, nil
}

func (h *Handler) make(d *crd.Definition) (*serving, error) {
	if b := h.fixed[d.Name()]; b != nil {
		return h.newServing(d, b, func(func(string) (Kind, error)) Kinds { return b.Kinds }), nil
	}
	var converter treeConverter = relabel{}
	if c := d.CRD().Spec.Conversion; c != nil && c.Strategy == api.WebhookConverter {
		var err error
		if converter, err = newWebhookConverter(h.lifetime, h.webhooks, d.CRD()); err != nil {
			return nil, err
		}
	}
	return h.newServing(d, nil, func(kind func(string) (Kind, error)) Kinds {
		return &customKinds{definition: d, converter: converter, kind: kind}
	}), nil
}

// find looks up what a request is about, or returns nil if there is no such resource.
func (h *Handler) find(ctx context.Context, r *apirequest.RequestInfo) (*crd.Version, error) {
	gvr := runtimeschema.GroupVersionResource{Group: r.APIGroup, Version: r.APIVersion, Resource: r.Resource}
	name := gvr.GroupResource().String()
	var v *crd.Version
	if b := h.fixed[name]; b != nil {
		v = b.Definition.Version(r.APIVersion)
	} else if v = h.config.Source.Catalog().Resource(gvr); v == nil {
		if err := h.config.Source.Refresh(ctx, name); err != nil {
			return nil, err
		}
		v = h.config.Source.Catalog().Resource(gvr)
	}
	return v, nil
}

// route returns an error if a version does not have the path of a request, or its method. CRDs
// have the errors of kube-apiserver's own resources. For custom resources the errors of
// endpointHandler are those of kube-apiserver, and here are the rest.
func (s *serving) route(req *http.Request, r *apirequest.RequestInfo, v *crd.Version) error {
	if s.fixed != nil {
		routes := s.describe(v).Routes()
		routes.Media = served.OwnMedia
		return routes.Check(req, r)
	}
	namespaced := v.Definition().Namespaced()
	switch {
	case !namespaced && r.Namespace != "", namespaced && r.Namespace == "" && r.Verb != "list" && r.Verb != "watch":
		return served.NotFound()
	case len(r.Parts) > 3: // below a subresource
		return served.NotFound()
	case r.Verb == "create" && len(r.Parts) == 2:
		// kube-apiserver creates the object in the body, although the one in the path was
		// authorized.
		return served.NotAllowed()
	}
	return nil
}

// ServeHTTP handles a request for a resource. It needs the request info that the filters add
// to the context.
func (h *Handler) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r, ok := apirequest.RequestInfoFrom(req.Context())
	if !ok || !r.IsResourceRequest {
		h.unserved(w, req, r)
		return
	}
	if v := h.virtual(r); v != nil {
		v.serve(h, w, req, r)
		return
	}
	v, err := h.find(req.Context(), r)
	if err != nil {
		h.fail(w, req, r, err)
		return
	}
	if v == nil {
		h.unserved(w, req, r)
		return
	}
	s, err := h.acquire(v.Definition())
	if err != nil {
		h.fail(w, req, r, err)
		return
	}
	release := sync.OnceFunc(s.requests.Release)
	defer release()
	// The CRD may have changed since it was found.
	if v = s.definition.Load().Version(r.APIVersion); v == nil || !v.Served() {
		h.unserved(w, req, r)
		return
	}
	if err := s.route(req, r, v); err != nil {
		h.fail(w, req, r, err)
		return
	}
	e, err := s.endpoint(r.APIVersion)
	if err != nil {
		h.fail(w, req, r, err)
		return
	}
	if text := v.DeprecationWarning(); text != "" {
		warning.AddWarning(req.Context(), "", text)
	}
	sent, _, _ := mime.ParseMediaType(req.Header.Get("Content-Type"))
	if !e.serializer.supports(sent) && (r.Verb == "create" || r.Verb == "update") && r.Subresource != "scale" {
		h.fail(w, req, r, negotiation.NewUnsupportedMediaTypeError([]string{runtime.ContentTypeJSON, runtime.ContentTypeYAML}))
		return
	}
	if s.fixed != nil {
		w = serverrest.NameTypes(w, req, r.Verb, kinds.InternalPackage(r.APIGroup))
	}
	req = req.WithContext(withOutcome(req.Context()))
	f, err := h.endpointHandler(req, r, s, e, release)
	if err != nil {
		h.fail(w, req, r, err)
		return
	}
	metrics.InstrumentHandlerFunc(strings.ToUpper(r.Verb), e.labels.Group, e.labels.Version,
		e.labels.Resource, r.Subresource, metrics.CleanScope(r),
		metrics.APIServerComponent, v.Spec().Deprecated, "", f)(w, req)
	if s.gone.Err() != nil && s.fixed == nil {
		h.forget(v.Definition().GroupResource())
	}
}

func (h *Handler) fail(w http.ResponseWriter, req *http.Request, r *apirequest.RequestInfo, err error) {
	serverrest.Fail(w, req, r, h.codecs, err)
}

// unserved answers a request for a path that does not exist. As in kube-apiserver, the answer is a
// Status in the groups of the server itself. Unlike there, it also is one in the versions that CRDs
// serve.
func (h *Handler) unserved(w http.ResponseWriter, req *http.Request, r *apirequest.RequestInfo) {
	if r != nil && h.serves(strings.Split(strings.Trim(r.Path, "/"), "/")) {
		h.fail(w, req, r, served.NotFound())
		return
	}
	h.config.NotFound.ServeHTTP(w, req)
}

// serves reports whether there are resources in the group and version of a path.
func (h *Handler) serves(path []string) bool {
	if path[0] == "api" {
		return h.config.Serves != nil && h.config.Serves("")
	}
	if path[0] != "apis" || len(path) < 2 || path[1] == "" {
		return false
	}
	group := path[1]
	if h.config.Serves != nil && h.config.Serves(group) {
		return true
	}
	if len(path) > 2 && h.config.Source.Catalog().Serves(runtimeschema.GroupVersion{Group: group, Version: path[2]}) {
		return true
	}
	for _, b := range h.fixed {
		if b.Definition.Group() == group {
			return true
		}
	}
	for _, v := range h.virtuals {
		if v.Definition.Group() == group {
			return true
		}
	}
	return false
}

// endpointHandler returns the handler of a request, by its subresource and verb. A watch
// calls release when it no longer needs the serving.
func (h *Handler) endpointHandler(req *http.Request, r *apirequest.RequestInfo, s *serving,
	e *endpoint, release func()) (http.HandlerFunc, error) {
	admit := &creationGate{Interface: h.config.Admission(), serving: s}
	gr := runtimeschema.GroupResource{Group: r.APIGroup, Resource: r.Resource}
	if r.Subresource != "" && e.description.Subresource(r.Subresource) == nil {
		return nil, apierrors.NewNotFound(gr, r.Name)
	}
	if !e.description.Can(r.Verb, r.Subresource) {
		return nil, apierrors.NewMethodNotSupported(gr, r.Verb)
	}
	if write := s.writeHandler(req.Context(), e, r); write != nil {
		return write, nil
	}
	endpoint := serverrest.Endpoint{Kind: e.scope.Kind.GroupKind(), Admission: admit,
		PatchTypes: e.patchMediaTypes(), MinWatch: h.config.MinWatch}
	var f http.HandlerFunc
	switch {
	case r.Subresource == "":
		endpoint.Scope, _ = e.replacing(req.Context(), e.scope, r)
		f = endpoint.Handler(r.Verb, serverrest.Storage{Reads: e.storage, Watches: servingWatcher{e.storage, s,
			release}, Writes: e.storage, Deletes: indexDeleter{e.storage, e}})
		switch r.Verb {
		case "get", "list", "watch":
			f = e.reader.handler(s, release, f)
		case "delete", "deletecollection":
			f = s.unlabelled(r, f)
		}
	case r.Subresource == "status" && e.status != nil:
		endpoint.Scope, _ = e.replacing(req.Context(), e.statusScope, r)
		f = endpoint.Subresource(r.Verb, e.status, nil)
	case r.Subresource == "scale" && e.scale != nil:
		endpoint.Scope = e.scaleScope
		f = endpoint.Subresource(r.Verb, e.scale, nil)
	}
	if f == nil {
		return nil, apierrors.NewMethodNotSupported(gr, r.Verb)
	}
	if k, ok := e.kind.(PatchKind); ok && r.Verb == "patch" {
		switch types.PatchType(serverrest.MediaType(req)) {
		case types.ApplyYAMLPatchType:
			f = h.checkApplied(k, r, f)
		case types.StrategicMergePatchType:
			f = h.checkStrategic(k, r, f)
		}
	}
	return f, nil
}

// replacing returns a scope for one request. Decoding is strict about types, but values that
// are already stored pass, so a request that replaces an object must read it.
func (e *endpoint) replacing(ctx context.Context, scope *handlers.RequestScope,
	r *apirequest.RequestInfo) (*handlers.RequestScope, replacement) {
	if r.Verb != "update" && r.Verb != "patch" {
		return scope, nil
	}
	stored := func() (schema.Object, error) {
		obj, err := e.store.Get(apirequest.WithNamespace(ctx, r.Namespace), r.Name, &metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		return content(obj), nil
	}
	s := *scope
	s.Serializer = e.serializer.replacing(stored)
	return &s, stored
}

// servingWatcher is a storage whose watches end with their serving. For a watch from an invalid
// resourceVersion it returns a bad request error, as for a list, instead of an internal
// error.
type servingWatcher struct {
	rest.Watcher
	serving *serving
	// release is called when a watch has started. The watch ends with the serving, so it does
	// not delay the closing of the storage.
	release func()
}

func (w servingWatcher) Watch(ctx context.Context, o *metainternalversion.ListOptions) (watch.Interface, error) {
	events, err := w.Watcher.Watch(ctx, o)
	if storage.IsInvalidError(err) {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if err != nil {
		return nil, err
	}
	end := &servingWatch{Interface: events, keep: context.AfterFunc(w.serving.gone, events.Stop),
		ended: sync.OnceFunc(w.serving.requests.Linger())}
	w.release()
	return end, nil
}

// servingWatch is a watch that ends when it is stopped, or with its serving.
type servingWatch struct {
	watch.Interface
	keep  func() bool
	ended func()
}

func (e *servingWatch) Stop() {
	e.keep()
	e.ended()
	e.Interface.Stop()
}

// creationGate is the admission of a request. It rejects creates early while the CRD is being
// deleted, also in a dry run. The fence of the CRD makes the final decision when the object
// is stored.
type creationGate struct {
	admission.Interface
	serving *serving
}

func (c *creationGate) Handles(op admission.Operation) bool {
	return op == admission.Create || c.Interface.Handles(op)
}

func (c *creationGate) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	if a.GetOperation() == admission.Create && c.serving.terminating() {
		return apierrors.NewForbidden(a.GetResource().GroupResource(), a.GetName(), fence.ErrTerminating)
	}
	if m, ok := c.Interface.(admission.MutationInterface); ok && m.Handles(a.GetOperation()) {
		return m.Admit(ctx, a, o)
	}
	return nil
}

func (c *creationGate) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	if v, ok := c.Interface.(admission.ValidationInterface); ok && v.Handles(a.GetOperation()) {
		return v.Validate(ctx, a, o)
	}
	return nil
}
