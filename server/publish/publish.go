package publish

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/NYTimes/gziphandler"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/endpoints/discovery"
	"k8s.io/client-go/kubernetes/scheme"

	"espalier.dev/crd"
	"espalier.dev/openapi"
	"espalier.dev/server/resource"
)

// Source has the definitions that are served.
type Source interface {
	Catalog() *crd.Catalog
}

// Config is what a Publisher publishes.
type Config struct {
	// Source has the definitions.
	Source Source
	// Builtin is what the server itself brings, the most important first. Nothing in the
	// Source takes its place.
	Builtin []Builtin
	// Addresses are told to clients that ask for all groups; nil tells none.
	Addresses discovery.Addresses
	// Version is the version of the server. Clients keep OpenAPI documents for as long
	// as their hash is the same, and another version may write them in another way.
	Version string
	// Codecs write the lists of groups, versions and resources that are not aggregated.
	Codecs serializer.CodecFactory
}

// Builtin is a resource that the server itself brings.
type Builtin struct {
	Definition *crd.Definition
	// Describe describes a version of it.
	Describe func(*crd.Version) *resource.Description
}

// describe describes a version of a definition, builtin or not.
func (p *Publisher) describe(v *crd.Version) *resource.Description {
	for _, b := range p.config.Builtin {
		if b.Definition == v.Definition() {
			return b.Describe(v)
		}
	}
	return resource.Describe(v)
}

// Publisher answers requests for discovery and OpenAPI. It is safe for concurrent use.
type Publisher struct {
	config  Config
	codecs  codecs
	builder *openapi.Builder

	current atomic.Pointer[snapshot]
	// mu guards the making of a snapshot and the documents that are handed from one to
	// the next.
	mu        sync.Mutex
	documents map[runtimeschema.GroupVersion]*document

	// v2mu guards the document of version 2 and its parts. Putting it together takes long.
	v2mu     sync.Mutex
	whole    *document
	swaggers map[string]*swagger        // by name of the definition
	shared   map[string]json.RawMessage // what many parts have, by its name
}

// New returns a Publisher.
func New(c Config) *Publisher {
	return &Publisher{
		config:  c,
		codecs:  newCodecs(c.Codecs),
		builder: openapi.New(openapi.Options{Scheme: scheme.Scheme}),
		shared:  map[string]json.RawMessage{},
	}
}

// snapshot returns what is published at the moment.
func (p *Publisher) snapshot() *snapshot {
	catalog := p.config.Source.Catalog()
	if s := p.current.Load(); s != nil && s.catalog == catalog {
		return s
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	// Another request may have been quicker, and the catalog may have changed again.
	catalog = p.config.Source.Catalog()
	if s := p.current.Load(); s != nil && s.catalog == catalog {
		return s
	}
	s := newSnapshot(p, catalog)
	p.current.Store(s)
	return s
}

// ServeHTTP answers requests for what the Publisher has, and says of all else that it
// does not exist.
func (p *Publisher) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.Wrap(http.NotFoundHandler()).ServeHTTP(w, r)
}

// Wrap returns a handler that answers requests for what the Publisher has and leaves the
// others to next: those for groups and versions that it does not know too.
func (p *Publisher) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := p.handler(r.URL.Path)
		switch {
		case h == nil:
			next.ServeHTTP(w, r)
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, http.StatusText(http.StatusMethodNotAllowed), http.StatusMethodNotAllowed)
		default:
			h.ServeHTTP(w, r)
		}
	})
}

// handler returns what answers requests for a path, or nil if nothing here does.
func (p *Publisher) handler(path string) http.Handler {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case parts[0] == "api":
		return p.snapshot().coreDiscovery(parts[1:])
	case parts[0] == "apis":
		return p.snapshot().discovery(parts[1:])
	case parts[0] != "openapi" || len(parts) < 2:
		return nil
	case parts[1] == "v2" && len(parts) == 2:
		return gziphandler.GzipHandler(http.HandlerFunc(p.snapshot().serveV2))
	case parts[1] == "v3":
		return p.snapshot().v3(parts[2:])
	}
	return nil
}
