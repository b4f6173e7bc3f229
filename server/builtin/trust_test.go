package builtin

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"espalier.dev/server/pki"
)

// certificate returns a certificate in PEM that expires at a time.
func certificate(t *testing.T, serial int64, expires time.Time) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), NotBefore: expires.Add(-time.Hour), NotAfter: expires}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// TestJoinCertificates adds the CA of a server to those of others, and forgets expired ones.
func TestJoinCertificates(t *testing.T) {
	t.Parallel()
	now := time.Now()
	a, b, expired := certificate(t, 1, now.Add(time.Hour)), certificate(t, 2, now.Add(time.Hour)), certificate(t, 3, now.Add(-time.Minute))
	for _, c := range []struct{ bundle, more, want string }{
		{"", a, a},
		{a, a, a},
		{strings.TrimSpace(a), a, strings.TrimSpace(a)},
		{a, b, a + b},
		{a + b, b, a + b},
		{expired + a, b, a + b},
		{expired + a, a, a},
		{a, expired, a},
	} {
		if got := joinCertificates(c.bundle, c.more, now); got != c.want {
			t.Errorf("%s\nand\n%s\nare\n%s\ninstead of\n%s", c.bundle, c.more, got, c.want)
		}
	}
}

// TestJoinNames makes sure that certificates of one configuration do not get the names of another that allows
// all names.
func TestJoinNames(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ stored, wanted, want string }{
		{`["a"]`, `["b"]`, `["a","b"]`},
		{`["a"]`, `["a"]`, `["a"]`},
		{`[]`, `["b"]`, `["b"]`},
		{`[]`, `[]`, `[]`},
		{`["a"]`, `[]`, `["a","` + pki.ProxyUser + `"]`},
		{`x`, `["b"]`, `x`},
	} {
		m := &corev1.ConfigMap{Data: map[string]string{allowedNames: c.stored}}
		changed := addTrust(m, map[string]string{allowedNames: c.wanted})
		if got := m.Data[allowedNames]; got != c.want || changed != (c.want != c.stored) {
			t.Errorf("%s and %s are %s instead of %s", c.stored, c.wanted, got, c.want)
		}
	}
}
