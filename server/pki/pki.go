// Package pki creates the certificates that secure a server from its first start: a
// certificate authority (CA), a serving certificate, and a client certificate for the
// administrator, with a kubeconfig that contains it.
//
// They are files in one directory that only its owner can enter. Valid certificates are
// reused. Those that expire soon, or no longer match the server's addresses, are issued again
// by the same CA. The CA certificate is renewed with the same key, so that certificates and
// kubeconfigs signed by it stay valid.
package pki

import (
	"bytes"
	"cmp"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/client-go/util/keyutil"
)

const (
	authorityAge = 10 * 365 * 24 * time.Hour
	leafAge      = 365 * 24 * time.Hour

	// The clocks of clients may be behind.
	backdate = time.Hour

	// AdminUser and AdminGroup are the user and group in the administrator's certificate.
	AdminUser  = "espalier-admin"
	AdminGroup = "system:masters"
)

// Pair is a certificate and its key, in PEM, and their files.
type Pair struct {
	Cert, Key         []byte
	CertFile, KeyFile string
}

// Bundle holds the certificates of a server.
type Bundle struct {
	CA, Serving, Admin Pair
}

// Config configures the certificates.
type Config struct {
	// Dir is the directory of the files. It is created if it does not exist.
	Dir string
	// Hosts are the host names and addresses of the server.
	Hosts []string
	// CACertFile and CAKeyFile are the files of a CA that servers share. It is neither created
	// nor renewed. If they are empty, the directory has the CA.
	CACertFile, CAKeyFile string
	// LongLived makes certificates valid as long as the CA, instead of a year, for tests in which years
	// may pass.
	LongLived bool
	// UnsafeNoFsync does not wait for the disk. For tests only.
	UnsafeNoFsync bool
	// Now returns the current time; nil means time.Now.
	Now func() time.Time
	// name is that of the CA, if it is not the CA of the server.
	name string
}

// Ensure returns the certificates. It creates those that are missing or no longer valid.
func Ensure(c Config) (*Bundle, error) {
	now := c.now()
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("create the certificate directory: %w", err)
	}
	// An existing directory may be open to other users.
	if err := os.Chmod(c.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("restrict the certificate directory to its owner: %w", err)
	}
	ca, err := c.authority(now)
	if err != nil {
		return nil, err
	}
	serving, err := c.leaf("serving", ca, now, servingTemplate(c.Hosts))
	if err != nil {
		return nil, err
	}
	admin, err := c.leaf("admin", ca, now, clientTemplate(AdminUser, AdminGroup))
	if err != nil {
		return nil, err
	}
	return &Bundle{CA: ca.Pair, Serving: serving.Pair, Admin: admin.Pair}, nil
}

// signer is a parsed pair.
type signer struct {
	Pair
	cert *x509.Certificate
	key  crypto.Signer
}

// authority returns the CA in the directory, and creates or renews it if necessary.
func (c Config) authority(now time.Time) (*signer, error) {
	s, err := c.loadAuthority()
	if err != nil {
		return nil, err
	}
	if c.CACertFile != "" {
		return s, nil
	}
	if s == nil {
		if err := c.halfLost(); err != nil {
			return nil, err
		}
		key, err := newKey()
		if err != nil {
			return nil, err
		}
		return c.sign("ca", c.authorityTemplate(now), key, nil)
	}
	if due(s.cert, now) {
		return c.sign("ca", c.authorityTemplate(now), s.key, nil)
	}
	return s, nil
}

// halfLost returns an error if one file of the CA is missing: a new CA would make the certificates of
// all clients invalid. A key alone is what a first start leaves that was interrupted, and no CA yet:
// its certificate is written after it, and the others after both.
func (c Config) halfLost() error {
	ca := c.pair("ca")
	exists := func(file string) bool {
		_, err := os.Lstat(file)
		return !errors.Is(err, os.ErrNotExist)
	}
	missing := ca.KeyFile
	if !exists(ca.CertFile) {
		if !exists(ca.KeyFile) || !exists(c.pair("serving").CertFile) && !exists(c.pair("admin").CertFile) {
			return nil
		}
		missing = ca.CertFile
	}
	return fmt.Errorf("read the CA: %s is missing: restore it, or remove the directory %s to create a new CA", missing, c.Dir)
}

