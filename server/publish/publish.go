package publish

import (
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apiserver/pkg/endpoints/discovery"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/client-go/kubernetes/scheme"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"espalier.dev/crd"
	"espalier.dev/openapi"
	"espalier.dev/server/served"
)

// Source provides the CRDs that are served.
type Source interface {
	Catalog() *crd.Catalog
}

// Config configures a Publisher.
type Config struct {
	// Source provides the CRDs.
	Source Source
	// Fixed are the resources that no CRD defines, the most important first. A CRD in
	// Source cannot replace them.
	Fixed []Fixed
	// Remote returns what other servers serve; nil means nothing. Priority returns the priorities of the
	// groups and versions of this server, with which those of others are compared.
	Remote   func() *Remote
	Priority func(runtimeschema.GroupVersion) (group, version int32)
	// Addresses are published in the list of all groups; nil publishes none.
	Addresses discovery.Addresses
	// Version is the version of the server. Clients cache OpenAPI documents by their hash,
	// and another version may write them differently.
	Version string
	// Codecs encode the discovery lists that are not aggregated.
	Codecs serializer.CodecFactory
}

// Fixed is a resource that no CRD defines.
type Fixed struct {
	Definition *crd.Definition
	// Describe describes one of its versions.
	Describe func(*crd.Version) *served.Description
}

// describe describes a version of a fixed or other resource.
func (p *Publisher) describe(v *crd.Version) *served.Description {
	for _, b := range p.config.Fixed {
		if b.Definition == v.Definition() {
			return b.Describe(v)
		}
	}
	return served.Describe(v)
}

// Publisher answers requests for discovery and OpenAPI. It is safe for concurrent use.
type Publisher struct {
	config Config
	codecs codecs
	// builder is made for the first document.
	builder func() *openapi.Builder

	current atomic.Pointer[snapshot]
	// mu guards the creation of a snapshot and the documents that it takes over from the
	// previous one.
	mu        sync.Mutex
	documents map[runtimeschema.GroupVersion]*document

	// v2parts and v3parts have the parts of OpenAPI documents that were requested.
	v2parts, v3parts *parts
	packFrom         int
	// entries packs the entries of groups in the aggregated list.
	entries packer

	// builds is full while as many documents are written as may be at a time.
	builds chan struct{}
	// v2mu guards the OpenAPI v2 document.
	v2mu  sync.Mutex
	whole *document
}

// New returns a Publisher.
func New(c Config) *Publisher {
	if c.Remote == nil {
		c.Remote = func() *Remote { return nil }
	}
	return &Publisher{
		config:  c,
		codecs:  newCodecs(c.Codecs),
		builder: sync.OnceValue(func() *openapi.Builder { return openapi.New(openapi.Options{Scheme: knownKinds()}) }),
		v2parts: newParts(), v3parts: newParts(), packFrom: packFrom, builds: make(chan struct{}, maxBuilds),
	}
}

// knownKinds returns a scheme with the kinds that clients know. That of client-go lacks those of
// kube-aggregator.
func knownKinds() *runtime.Scheme {
	out := runtime.NewScheme()
	utilruntime.Must(scheme.AddToScheme(out))
	utilruntime.Must(apiregistrationv1.AddToScheme(out))
	return out
}

// snapshot returns what is published for the current catalog.
func (p *Publisher) snapshot() *snapshot {
	catalog, remote := p.config.Source.Catalog(), p.config.Remote()
	if s := p.current.Load(); s != nil && s.catalog == catalog && s.remote == remote {
		return s
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	// Another request may have been faster, and the catalog may have changed again.
	catalog, remote = p.config.Source.Catalog(), p.config.Remote()
	if s := p.current.Load(); s != nil && s.catalog == catalog && s.remote == remote {
		return s
	}
	s := newSnapshot(p, catalog, remote, p.current.Load())
	p.current.Store(s)
	return s
}

// ServeHTTP serves discovery and OpenAPI, and responds with 404 to all other requests.
func (p *Publisher) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.Wrap(http.NotFoundHandler()).ServeHTTP(w, r)
}

// Wrap returns a handler that serves discovery and OpenAPI and passes all other requests to
// next, including those for unknown groups and versions.
func (p *Publisher) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := p.handler(r.URL.Path)
		switch {
		case h == nil:
			next.ServeHTTP(w, r)
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			w.Header().Set("Allow", "GET, HEAD")
			responsewriters.ErrorNegotiated(served.NotAllowed(), p.codecs.legacy, coreV1, w, r)
		default:
			h.ServeHTTP(w, r)
		}
	})
}

// noDocument answers a request for an OpenAPI v3 document that does not exist, as kube-apiserver does.
func noDocument(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) }

// handler returns the handler for a path, or nil.
func (p *Publisher) handler(path string) http.Handler {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case len(parts) > 3 && (parts[0] == "api" || parts[0] == "apis"):
		return nil // a resource: a snapshot costs more with every CRD
	case parts[0] == "api":
		return p.snapshot().coreDiscovery(parts[1:])
	case parts[0] == "apis":
		return p.snapshot().discovery(parts[1:])
	case parts[0] != "openapi" || len(parts) < 2:
		return nil
	case parts[1] == "v2" && len(parts) == 2:
		return http.HandlerFunc(p.snapshot().serveV2)
	case parts[1] == "v3":
		if h := p.snapshot().v3(parts[2:]); h != nil {
			return h
		}
		return http.HandlerFunc(noDocument)
	}
	return nil
}
