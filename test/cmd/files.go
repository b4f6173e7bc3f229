package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

const (
	// filesHost is where the scripts read files of Kubernetes' repository, below filesPath.
	filesHost = "raw.githubusercontent.com"
	filesPath = "/kubernetes/kubernetes/master/"
)

// files is an HTTP proxy that serves the files that the scripts read from the repository of
// Kubernetes, and nothing else, so that no function needs the Internet.
type files struct {
	url         string
	certificate string // path of the certificate that clients must trust
	proxy, site *http.Server
	tunnels     *tunnels
}

// startFiles starts the proxy for the files below root.
func startFiles(root, dir string) (*files, error) {
	f := &files{certificate: filepath.Join(dir, "files.crt"), tunnels: &tunnels{conns: make(chan net.Conn), closed: make(chan struct{})}}
	pair, err := newCertificate(f.certificate)
	if err != nil {
		return nil, err
	}
	f.site = &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.StripPrefix(filesPath, http.FileServer(http.Dir(root)))}
	go func() { // ends with stop
		_ = f.site.Serve(tls.NewListener(f.tunnels, &tls.Config{Certificates: []tls.Certificate{pair}}))
	}()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(err, f.site.Close())
	}
	f.url = "http://" + l.Addr().String()
	f.proxy = &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(f.connect)}
	go func() { // ends with stop
		_ = f.proxy.Serve(l)
	}()
	return f, nil
}

// connect makes a tunnel to the files.
func (f *files) connect(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodConnect || r.Host != filesHost+":443" {
		http.Error(w, "this proxy only serves "+filesHost, http.StatusForbidden)
		return
	}
	// The client sends nothing before it has the response, so no data is in a buffer.
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return // the client is gone
	}
	if _, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
		_ = conn.Close()
		return
	}
	select {
	case f.tunnels.conns <- conn:
	case <-f.tunnels.closed:
		_ = conn.Close()
	}
}

func (f *files) stop() error {
	return errors.Join(f.proxy.Close(), f.site.Close())
}

// tunnels is a listener whose connections are the tunnels of a proxy.
type tunnels struct {
	conns  chan net.Conn
	closed chan struct{}
}

// Accept returns the next tunnel.
func (t *tunnels) Accept() (net.Conn, error) {
	select {
	case conn := <-t.conns:
		return conn, nil
	case <-t.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept. The server calls it once.
func (t *tunnels) Close() error {
	close(t.closed)
	return nil
}

// Addr returns an address that nothing listens on.
func (t *tunnels) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

// newCertificate makes a certificate for the host of the files, and writes it to a file.
func newCertificate(path string) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: filesHost}, DNSNames: []string{filesHost},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, err
	}
	err = os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}
