package etcd

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// advice returns what to check if no member can be reached, as text that follows the errors, or
// nothing. A member that rejects the client certificate closes the connection, and the client often sees
// nothing but that.
func (e Endpoints) advice(errs []error) string {
	if problem := e.certificateProblem(time.Now()); problem != "" {
		return ": " + problem
	}
	if !slices.ContainsFunc(errs, isClosed) {
		return ""
	}
	plain := slices.ContainsFunc(e.URLs, func(u string) bool { return strings.HasPrefix(u, "http://") })
	switch {
	case plain:
		return ": if etcd uses TLS, its URLs begin with https://"
	case e.CertFile == "":
		return ": if etcd requires client certificates, set --etcd-certfile and --etcd-keyfile"
	}
	return ": check that etcd accepts the CA of " + e.CertFile
}

// isClosed reports whether a member has closed the connection: without a reason, or because of the certificate.
func isClosed(err error) bool {
	text := err.Error()
	return slices.ContainsFunc([]string{"server preface", "broken pipe", "connection reset", "remote error: tls"}, func(part string) bool {
		return strings.Contains(text, part)
	})
}

// certificateProblem returns why the client certificate is not valid at a time, or nothing. A file that
// cannot be read was reported before.
func (e Endpoints) certificateProblem(now time.Time) string {
	data, err := os.ReadFile(e.CertFile)
	if err != nil {
		return ""
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return ""
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	switch {
	case err != nil:
		return ""
	case now.After(cert.NotAfter):
		return fmt.Sprintf("the client certificate %s has expired on %s: renew it", e.CertFile, cert.NotAfter.Format(time.RFC3339))
	case now.Before(cert.NotBefore):
		return fmt.Sprintf("the client certificate %s is not valid before %s: check the clock", e.CertFile, cert.NotBefore.Format(time.RFC3339))
	}
	return ""
}