// loadAuthority reads the CA. It returns nil if there is none.
func (c Config) loadAuthority() (*signer, error) {
	if c.CACertFile == "" {
		s, err := c.load("ca")
		if err == nil && s != nil && !s.cert.IsCA {
			return nil, fmt.Errorf("%s is not a CA certificate: remove the directory %s to create a new CA", s.CertFile, c.Dir)
		}
		return s, err
	}
	s := &signer{Pair: Pair{CertFile: c.CACertFile, KeyFile: c.CAKeyFile}}
	var err error
	if s.Cert, err = os.ReadFile(s.CertFile); err != nil {
		return nil, fmt.Errorf("read the CA: %w", err)
	}
	if s.Key, err = os.ReadFile(s.KeyFile); err != nil {
		return nil, fmt.Errorf("read the CA: %w", err)
	}
	if err := s.parse(); err != nil {
		return nil, fmt.Errorf("read the CA: %w", err)
	}
	if !s.cert.IsCA {
		return nil, fmt.Errorf("%s is not a CA certificate", s.CertFile)
	}
	return s, nil
}

// leaf returns the certificate of the given name. It reuses the existing one if that matches
// the template.
func (c Config) leaf(name string, ca *signer, now time.Time, template *x509.Certificate) (*signer, error) {
	s, err := c.load(name)
	if err != nil {
		return nil, err
	}
	if s != nil && !due(s.cert, now) && s.cert.CheckSignatureFrom(ca.cert) == nil && covers(s.cert, template) {
		return s, nil
	}
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	c.limitAge(template, ca, now)
	return c.sign(name, template, key, ca)
}

// limitAge limits the validity of a certificate to that of its CA.
func (c Config) limitAge(template *x509.Certificate, ca *signer, now time.Time) {
	template.NotBefore = now.Add(-backdate)
	template.NotAfter = now.Add(leafAge)
	if c.LongLived || template.NotAfter.After(ca.cert.NotAfter) {
		template.NotAfter = ca.cert.NotAfter
	}
}

// NewClient returns a new client certificate for a user, signed by the CA in the
// directory, which [Ensure] has created, or by the CA that servers share. It writes no files.
func NewClient(c Config, user string, groups ...string) (Pair, error) {
	if user == "" {
		return Pair{}, errors.New("the name of the user is empty")
	}
	ca, err := c.existingAuthority()
	if err != nil {
		return Pair{}, err
	}
	key, err := newKey()
	if err != nil {
		return Pair{}, err
	}
	template := clientTemplate(user, groups...)
	c.limitAge(template, ca, c.now())
	s, err := issue(template, key, ca)
	if err != nil {
		return Pair{}, fmt.Errorf("create the certificate of user %q: %w", user, err)
	}
	return s.Pair, nil
}

// ReadCA returns the CA that [Ensure] has created, or that servers share.
func ReadCA(c Config) (Pair, error) {
	ca, err := c.existingAuthority()
	if err != nil {
		return Pair{}, err
	}
	return ca.Pair, nil
}

func (c Config) existingAuthority() (*signer, error) {
	ca, err := c.loadAuthority()
	if err == nil && ca == nil {
		err = fmt.Errorf("%s has no CA", c.Dir)
	}
	return ca, err
}

func (c Config) now() time.Time {
	if c.Now != nil {
		return c.Now()
	}
	return time.Now()
}

// due reports whether a certificate should be renewed: a third of its lifetime is left.
func due(cert *x509.Certificate, now time.Time) bool {
	life := cert.NotAfter.Sub(cert.NotBefore)
	return now.Before(cert.NotBefore) || now.After(cert.NotAfter.Add(-life/3))
}

// covers reports whether a certificate is valid for everything in the template.
func covers(cert, template *x509.Certificate) bool {
	for _, name := range template.DNSNames {
		if !slices.Contains(cert.DNSNames, name) {
			return false
		}
	}
	for _, ip := range template.IPAddresses {
		if !slices.ContainsFunc(cert.IPAddresses, ip.Equal) {
			return false
		}
	}
	return cert.Subject.CommonName == template.Subject.CommonName &&
		slices.Equal(cert.Subject.Organization, template.Subject.Organization) &&
		slices.Equal(cert.ExtKeyUsage, template.ExtKeyUsage)
}

func (c Config) authorityTemplate(now time.Time) *x509.Certificate {
	return &x509.Certificate{
		Subject:               pkix.Name{CommonName: cmp.Or(c.name, "espalier-ca")},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(authorityAge),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
}

func servingTemplate(hosts []string) *x509.Certificate {
	t := &x509.Certificate{
		Subject:     pkix.Name{CommonName: "espalier"},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			t.IPAddresses = append(t.IPAddresses, ip)
		} else {
			t.DNSNames = append(t.DNSNames, h)
		}
	}
	return t
}

