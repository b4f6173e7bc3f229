package server

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"os"

	"espalier.dev/server/pki"
)

// servingTrust is what clients need to know of a serving certificate that the server's own CA has not signed.
type servingTrust struct {
	// ca has the certificates to trust, in PEM.
	ca []byte
	// leaf is the serving certificate.
	leaf *x509.Certificate
	// pinned is set if the CA is unknown, so that clients trust the serving certificate itself.
	pinned bool
}

// readTrust reads --tls-cert-file, and --server-ca-file if it is set. Otherwise the CAs in the chain of
// the serving certificate are those to trust: they stay when the certificate is renewed.
func readTrust(o *Options) (*servingTrust, error) {
	text, err := os.ReadFile(o.TLSCertFile)
	if err != nil {
		return nil, fmt.Errorf("read --tls-cert-file: %w", err)
	}
	return trustOf(o, text)
}

// trustOf is readTrust for the content of --tls-cert-file.
func trustOf(o *Options, text []byte) (*servingTrust, error) {
	certs, err := parseCertificates(text)
	if err != nil {
		return nil, fmt.Errorf("read --tls-cert-file %s: %w", o.TLSCertFile, err)
	}
	t := &servingTrust{ca: text, leaf: certs[0]}
	if o.ServerCAFile != "" {
		if t.ca, err = os.ReadFile(o.ServerCAFile); err != nil {
			return nil, fmt.Errorf("read --server-ca-file: %w", err)
		}
		cas, err := parseCertificates(t.ca)
		if err != nil {
			return nil, fmt.Errorf("read --server-ca-file %s: %w", o.ServerCAFile, err)
		}
		if !signs(append(cas, certs[1:]...), cas, t.leaf) {
			return nil, fmt.Errorf("--server-ca-file %s: no certificate in it has signed the serving certificate in %s", o.ServerCAFile, o.TLSCertFile)
		}
		return t, nil
	}
	var cas []*x509.Certificate
	var ca []byte
	for _, c := range certs {
		if c.IsCA {
			cas = append(cas, c)
			ca = append(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})...)
		}
	}
	if signs(cas, cas, t.leaf) {
		t.ca = ca
	} else {
		t.pinned = true
	}
	return t, nil
}

// parseCertificates returns the certificates in PEM. There is at least one.
func parseCertificates(text []byte) (certs []*x509.Certificate, err error) {
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		certs = append(certs, c)
	}
	if len(certs) == 0 {
		return nil, errors.New("it has no certificate in PEM")
	}
	return certs, nil
}

// signs reports whether a certificate has a chain of signatures to one of the roots. Its time does not
// matter: the file may be renewed later.
func signs(others, roots []*x509.Certificate, leaf *x509.Certificate) bool {
	o := x509.VerifyOptions{Roots: x509.NewCertPool(), Intermediates: x509.NewCertPool(),
		CurrentTime: leaf.NotBefore, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}
	for _, c := range others {
		o.Intermediates.AddCert(c)
		if c.NotBefore.After(o.CurrentTime) {
			o.CurrentTime = c.NotBefore
		}
	}
	for _, c := range roots {
		o.Roots.AddCert(c)
	}
	_, err := leaf.Verify(o)
	return err == nil
}

// applyTo sets what the clients of a kubeconfig trust.
func (t *servingTrust) applyTo(k *pki.Kubeconfig) error {
	k.CA = t.ca
	u, err := url.Parse(k.Server)
	if err != nil {
		return fmt.Errorf("the address of the server: %w", err)
	}
	if t.leaf.VerifyHostname(u.Hostname()) != nil && len(t.leaf.DNSNames) > 0 {
		k.ServerName = t.leaf.DNSNames[0]
	}
	return nil
}

// KubeconfigWarning returns a warning for users of kubeconfigs of the server with these options, or an
// empty string.
func KubeconfigWarning(o *Options) (string, error) {
	if o.TLSCertFile == "" {
		return "", nil
	}
	t, err := readTrust(o)
	if err != nil || !t.pinned {
		return "", err
	}
	return fmt.Sprintf("%s has no CA certificate, so the kubeconfig trusts only the serving certificate itself, and becomes invalid when that is renewed: "+
		"set the CA with --server-ca-file, or add it to the file", o.TLSCertFile), nil
}
