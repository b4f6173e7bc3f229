package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"time"

	"espalier.dev/server/pki"
)

// writeKubeconfig writes the kubeconfig of a user, or of the administrator.
func writeKubeconfig(path, url string, bundle *pki.Bundle, user string) error {
	config := pki.Kubeconfig{Server: url, CA: bundle.CA.Cert, User: user, Client: bundle.Admin, UnsafeNoFsync: true}
	if user != "" {
		var err error
		now := time.Now()
		if config.Client, err = clientPair(bundle.CA, user, now.Add(-time.Hour), now.AddDate(0, 0, 2)); err != nil {
			return err
		}
	}
	text, err := config.Marshal()
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o600)
}

// clientPair returns a certificate of a user that is valid from one time to another.
func clientPair(ca pki.Pair, user string, from, to time.Time) (pki.Pair, error) {
	parent, err := tls.X509KeyPair(ca.Cert, ca.Key)
	if err != nil {
		return pki.Pair{}, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pki.Pair{}, err
	}
	cert, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:      pkix.Name{CommonName: user},
		NotBefore:    from,
		NotAfter:     to,
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, parent.Leaf, key.Public(), parent.PrivateKey)
	if err != nil {
		return pki.Pair{}, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return pki.Pair{}, err
	}
	return pki.Pair{
		Cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}),
		Key:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}),
	}, nil
}
