package aggregator

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
	"k8s.io/klog/v2"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"espalier.dev/crd"
	"espalier.dev/server/publish"
	"espalier.dev/store"
)

// Objects reads stored objects.
type Objects interface {
	// Decode decodes a stored object of a resource.
	Decode(resource runtimeschema.GroupResource, entry *store.Entry) (runtime.Object, error)
}

// Resolver finds the addresses of services.
type Resolver interface {
	ResolveEndpoint(namespace, name string, port int32) (*url.URL, error)
}

// Config configures an Aggregator.
type Config struct {
	// Store has the stored API services, and Objects decodes them.
	Store   *store.Store
	Objects Objects
	// Services finds the addresses of the services of other servers. Elsewhere has the names of those,
	// as name.namespace, that need not be stored on this server.
	Services  Resolver
	Elsewhere map[string]*url.URL
	// Dial opens connections to other servers.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Certificate returns the client certificate of the proxy and its key, in PEM.
	Certificate func() (cert, key []byte)
	// Loopback configures the client of the server to itself.
	Loopback *rest.Config
	// Own are the groups and versions of the server itself that no CRD defines.
	Own []runtimeschema.GroupVersion
	// Catalog returns the CRDs.
	Catalog func() *crd.Catalog
	// Timeout is the time after which another server must have begun to answer.
	Timeout time.Duration
	// MaxReads and MaxWrites limit the concurrent requests of this server that do not change data, and those that do:
	// other servers get a share of them. Zero means no limit. Mutates tells them apart.
	MaxReads, MaxWrites int
	Mutates             func(*apirequest.RequestInfo) bool
	// Serializer encodes errors.
	Serializer runtime.NegotiatedSerializer
	// Drained is closed when this server is stopping, and all requests are answered that are not long-running.
	Drained <-chan struct{}
	// Passive makes the server write no API services: it shows a past state.
	Passive bool
}

// Aggregator proxies requests for groups and versions of other servers. It is safe for concurrent
// use.
type Aggregator struct {
	config Config
	// dial is that of Config, as a value that client-go can compare.
	dial *transport.DialHolder
	// table has the stored API services.
	table atomic.Pointer[table]
	// loaded is closed when the table has been filled for the first time.
	loaded chan struct{}
	// refresh has an element when the table must be built again, because the certificate has changed.
	refresh chan struct{}

	// wanted is closed when the controllers must start, and foreign when there is an API service of
	// another server.
	wanted, foreign   chan struct{}
	start, startProxy func()
	// registered is closed when the API services of this server are stored, or cannot be stored.
	registered chan struct{}
	complete   func()
	// crds are the CRDs whose API services have to be looked at.
	crds *pending

	seats seats

	// listeners are called after each change of the table.
	listeners []func()

	discovery *discoverer
	remote    atomic.Pointer[publish.Remote]
}

// New returns an Aggregator.
func New(c Config) *Aggregator {
	a := &Aggregator{
		config: c, dial: &transport.DialHolder{Dial: c.Dial},
		loaded: make(chan struct{}), refresh: make(chan struct{}, 1),
		wanted: make(chan struct{}), foreign: make(chan struct{}), registered: make(chan struct{}),
		crds: newPending(), seats: seats{taken: map[seat]int{}},
	}
	a.start = sync.OnceFunc(func() { close(a.wanted) })
	a.startProxy = sync.OnceFunc(func() { close(a.foreign) })
	a.complete = sync.OnceFunc(func() { close(a.registered) })
	a.discovery = newDiscoverer(a)
	a.table.Store(&table{changed: make(chan struct{})})
	return a
}

// Loaded returns a channel that is closed when the stored API services are known.
func (a *Aggregator) Loaded() <-chan struct{} { return a.loaded }

// Remote returns what other servers serve, or nil. The value never changes: another pointer means
// that something has changed.
func (a *Aggregator) Remote() *publish.Remote { return a.remote.Load() }

// Subscribe makes f be called after each change of the API services. It must be called before Run.
func (a *Aggregator) Subscribe(f func()) { a.listeners = append(a.listeners, f) }

