package pki

import (
	"fmt"
	"os"
)

// ProxyUser is the name in the client certificate of the proxy. Extension servers accept no other name,
// so that no other certificate, should the CA sign one, makes its owner every user.
const ProxyUser = "espalier-front-proxy"

// proxyAuthority is the name of the CA of the proxy.
const proxyAuthority = "espalier-front-proxy-ca"

// Proxy has the client certificate with which a server proxies requests to extension servers. They believe
// its owner which user has sent a request, so it has a CA of its own, which signs nothing else.
type Proxy struct {
	CA, Client Pair
}

// EnsureProxy returns the client certificate of the proxy in the directory. It creates what is missing or
// no longer valid.
func EnsureProxy(c Config) (*Proxy, error) {
	now := c.now()
	c.name, c.CACertFile, c.CAKeyFile = proxyAuthority, "", ""
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("create the certificate directory: %w", err)
	}
	if err := os.Chmod(c.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("restrict the certificate directory to its owner: %w", err)
	}
	ca, err := c.authority(now)
	if err != nil {
		return nil, err
	}
	client, err := c.leaf("client", ca, now, clientTemplate(ProxyUser))
	if err != nil {
		return nil, err
	}
	return &Proxy{CA: ca.Pair, Client: client.Pair}, nil
}
