package server

import (
	"bytes"
	"context"
	"crypto/x509"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/klog/v2"

	"espalier.dev/server/pki"
)

// renewInterval is the interval between checks of the certificates.
const renewInterval = 6 * time.Hour

// identity holds the server's own certificates. It notifies listeners when they are renewed.
type identity struct {
	config  pki.Config
	current atomic.Pointer[pki.Bundle]
	// proxy has the client certificate for extension servers, and proxyConfig how it is made. Both are nil
	// if a file has that certificate.
	proxy       atomic.Pointer[pki.Proxy]
	proxyConfig *pki.Config

	mu        sync.Mutex
	listeners []dynamiccertificates.Listener
}

var (
	_ dynamiccertificates.CAContentProvider      = (*identity)(nil)
	_ dynamiccertificates.CertKeyContentProvider = (*identity)(nil)
)

// newIdentity reads or creates the certificates of a server.
func newIdentity(o *Options) (*identity, error) {
	id := &identity{config: pkiConfig(o)}
	bundle, err := pki.Ensure(id.config)
	if err != nil {
		return nil, err
	}
	id.current.Store(bundle)
	if o.ProxyClientCertFile == "" {
		config := proxyConfig(o)
		id.proxyConfig = &config
	}
	_, err = id.ensureProxy()
	return id, err
}

// pkiConfig returns the configuration of the certificates of a server.
func pkiConfig(o *Options) pki.Config {
	return pki.Config{
		Dir:        filepath.Join(o.DataDir, "pki"),
		Hosts:      append(servingHosts(o.BindAddress), o.TLSHosts...),
		CACertFile: o.CACertFile,
		CAKeyFile:  o.CAKeyFile,

		LongLived:     o.Bubble,
		UnsafeNoFsync: o.Ephemeral,
	}
}

// servingHosts returns the names and addresses of the server.
func servingHosts(bind string) []string {
	hosts := []string{"localhost", genericapiserver.LoopbackClientServerNameOverride, "127.0.0.1", "::1"}
	ip := net.ParseIP(bind)
	if ip.IsLoopback() {
		if bind != "127.0.0.1" && bind != "::1" {
			hosts = append(hosts, bind)
		}
		return hosts
	}
	if name, err := os.Hostname(); err == nil {
		hosts = append(hosts, name)
	}
	if !ip.IsUnspecified() {
		return append(hosts, bind)
	}
	// On error the certificate is valid only for the names above.
	addrs, _ := net.InterfaceAddrs()
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() {
			hosts = append(hosts, n.IP.String())
		}
	}
	return hosts
}

// renew checks the certificates periodically. It calls changed with renewed certificates.
func (id *identity) renew(ctx context.Context, changed func(*pki.Bundle) error) {
	ticker := time.NewTicker(renewInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if err := id.renewOnce(changed); err != nil {
			klog.FromContext(ctx).Error(err, "Cannot renew the certificates")
		}
	}
}

func (id *identity) renewOnce(changed func(*pki.Bundle) error) error {
	bundle, err := pki.Ensure(id.config)
	if err != nil {
		return err
	}
	proxied, err := id.ensureProxy()
	if err != nil {
		return err
	}
	old := id.current.Swap(bundle)
	if !proxied && bytes.Equal(old.CA.Cert, bundle.CA.Cert) && bytes.Equal(old.Serving.Cert,
		bundle.Serving.Cert) && bytes.Equal(old.Admin.Cert, bundle.Admin.Cert) {
		return nil
	}
	id.mu.Lock()
	listeners := id.listeners
	id.mu.Unlock()
	for _, l := range listeners {
		l.Enqueue()
	}
	return changed(bundle)
}

// Name, AddListener, CurrentCertKeyContent, CurrentCABundleContent and VerifyOptions
// implement the certificate providers of k8s.io/apiserver.
func (id *identity) Name() string { return "espalier" }

func (id *identity) AddListener(l dynamiccertificates.Listener) {
	id.mu.Lock()
	defer id.mu.Unlock()
	id.listeners = append(id.listeners, l)
}

func (id *identity) CurrentCertKeyContent() (cert, key []byte) {
	b := id.current.Load()
	return b.Serving.Cert, b.Serving.Key
}

func (id *identity) CurrentCABundleContent() []byte { return id.current.Load().CA.Cert }

func (id *identity) VerifyOptions() (x509.VerifyOptions, bool) {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(id.CurrentCABundleContent())
	return x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, true
}

