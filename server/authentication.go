package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
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
// that tokens are bound to, and label writes the use of some of them.
func newAuthentication(o *Options, c *genericapiserver.Config, stored tokens.Objects, label tokens.Label) (*authentication.Authentication, error) {
	labelling := label
	if o.past() > 0 {
		labelling = nil // the server only reads
	}
	users := c.SecureServing.ClientCA
	a, err := authentication.New(authentication.Config{
		Flags:        o.Authentication,
		TokenFile:    o.TokenAuthFile,
		Certificates: newCertificates(users),
		ClientCA:     users,
		HealthPaths:  healthPaths(),
		KeyDir:       filepath.Join(o.DataDir, "pki", "service-accounts"),
		Objects:      stored,
		Label:        labelling,
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

// followsKeys reports whether the keys of service accounts are read again when their files change. Those in the
// data directory of a server for tests stay, and the clock of a bubble stops for notifications of files.
func (o *Options) followsKeys() bool {
	f := &o.Authentication
	given := f.ServiceAccountSigningKeyFile != "" || len(f.ServiceAccountKeyFiles) > 0
	return !o.Bubble && (given || !o.Ephemeral)
}

// labelTimeout is the time that a request may wait until a Secret is labelled.
const labelTimeout = 10 * time.Second

// labelSecret sets labels of a Secret, with a request of the server to itself: admission and audit apply to it, as in kube-apiserver.
func (s *Server) labelSecret(ctx context.Context, secret *corev1.Secret, labels map[string]string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": secret.UID, "labels": labels}})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, labelTimeout)
	defer cancel()
	path := fmt.Sprintf("%s/api/v1/namespaces/%s/secrets/%s?fieldManager=kube-apiserver", s.url, secret.Namespace, secret.Name)
	req, err := http.NewRequestWithContext(ctx, http.MethodPatch, path, bytes.NewReader(patch))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+s.api.LoopbackClientConfig.BearerToken)
	req.Header.Set("Content-Type", string(types.MergePatchType))
	transport := s.newTransport()
	defer transport.CloseIdleConnections() // the next request follows in a day
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
		return errors.Join(fmt.Errorf("%s: %s", resp.Status, body), err)
	}
	return nil
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
