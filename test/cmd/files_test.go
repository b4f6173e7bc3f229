package main

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"testing"
)

// TestFiles reads a file through the proxy, as kubectl does, and makes sure that no other host
// can be reached.
func TestFiles(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "file.yaml"), []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := startFiles(root, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := f.stop(); err != nil {
			t.Error(err)
		}
	}()
	certificate, err := os.ReadFile(f.certificate)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(certificate)
	proxy, err := url.Parse(f.url)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{Proxy: http.ProxyURL(proxy), TLSClientConfig: &tls.Config{RootCAs: roots}}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	resp, err := client.Get("https://" + filesHost + filesPath + "file.yaml")
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil || string(data) != "content" {
		t.Errorf("read %q, %v", data, err)
	}
	if resp, err := client.Get("https://example.com/"); err == nil {
		_ = resp.Body.Close()
		t.Error("another host can be reached")
	}
}
