package server

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/server/dynamiccertificates"

	"espalier.dev/server/pki"
)

// TestCertificates checks how long a verified client certificate is accepted.
func TestCertificates(t *testing.T) {
	dir := t.TempDir()
	bundle := func(name string) *pki.Bundle {
		b, err := pki.Ensure(pki.Config{Dir: filepath.Join(dir, name)})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	ours, others := bundle("ours"), bundle("others")
	file := filepath.Join(dir, "ca.crt")
	write := func(ca []byte) {
		if err := os.WriteFile(file, ca, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(ours.CA.Cert)
	ca, err := dynamiccertificates.NewDynamicCAContentFromFile("test", file)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	c := newCertificates(ca)
	c.now = func() time.Time { return now }
	request := func(p pki.Pair) *http.Request {
		block, _ := pem.Decode(p.Cert)
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		return &http.Request{TLS: &tls.ConnectionState{PeerCertificates: []*x509.Certificate{cert}}}
	}
	admin, stranger := request(ours.Admin), request(others.Admin)
	accepts := func(when string, req *http.Request, want bool) {
		t.Helper()
		resp, ok, err := c.AuthenticateRequest(req)
		if ok != want || want && (err != nil || resp.User.GetName() != pki.AdminUser) || !want && err == nil {
			t.Errorf("%s: accepted = %v, %v; want %v", when, ok, err, want)
		}
	}
	known := func(want int) {
		t.Helper()
		if len(c.verified) != want {
			t.Errorf("%d certificates are remembered, want %d", len(c.verified), want)
		}
	}

	for range 2 {
		accepts("of the CA", admin, true)
		accepts("of another CA", stranger, false)
		known(1)
	}
	if _, ok, err := c.AuthenticateRequest(&http.Request{TLS: &tls.ConnectionState{}}); ok || err != nil {
		t.Errorf("without a certificate: %v, %v", ok, err)
	}
	cert := admin.TLS.PeerCertificates[0]
	first := c.verified[cert].until
	now = now.Add(verifiedAge / 2)
	accepts("after half of the time", admin, true)
	if got := c.verified[cert].until; !got.Equal(first) {
		t.Errorf("a remembered certificate was verified again: until %v, before %v", got, first)
	}
	now = now.Add(verifiedAge)
	accepts("after the time", admin, true)
	if got := c.verified[cert].until; got.Equal(first) {
		t.Error("an old verification was not repeated")
	}

	// A certificate that expires soon is not remembered longer.
	now = cert.NotAfter.Add(-verifiedAge / 2)
	accepts("before it expires", admin, true)
	if got := c.verified[cert].until; got.After(cert.NotAfter) {
		t.Errorf("remembered until %v, after it expires at %v", got, cert.NotAfter)
	}
	now = time.Now()

	write(others.CA.Cert)
	if err := ca.RunOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	known(0)
	accepts("of the former CA", admin, false)
	accepts("of the new CA", stranger, true)
}