// loopback is the certificate under the name that only the server's own client uses, if other
// clients get an external certificate.
type loopback struct{ *identity }

func (loopback) SNINames() []string {
	return []string{genericapiserver.LoopbackClientServerNameOverride}
}

// secureServing returns the configuration of the listener and of client certificates.
func secureServing(o *Options, id *identity, l net.Listener) (*genericapiserver.SecureServingInfo, error) {
	s := &genericapiserver.SecureServingInfo{Listener: l, Cert: id, ClientCA: id,
		HTTP2MaxStreamsPerConnection: o.HTTP2MaxStreamsPerConnection}
	var err error
	if s.MinTLSVersion, err = cliflag.TLSVersion(o.TLSMinVersion); err != nil {
		return nil, fmt.Errorf("--tls-min-version: %w", err)
	}
	if len(o.TLSCipherSuites) > 0 {
		if s.CipherSuites, err = cliflag.TLSCipherSuites(o.TLSCipherSuites); err != nil {
			return nil, fmt.Errorf("--tls-cipher-suites: %w", err)
		}
	}
	if o.TLSCertFile != "" {
		cert, err := dynamiccertificates.NewDynamicServingContentFromFiles("serving", o.TLSCertFile, o.TLSPrivateKeyFile)
		if err != nil {
			return nil, fmt.Errorf("read --tls-cert-file and --tls-private-key-file: %w", err)
		}
		s.Cert = cert
		s.SNICerts = []dynamiccertificates.SNICertKeyContentProvider{loopback{id}}
	}
	if o.ClientCAFile != "" {
		ca, err := dynamiccertificates.NewDynamicCAContentFromFile("client-ca", o.ClientCAFile)
		if err != nil {
			return nil, fmt.Errorf("read --client-ca-file: %w", err)
		}
		s.ClientCA = dynamiccertificates.NewUnionCAContentProvider(id, ca)
	}
	return s, nil
}

// loopbackConfig returns the configuration of the server's client to itself.
func loopbackConfig(id *identity, url, token string) *rest.Config {
	return &rest.Config{
		Host:        url,
		QPS:         -1, // no client-side rate limit
		BearerToken: token,
		TLSClientConfig: rest.TLSClientConfig{
			ServerName: genericapiserver.LoopbackClientServerNameOverride,
			CAData:     id.CurrentCABundleContent(),
		},
	}
}

// kubeconfig returns the administrator's kubeconfig.
func kubeconfig(o *Options, b *pki.Bundle, server string) (pki.Kubeconfig, error) {
	k := pki.Kubeconfig{Server: server, CA: b.CA.Cert, Client: b.Admin, UnsafeNoFsync: o.Ephemeral}
	if o.TLSCertFile == "" {
		return k, nil
	}
	t, err := readTrust(o)
	if err != nil {
		return k, err
	}
	return k, t.applyTo(&k)
}

// UserKubeconfig returns a kubeconfig for a user of the server with these options, at a URL. It
// has a new client certificate, which the CA of the server signs: the data directory must have
// one, unless the options name another. If the URL is empty, it is the one in the kubeconfig that
// the server has written.
func UserKubeconfig(o *Options, server, user string, groups ...string) ([]byte, error) {
	if server == "" {
		written, err := clientcmd.LoadFromFile(o.kubeconfigPath())
		if err != nil {
			return nil, fmt.Errorf("read the URL of the server in its own kubeconfig: %w: set its data directory with --data-dir, or its URL with --server", err)
		}
		for _, cluster := range written.Clusters {
			server = cluster.Server
		}
	}
	u, err := url.Parse(server)
	if err != nil || u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("--server %q is not a URL: it must begin with https://", server)
	}
	config := pkiConfig(o)
	ca, err := pki.ReadCA(config)
	if err != nil {
		return nil, fmt.Errorf("%w: name the data directory of the server with --data-dir, or its CA with --ca-cert-file and --ca-key-file", err)
	}
	client, err := pki.NewClient(config, user, groups...)
	if err != nil {
		return nil, err
	}
	k, err := kubeconfig(o, &pki.Bundle{CA: ca}, server)
	if err != nil {
		return nil, err
	}
	k.User, k.Client = user, client
	return k.Marshal()
}

// clientHost returns the address for clients on this machine.
func clientHost(bind string) string {
	ip := net.ParseIP(bind)
	switch {
	case !ip.IsUnspecified():
		return bind
	case ip.To4() != nil:
		return "127.0.0.1"
	default:
		return "::1"
	}
}
