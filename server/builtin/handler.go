package builtin

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	apitypes "k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/handlers"
	"k8s.io/apiserver/pkg/endpoints/metrics"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/warning"

	"espalier.dev/kinds"
	"espalier.dev/kinds/services"
	"espalier.dev/policies"
	"espalier.dev/server/fence"
	"espalier.dev/server/ids"
	serverrest "espalier.dev/server/rest"
	"espalier.dev/server/served"
)

// Config configures a Handler.
type Config struct {
	// Reader reads the stored objects. Requests can reach those of its resources that are served;
	// stored objects of others exist for the server itself.
	Reader *Reader
	// Storage returns the storage options of a resource.
	Storage func(*kinds.Resource) generic.RESTOptionsGetter
	// Admission returns the admission plugins, which use the handler.
	Admission  func() admission.Interface
	Authorizer authorizer.UnconditionalAuthorizer
	// Guard returns the storage of a resource with further checks of the requests of users. Nil
	// means that there are none.
	Guard func(runtimeschema.GroupResource, rest.StandardStorage) rest.StandardStorage
	// Codecs encode errors.
	Codecs serializer.CodecFactory
	// IDs makes the names and UIDs of new objects. Nil means random ones.
	IDs *ids.Source
	// Services allocates what services need.
	Services *services.Allocator
	// Commit makes a change if an object has a revision, and Attaches is set if the transactions of
	// writes can make changes of other keys; see [fence.Fences].
	Commit   func(ctx context.Context, c fence.Change, object string, revision int64) (bool, error)
	Attaches bool
	// InNamespace returns the condition of a transaction that creates objects in a namespace.
	InNamespace func(name string) clientv3.Cmp
	// Tokens issues tokens for service accounts.
	Tokens rest.NamedCreater
	// Reviews are the storages of resources whose objects are only answered.
	Reviews map[runtimeschema.GroupVersionResource]rest.Creater
	// EventTTL is the time after which events are deleted.
	EventTTL time.Duration
	// MinWatch is the minimum time after which the server ends a watch.
	MinWatch            time.Duration
	MaxRequestBodyBytes int64
}

// Handler serves the built-in resources. It starts no goroutines: what it uses ends with the
// store.
type Handler struct {
	*Reader
	config Config
	// addresses returns the IPAddresses, or nil if there are none.
	addresses func() *addresses
	resources map[runtimeschema.GroupVersionResource]*kinds.Resource
	// served has the resources that requests can reach.
	served map[runtimeschema.GroupVersionResource]bool
	// groups are those of the served resources.
	groups map[string]bool
	// converter and described are the types of field management: of the kinds that client-go
	// knows, and of others.
	converter, described func() (managedfields.TypeConverter, error)
	// equivalents knows which resources have the same objects.
	equivalents func() runtime.EquivalentResourceMapper

	mu        sync.Mutex
	endpoints map[runtimeschema.GroupVersionResource]*endpoint
	reviews   map[runtimeschema.GroupVersionResource]*handlers.RequestScope
}

// New returns a handler of the built-in resources. It builds nothing before a request needs it.
func New(c Config) *Handler {
	h := &Handler{
		Reader: c.Reader, config: c, resources: map[runtimeschema.GroupVersionResource]*kinds.Resource{},
		served:    map[runtimeschema.GroupVersionResource]bool{},
		groups:    map[string]bool{},
		endpoints: map[runtimeschema.GroupVersionResource]*endpoint{},
		reviews:   map[runtimeschema.GroupVersionResource]*handlers.RequestScope{},
	}
	for _, r := range c.Reader.served {
		h.served[r.GroupVersionResource()] = true
		h.groups[r.Group] = true
	}
	for _, r := range kinds.All() {
		h.resources[r.GroupVersionResource()] = r
	}
	h.addresses = sync.OnceValue(func() *addresses { return newAddresses(h) })
	h.converter = lazily(h.newConverter)
	h.equivalents = sync.OnceValue(func() runtime.EquivalentResourceMapper { return policies.BuiltinEquivalents(c.Reader.served) })
	h.described = lazily(h.newDescribed)
	return h
}

