package authentication

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	apiserverapi "k8s.io/apiserver/pkg/apis/apiserver"
	certutil "k8s.io/client-go/util/cert"
)

const (
	// maxKeys is the maximum size of an answer of an issuer: the keys of large ones have some 20 KiB.
	maxKeys = 1 << 20
	// maxErrorPage is what is read of an answer that is an error, and maxReason the maximum size of the
	// reason why a token is rejected. Package oidc quotes answers in errors, which are logged for each token.
	maxErrorPage = 1 << 10
	maxReason    = 2 << 10
	// issuerTimeout is the time that an issuer has to answer, as in kube-apiserver.
	issuerTimeout = 30 * time.Second
)

// issuerClient returns the client for an issuer: that of package oidc, except that it limits answers. Any
// client of the server can make it ask for the keys, with a token that names an unknown one.
func issuerClient(i *apiserverapi.Issuer) (*http.Client, error) {
	if i.EgressSelectorType != "" {
		return nil, fmt.Errorf("egressSelectorType %q is not supported: remove it", i.EgressSelectorType)
	}
	c := &tls.Config{}
	if i.CertificateAuthority != "" {
		var err error
		if c.RootCAs, err = certutil.NewPoolFromBytes([]byte(i.CertificateAuthority)); err != nil {
			return nil, fmt.Errorf("read certificateAuthority: %w", err)
		}
	}
	return &http.Client{Transport: limitedTransport{utilnet.SetTransportDefaults(&http.Transport{TLSClientConfig: c})}, Timeout: issuerTimeout}, nil
}

// limitedTransport limits the answers of an issuer.
type limitedTransport struct{ http.RoundTripper }

// RoundTrip sends a request.
func (t limitedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	resp.Body = &limitedBody{ReadCloser: resp.Body, left: maxKeys}
	if resp.StatusCode != http.StatusOK {
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(resp.Body, maxErrorPage), resp.Body}
	}
	return resp, nil
}

// limitedBody returns an error when more is read than is left.
type limitedBody struct {
	io.ReadCloser
	left int
}

// Read reads the answer.
func (b *limitedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= n; b.left < 0 {
		return 0, fmt.Errorf("the answer of the issuer is larger than %d MiB", maxKeys>>20)
	}
	return n, err
}

// brief returns an error with a short text.
func brief(err error) error {
	if err == nil || len(err.Error()) <= maxReason {
		return err
	}
	return errors.New(strings.ToValidUTF8(err.Error()[:maxReason], "") + "…")
}
