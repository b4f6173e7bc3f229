package server

import (
	"crypto/x509"
	"net/http"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	x509request "k8s.io/apiserver/pkg/authentication/request/x509"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
)

const (
	// verifiedAge is the maximum age of a verification. The metric of the remaining lifetime
	// of client certificates counts verifications.
	verifiedAge = time.Minute
	// maxVerified is the maximum number of certificates that are remembered.
	maxVerified = 4096
)

// certificates authenticates users by their client certificate. The verification of a
// signature costs more than all other filters together, so verified certificates are
// remembered: until a certificate of their chain expires, the CAs change, or the verification
// is too old. Certificates that are not accepted are verified each time.
type certificates struct {
	ca  dynamiccertificates.CAContentProvider
	now func() time.Time

	mu sync.RWMutex
	// changes counts the changes of the CAs.
	changes int
	// verified has the results. All requests of a connection have the same pointer to the
	// certificate of the client. That of another connection is as good: the certificate is
	// the same, and who has no private key for it cannot connect.
	verified map[*x509.Certificate]verification
}

type verification struct {
	response *authenticator.Response
	until    time.Time
}

func newCertificates(ca dynamiccertificates.CAContentProvider) *certificates {
	c := &certificates{ca: ca, now: time.Now, verified: map[*x509.Certificate]verification{}}
	ca.AddListener(c)
	return c
}

// Enqueue is called when the CAs have changed.
func (c *certificates) Enqueue() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changes++
	clear(c.verified)
}

// AuthenticateRequest returns the user of the client certificate. It is false if there is none.
func (c *certificates) AuthenticateRequest(req *http.Request) (*authenticator.Response, bool, error) {
	if req.TLS == nil || len(req.TLS.PeerCertificates) == 0 {
		return nil, false, nil
	}
	leaf, now := req.TLS.PeerCertificates[0], c.now()
	c.mu.RLock()
	v, known := c.verified[leaf]
	changes := c.changes
	c.mu.RUnlock()
	if known && now.Before(v.until) {
		own := *v.response // the caller may change it
		return &own, true, nil
	}

	until := now.Add(verifiedAge)
	user := func(chain []*x509.Certificate) (*authenticator.Response, bool, error) {
		for _, cert := range chain {
			if cert.NotAfter.Before(until) {
				until = cert.NotAfter
			}
		}
		return x509request.CommonNameUserConversion(chain)
	}
	response, ok, err := x509request.NewDynamic(c.ca.VerifyOptions, x509request.UserConversionFunc(user)).AuthenticateRequest(req)
	if err != nil || !ok {
		return nil, false, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if changes == c.changes { // otherwise the CAs may be those before the change
		if len(c.verified) >= maxVerified {
			clear(c.verified)
		}
		c.verified[leaf] = verification{response: response, until: until}
	}
	own := *response
	return &own, true, nil
}
