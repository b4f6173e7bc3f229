package server

import (
	"net/http"
	"path/filepath"

	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/apiserver/pkg/server/mux"
	"k8s.io/klog/v2"

	"espalier.dev/server/authentication"
	"espalier.dev/server/tokens"
)

// healthPaths returns the paths that are accessible without credentials.
func healthPaths() []string { return []string{"/healthz", "/livez", "/readyz"} }

// newAuthentication configures how the generic server identifies users. stored reads the objects
// that tokens are bound to.
func newAuthentication(o *Options, c *genericapiserver.Config, stored tokens.Objects) (*authentication.Authentication, error) {
	users := c.SecureServing.ClientCA
	a, err := authentication.New(authentication.Config{
		Flags:        o.Authentication,
		TokenFile:    o.TokenAuthFile,
		Certificates: newCertificates(users),
		ClientCA:     users,
		HealthPaths:  healthPaths(),
		KeyDir:       filepath.Join(o.DataDir, "pki", "service-accounts"),
		Objects:      stored,
		ServerID:     c.APIServerID,

		UnsafeNoFsync: o.Ephemeral,
	})
	if err != nil {
		return nil, err
	}
	if a.Proxy != nil {
		// TLS accepts the certificates of proxies, too, but they are not those of users.
		c.SecureServing.ClientCA = dynamiccertificates.NewUnionCAContentProvider(users, a.Proxy.CAContentProvider)
	}
	if len(o.Etcd.URLs) > 0 && o.Authentication.ServiceAccountSigningKeyFile == "" {
		klog.InfoS("The key of service account tokens is in the data directory: if several servers use this etcd, set --service-account-signing-key-file to the same key for all of them")
	}
	c.Authentication.Authenticator = withStack(a.Request)
	c.Authentication.APIAudiences = a.Audiences
	c.Authentication.RequestHeaderConfig = a.Proxy
	return a, nil
}

// mountTokenMetadata serves the documents that other programs need to verify the tokens of
// service accounts, if the issuer is a URL as OpenID Connect requires it.
func mountTokenMetadata(m *mux.PathRecorderMux, a *authentication.Authentication, url string) {
	documents, err := a.Metadata(url)
	if err != nil {
		klog.InfoS("The public keys of service account tokens are not published, because --service-account-issuer or --service-account-jwks-uri does not comply with OpenID Connect", "reason", err)
		return
	}
	m.Handle(tokens.ConfigurationPath, http.HandlerFunc(documents.ServeConfiguration))
	m.Handle(tokens.KeysPath, http.HandlerFunc(documents.ServeKeys))
}
