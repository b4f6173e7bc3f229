package webhooks

import (
	"context"
	"errors"
	"net"
	"net/url"
	"sync"
	"time"

	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/rest"
)

// Network connects a server with the webhooks that its objects configure. It starts no
// goroutines of its own; those of its connections end with [Network.Close].
type Network struct {
	services webhook.ServiceResolver
	// rejection is the error of all connections, or nil.
	rejection error

	mu   sync.Mutex
	open map[net.Conn]struct{} // nil after Close
}

// NewNetwork returns a network. services finds the addresses of webhooks that are services.
func NewNetwork(services webhook.ServiceResolver) *Network {
	return &Network{services: services, open: map[net.Conn]struct{}{}}
}

// Reject makes all connections fail with an error. It must be called before there are any.
func (n *Network) Reject(err error) { n.rejection, n.services = err, rejecting{err} }

// Rejects reports whether all connections fail.
func (n *Network) Rejects() bool { return n.rejection != nil }

// rejecting finds no services.
type rejecting struct{ err error }

func (r rejecting) ResolveEndpoint(string, string, int32) (*url.URL, error) { return nil, r.err }

// Services returns what finds the addresses of services.
func (n *Network) Services() webhook.ServiceResolver { return n.services }

// NewClients returns a client manager for webhooks that exchange objects of the given group
// versions.
func (n *Network) NewClients(gvs ...runtimeschema.GroupVersion) (*webhook.ClientManager, error) {
	m, err := webhook.NewClientManager(gvs)
	if err != nil {
		return nil, err
	}
	auth, err := webhook.NewDefaultAuthenticationInfoResolver("")
	if err != nil {
		return nil, err
	}
	m.SetAuthenticationInfoResolver(auth)
	m.SetAuthenticationInfoResolverWrapper(n.Guard)
	m.SetServiceResolver(n.services)
	return &m, m.Validate()
}

// Guard makes the clients that r configures reject redirects and responses that are too
// large, and use connections that end with the network. It has the type that k8s.io/apiserver's
// admission webhooks expect.
func (n *Network) Guard(r webhook.AuthenticationInfoResolver) webhook.AuthenticationInfoResolver {
	guarded := func(c *rest.Config, err error) (*rest.Config, error) {
		if err != nil {
			return nil, err
		}
		c = GuardConfig(c)
		c.Dial = n.Dial
		return c, nil
	}
	return &webhook.AuthenticationInfoResolverDelegator{
		ClientConfigForFunc: func(hostPort string) (*rest.Config, error) { return guarded(r.ClientConfigFor(hostPort)) },
		ClientConfigForServiceFunc: func(name, namespace string, port int) (*rest.Config, error) {
			return guarded(r.ClientConfigForService(name, namespace, port))
		},
	}
}

// errClosed is returned for connections after Close.
var errClosed = errors.New("the server is shutting down")

// Dial opens a connection that ends with the network.
func (n *Network) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	if n.rejection != nil {
		return nil, n.rejection
	}
	d := net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}
	raw, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c := &connection{Conn: raw, network: n}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.open == nil {
		_ = raw.Close()
		return nil, errClosed
	}
	n.open[c] = struct{}{}
	return c, nil
}

// Close closes all connections. There are no new ones afterwards.
func (n *Network) Close() {
	n.mu.Lock()
	open := n.open
	n.open = nil
	n.mu.Unlock()
	for c := range open {
		_ = c.Close()
	}
}

// connection is an open connection.
type connection struct {
	net.Conn
	network *Network
}

func (c *connection) Close() error {
	c.network.mu.Lock()
	delete(c.network.open, c)
	c.network.mu.Unlock()
	return c.Conn.Close()
}