// Serves reports whether another server serves a group and version, or may do so because its API service has just
// changed or cannot be read.
func (a *Aggregator) Serves(gv runtimeschema.GroupVersion) bool {
	name := serviceName(gv)
	e := a.config.Store.Get(a.prefix() + name)
	t := a.table.Load()
	return t.backends[gv] != nil || e != nil && (t.names[name] != e.Revision || t.unreadable[name])
}

// Enqueue is called when the certificate of the proxy has changed.
func (a *Aggregator) Enqueue() {
	select {
	case a.refresh <- struct{}{}:
	default: // it will be looked at
	}
}

// Changed is called with every new catalog, and the names of the CRDs that have changed.
func (a *Aggregator) Changed(_ *crd.Catalog, names ...string) { a.crds.add(names) }

// Wrap returns a handler that proxies requests to other servers, and passes all others to next.
func (a *Aggregator) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		path := req.URL.Path
		if strings.HasPrefix(path, ownPath) {
			a.awaitOwn(req.Context())
			next.ServeHTTP(w, req)
			return
		}
		t := a.table.Load()
		if len(t.backends) == 0 {
			next.ServeHTTP(w, req)
			return
		}
		if b := t.route(path); b != nil {
			a.proxy(b, w, req)
			return
		}
		if b := t.route(strings.TrimPrefix(path, documents3)); b != nil {
			a.proxyDocument(b, w, req)
			return
		}
		next.ServeHTTP(w, req)
	})
}

// ownPath is the path of API services.
const ownPath = "/apis/" + apiregistrationv1.GroupName + "/v1/apiservices"

// registerTime is how long a request waits for the API services of the server itself.
const registerTime = 10 * time.Second

// awaitOwn starts the controllers, and waits until the API services of the server itself are stored:
// clients expect to find them. It does not wait for the server's own clients, which store them.
func (a *Aggregator) awaitOwn(ctx context.Context) {
	select {
	case <-a.registered:
		return
	default:
	}
	if u, ok := apirequest.UserFrom(ctx); a.config.Passive || ok && u.GetName() == user.APIServerUser {
		return
	}
	a.start()
	timer := time.NewTimer(registerTime)
	defer timer.Stop()
	select {
	case <-a.registered:
	case <-ctx.Done():
	case <-timer.C:
		klog.InfoS("Not all API services of the server itself could be stored: requests for API services no longer wait for them")
		a.complete()
	}
}

// Run follows the stored API services until ctx or the store ends.
func (a *Aggregator) Run(ctx context.Context) error {
	s := a.config.Store
	select {
	case <-s.Loaded():
	case <-ctx.Done():
		return nil
	}
	for {
		err := a.follow(ctx, s)
		expired := (*store.ExpiredError)(nil)
		if !errors.Is(err, store.ErrSlow) && !errors.As(err, &expired) {
			return err
		}
	}
}

// follow builds the table of a snapshot, and again after each change.
func (a *Aggregator) follow(ctx context.Context, s *store.Store) error {
	prefix := a.prefix()
	w, err := s.Watch(prefix, s.Snapshot().Revision)
	if err != nil {
		return err
	}
	defer w.Stop()
	for {
		a.replace(s.Snapshot())
		select {
		case <-a.loaded:
		default:
			close(a.loaded)
		}
		select {
		case <-w.Ready():
			for {
				events, _, err := w.Poll()
				if err != nil {
					return err
				}
				if len(events) == 0 {
					break
				}
			}
		case <-a.refresh:
		case <-ctx.Done():
			return nil
		}
	}
}

// replace makes the API services of a snapshot current.
func (a *Aggregator) replace(s *store.Snapshot) {
	old := a.table.Load()
	t := a.newTable(s, old)
	a.table.Store(t)
	close(old.changed)
	for _, f := range a.listeners {
		f()
	}
	if len(t.backends) > 0 {
		a.startProxy()
		if !a.config.Passive {
			a.start()
		}
	}
	a.discovery.update(t)
}