// endpoint returns the endpoint of a resource, and builds it on first use.
func (h *Handler) endpoint(r *kinds.Resource) (*endpoint, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if e := h.endpoints[r.GroupVersionResource()]; e != nil {
		return e, nil
	}
	e, err := h.newEndpoint(r)
	if err == nil {
		h.endpoints[r.GroupVersionResource()] = e
	}
	return e, err
}

// Serves reports whether a group has a built-in resource.
func (h *Handler) Serves(group string) bool { return h.groups[group] }

// Wrap returns a handler of the built-in resources that leaves all other requests to next.
func (h *Handler) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		info, ok := apirequest.RequestInfoFrom(req.Context())
		if ok && info.IsResourceRequest {
			gvr := runtimeschema.GroupVersionResource{Group: info.APIGroup, Version: info.APIVersion, Resource: info.Resource}
			// The core group has its own prefix: its name is not a part of a path.
			if r := h.resources[gvr]; r != nil && h.served[gvr] && (info.APIPrefix == "api") == (info.APIGroup == "") {
				h.serve(w, req, info, r)
				return
			}
		}
		next.ServeHTTP(w, req)
	})
}

func (h *Handler) serve(w http.ResponseWriter, req *http.Request, info *apirequest.RequestInfo, r *kinds.Resource) {
	f, err := h.handler(req, info, r)
	if err == nil && req.Method == http.MethodPatch {
		err = h.checkPatch(req, info, r)
	}
	if err != nil {
		h.fail(w, req, info, err)
		return
	}
	if r.Deprecated != "" {
		warning.AddWarning(req.Context(), "", r.Deprecated)
	}
	w = serverrest.NameTypes(w, req, info.Verb, kinds.InternalPackage(answered(r, info.Subresource)))
	metrics.InstrumentHandlerFunc(strings.ToUpper(info.Verb), r.Group, r.Version, r.Plural, info.Subresource, metrics.CleanScope(info),
		metrics.APIServerComponent, false, "", f)(w, req)
}

// answered returns the group of the kind that a resource, or a subresource, answers with.
func answered(r *kinds.Resource, subresource string) string {
	if s := r.Subresource(subresource); s != nil && s.Kind.Kind != "" {
		return s.Kind.Group
	}
	return r.Group
}

func (h *Handler) fail(w http.ResponseWriter, req *http.Request, info *apirequest.RequestInfo, err error) {
	serverrest.Fail(w, req, info, h.config.Codecs, err)
}

// patchTypes are the media types of patches.
func patchTypes() []string {
	return []string{string(apitypes.JSONPatchType), string(apitypes.MergePatchType),
		string(apitypes.StrategicMergePatchType), string(apitypes.ApplyYAMLPatchType)}
}

// handler returns the handler of a request, by its subresource and verb.
func (h *Handler) handler(req *http.Request, info *apirequest.RequestInfo, r *kinds.Resource) (http.HandlerFunc, error) {
	if err := routes(r).Check(req, info); err != nil {
		return nil, err
	}
	if info.Subresource != "" {
		return h.subHandler(info, r)
	}
	if r.CreateOnly {
		return h.reviewHandler(r)
	}
	e, err := h.endpoint(r)
	if err != nil {
		return nil, err
	}
	storage := e.storage
	if h.config.Guard != nil {
		storage = h.config.Guard(r.GroupResource(), storage)
	}
	f := h.rest(&e.scope, r).Handler(info.Verb, serverrest.Storage{Reads: e.store, Watches: e.store,
		Writes: storage, Deletes: h.deletions(r, storage)})
	if f == nil {
		return nil, served.NotAllowed()
	}
	return f, nil
}

// rest returns what makes the handlers of a scope.
func (h *Handler) rest(scope *handlers.RequestScope, r *kinds.Resource) *serverrest.Endpoint {
	return &serverrest.Endpoint{Scope: scope, Kind: r.GroupVersionKind().GroupKind(),
		Admission: h.config.Admission(), PatchTypes: patchTypes(), MinWatch: h.config.MinWatch}
}

// routes returns the paths of a resource, and their methods.
func routes(r *kinds.Resource) served.Routes {
	return served.Routes{Namespaced: r.Namespaced, Verbs: r.Verbs(), Media: served.OwnMedia, Subresource: func(name string) []string {
		if s := r.Subresource(name); s != nil {
			return s.Verbs
		}
		return nil
	}}
}
