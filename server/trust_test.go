package server

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"espalier.dev/server/pki"
)

// TestKubeconfigTrust checks which certificates a kubeconfig trusts if the serving certificate is that of
// another CA. It needs no private key of it.
func TestKubeconfigTrust(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	made := func(name string) *pki.Bundle {
		b, err := pki.Ensure(pki.Config{Dir: filepath.Join(dir, name), Hosts: []string{"api.example.com"}})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	own, other, third := made("data/pki"), made("other"), made("third")
	chain := filepath.Join(dir, "chain.crt")
	if err := os.WriteFile(chain, bytes.Join([][]byte{other.Serving.Cert, other.CA.Cert}, nil), 0o600); err != nil {
		t.Fatal(err)
	}
	foreign := filepath.Join(dir, "foreign.crt")
	if err := os.WriteFile(foreign, bytes.Join([][]byte{other.Serving.Cert, third.CA.Cert}, nil), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		cert, ca string
		want     []byte
		warning  bool
	}{
		"own":                    {"", "", own.CA.Cert, false},
		"chain":                  {chain, "", other.CA.Cert, false},
		"leaf":                   {other.Serving.CertFile, "", other.Serving.Cert, true},
		"leaf and CA":            {other.Serving.CertFile, other.CA.CertFile, other.CA.Cert, false},
		"chain with another CA":  {foreign, "", bytes.Join([][]byte{other.Serving.Cert, third.CA.Cert}, nil), true},
		"CA instead of the leaf": {other.CA.CertFile, "", other.CA.Cert, false},
	} {
		o := NewOptions()
		o.DataDir, o.TLSCertFile, o.ServerCAFile, o.identityOnly = filepath.Join(dir, "data"), test.cert, test.ca, true
		if err := o.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		text, err := UserKubeconfig(o, "https://api.example.com", "ann")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		config, err := clientcmd.RESTConfigFromKubeConfig(text)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(config.CAData, test.want) {
			t.Errorf("%s: the kubeconfig trusts %s", name, config.CAData)
		}
		if warning, err := KubeconfigWarning(o); err != nil || (warning != "") != test.warning {
			t.Errorf("%s: warning %q, %v", name, warning, err)
		}
	}
	fails := func(o *Options, want string) {
		t.Helper()
		if _, err := UserKubeconfig(o, "https://api.example.com", "ann"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, expected %s", err, want)
		}
	}
	o := NewOptions()
	o.DataDir = filepath.Join(dir, "none")
	fails(o, "--ca-cert-file and --ca-key-file")
	o.DataDir, o.TLSCertFile, o.ServerCAFile = filepath.Join(dir, "data"), other.Serving.CertFile, third.CA.CertFile
	fails(o, "no certificate in it has signed")
	o.TLSCertFile = other.Serving.KeyFile
	fails(o, "it has no certificate in PEM")
}

func TestQuotaFlag(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{"8G": 8e9, "8Gi": 8 << 30, "123": 123, "8 G": -1, "x": -1, "0.5": -1} {
		o := NewOptions()
		flags := o.FlagGroups().FlagSets["Storage"]
		err := flags.Set("quota-backend-bytes", text)
		switch {
		case want < 0 && (err == nil || !strings.Contains(err.Error(), "bytes")):
			t.Errorf("%s: %v", text, err)
		case want >= 0 && (err != nil || o.EtcdQuota != want):
			t.Errorf("%s: %d, %v", text, o.EtcdQuota, err)
		}
	}
}