func clientTemplate(user string, groups ...string) *x509.Certificate {
	return &x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
}

func newKey() (crypto.Signer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generate a key: %w", err)
	}
	return key, nil
}

// sign issues a certificate for key and writes both. Without a CA the certificate is
// self-signed.
func (c Config) sign(name string, template *x509.Certificate, key crypto.Signer, by *signer) (*signer, error) {
	s, err := issue(template, key, by)
	if err != nil {
		return nil, fmt.Errorf("create the certificate %q: %w", name, err)
	}
	files := c.pair(name)
	s.CertFile, s.KeyFile = files.CertFile, files.KeyFile
	// The key is written first: a certificate that does not match its key is detected and
	// issued again.
	if err := WriteFile(s.KeyFile, s.Key, !c.UnsafeNoFsync); err != nil {
		return nil, err
	}
	if err := WriteFile(s.CertFile, s.Cert, !c.UnsafeNoFsync); err != nil {
		return nil, err
	}
	return s, nil
}

// issue returns a certificate for key, signed by a CA or, without one, self-signed.
func issue(template *x509.Certificate, key crypto.Signer, by *signer) (*signer, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("generate a serial number: %w", err)
	}
	template.SerialNumber = serial
	parent, signKey := template, key
	if by != nil {
		parent, signKey = by.cert, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signKey)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode the key: %w", err)
	}
	s := &signer{cert: cert, key: key}
	s.Cert = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	s.Key = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
	return s, nil
}

func (c Config) pair(name string) Pair {
	return Pair{CertFile: filepath.Join(c.Dir, name+".crt"), KeyFile: filepath.Join(c.Dir, name+".key")}
}

// load reads a pair. It returns nil if there is none.
func (c Config) load(name string) (*signer, error) {
	s := &signer{Pair: c.pair(name)}
	var err error
	if s.Key, err = os.ReadFile(s.KeyFile); err == nil {
		s.Cert, err = os.ReadFile(s.CertFile)
	}
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the certificate %q: %w", name, err)
	}
	if err := s.parse(); err != nil {
		if name == "ca" {
			return nil, fmt.Errorf("read the CA: %w: restore %s and %s, or remove the directory %s to create a new CA", err, s.CertFile,
				s.KeyFile, c.Dir)
		}
		return nil, nil // issued again
	}
	// Copied files may be readable by other users.
	if err := os.Chmod(s.KeyFile, 0o600); err != nil {
		return nil, fmt.Errorf("restrict a key to its owner: %w", err)
	}
	return s, nil
}

// parse sets cert and key.
func (s *signer) parse() error {
	block, _ := pem.Decode(s.Cert)
	if block == nil {
		return fmt.Errorf("%s is not PEM", s.CertFile)
	}
	if block.Type != "CERTIFICATE" {
		return fmt.Errorf("%s has no certificate: it begins with %s", s.CertFile, block.Type)
	}
	var err error
	if s.cert, err = x509.ParseCertificate(block.Bytes); err != nil {
		return fmt.Errorf("%s: %w", s.CertFile, err)
	}
	key, err := keyutil.ParsePrivateKeyPEM(s.Key)
	if err != nil {
		return fmt.Errorf("%s: %w", s.KeyFile, err)
	}
	var ok bool
	if s.key, ok = key.(crypto.Signer); !ok {
		return fmt.Errorf("the key in %s cannot sign", s.KeyFile)
	}
	have, err := x509.MarshalPKIXPublicKey(s.key.Public())
	if err != nil {
		return fmt.Errorf("%s: %w", s.KeyFile, err)
	}
	if !bytes.Equal(have, s.cert.RawSubjectPublicKeyInfo) {
		return fmt.Errorf("the certificate %s does not match the key %s", s.CertFile, s.KeyFile)
	}
	return nil
}

// WriteFile replaces a file atomically. Only its owner can read it. sync waits for the disk.
func WriteFile(path string, data []byte, sync bool) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-") // mode 0600
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
			err = fmt.Errorf("write %s: %w", path, err)
		}
	}()
	if err = finish(f, data, sync); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// finish writes data, to disk if sync is set, and closes the file.
func finish(f *os.File, data []byte, sync bool) error {
	if _, err := f.Write(data); err != nil {
		_ = f.Close()
		return err
	}
	if sync {
		if err := f.Sync(); err != nil {
			_ = f.Close()
			return err
		}
	}
	return f.Close()
}
