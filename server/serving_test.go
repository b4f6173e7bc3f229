package server_test

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"espalier.dev/server"
	"espalier.dev/server/pki"
	"espalier.dev/server/servertest"
)

// TestServingCertificate configures a certificate from another CA, for a name that is not the
// server's.
func TestServingCertificate(t *testing.T) {
	t.Parallel()
	b, err := pki.Ensure(pki.Config{Dir: t.TempDir(), Hosts: []string{"api.example.com"}})
	if err != nil {
		t.Fatal(err)
	}
	o := servertest.Options(t)
	o.TLSCertFile, o.TLSPrivateKeyFile = b.Serving.CertFile, b.Serving.KeyFile
	s := servertest.Start(t, o)
	for name, c := range map[string]*rest.Config{"administrator": nil, "loopback": s.Loopback()} {
		if code, body := servertest.Get(t, s, servertest.Client(t, s, c), "/version"); code != http.StatusOK {
			t.Errorf("%s: %d %s", name, code, body)
		}
	}
}

// TestRotateServingCertificate replaces the files of --tls-cert-file and
// --tls-private-key-file. The kubeconfig follows, and works, and pods get the new certificate, too.
func TestRotateServingCertificate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	made := func(name string) *pki.Bundle {
		b, err := pki.Ensure(pki.Config{Dir: filepath.Join(dir, name), Hosts: []string{"127.0.0.1"}})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for name, withCA := range map[string]bool{"leaf": false, "chain": true} {
		t.Run(name, func(t *testing.T) {
			first, second := made(name+"/first"), made(name+"/second")
			// What clients trust: the CA in the chain, or the certificate itself.
			served, trusted := second.Serving.Cert, second.Serving.Cert
			if withCA {
				served, trusted = slices.Concat(second.Serving.Cert, second.CA.Cert), second.CA.Cert
			}
			o := servertest.Options(t)
			o.TLSCertFile, o.TLSPrivateKeyFile = first.Serving.CertFile, first.Serving.KeyFile
			s := servertest.Start(t, o)
			for file, data := range map[string][]byte{first.Serving.CertFile: served, first.Serving.KeyFile: second.Serving.Key} {
				if err := pki.WriteFile(file, data, true); err != nil {
					t.Fatal(err)
				}
			}
			servertest.Eventually(t, func() error {
				c, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig())
				if err != nil {
					return err
				}
				if string(c.CAData) != string(trusted) {
					return errors.New("the kubeconfig trusts the old certificate")
				}
				resp, err := servertest.Client(t, s, c).Get(s.URL() + "/version")
				if err != nil {
					return err
				}
				_ = resp.Body.Close()
				if resp.StatusCode != http.StatusOK {
					return fmt.Errorf("%d", resp.StatusCode)
				}
				code, body := servertest.Get(t, s, servertest.Client(t, s, c), "/api/v1/namespaces/default/configmaps/kube-root-ca.crt")
				var ca corev1.ConfigMap
				if err := json.Unmarshal([]byte(body), &ca); err != nil || code != http.StatusOK || ca.Data["ca.crt"] != string(trusted) {
					return fmt.Errorf("kube-root-ca.crt: %d %s", code, body)
				}
				return nil
			})
		})
	}
}

// TestRenewBeforeCA renews the serving certificate with another CA before --server-ca-file has that CA. Until then,
// config maps keep the old one.
func TestRenewBeforeCA(t *testing.T) {
	t.Parallel()
	made := func() *pki.Bundle {
		b, err := pki.Ensure(pki.Config{Dir: t.TempDir(), Hosts: []string{"127.0.0.1"}})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	write := func(file string, data []byte) {
		if err := pki.WriteFile(file, data, true); err != nil {
			t.Fatal(err)
		}
	}
	first, second := made(), made()
	o := servertest.Options(t)
	o.TLSCertFile, o.TLSPrivateKeyFile = first.Serving.CertFile, first.Serving.KeyFile
	o.ServerCAFile = filepath.Join(t.TempDir(), "ca.crt")
	write(o.ServerCAFile, first.CA.Cert)
	s := servertest.Start(t, o)
	client := servertest.Client(t, s, s.Loopback())
	published := func() string {
		_, body := servertest.Get(t, s, client, "/api/v1/namespaces/default/configmaps/kube-root-ca.crt")
		var ca corev1.ConfigMap
		if err := json.Unmarshal([]byte(body), &ca); err != nil {
			t.Fatal(err)
		}
		return ca.Data["ca.crt"]
	}
	is := func(want []byte) func() error {
		return func() error {
			if got := published(); got != string(want) {
				return fmt.Errorf("published: %s", got)
			}
			return nil
		}
	}
	servertest.Eventually(t, is(first.CA.Cert))

	write(first.Serving.CertFile, second.Serving.Cert)
	write(first.Serving.KeyFile, second.Serving.Key)
	address, err := url.Parse(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(second.CA.Cert)
	servertest.Eventually(t, func() error {
		conn, err := tls.Dial("tcp", address.Host, &tls.Config{RootCAs: roots, ServerName: "127.0.0.1"})
		if err == nil {
			_ = conn.Close()
		}
		return err
	})
	for end := time.Now().Add(300 * time.Millisecond); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if err := is(first.CA.Cert)(); err != nil {
			t.Fatal(err)
		}
	}
	write(o.ServerCAFile, second.CA.Cert)
	servertest.Eventually(t, is(second.CA.Cert))
}

func TestAudit(t *testing.T) {
	dir := t.TempDir()
	policy, log := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "audit.log")
	text := `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  nonResourceURLs: [/livez]
- level: Metadata
`
	if err := os.WriteFile(policy, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	o := servertest.Options(t)
	o.AuditPolicyFile, o.AuditLogPath = policy, log
	s := servertest.Start(t, o)
	admin, stranger := servertest.Client(t, s, nil), servertest.Client(t, s, servertest.Anonymous(t, s))
	servertest.Get(t, s, admin, "/livez")
	servertest.Get(t, s, admin, "/version")
	servertest.Get(t, s, stranger, "/metrics")
	servertest.Get(t, s, admin, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/missing.example.com")
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}

	got := map[string]string{}
	f, err := os.Open(log)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e auditv1.Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		path, _, _ := strings.Cut(e.RequestURI, "?")
		got[path] = fmt.Sprint(e.User.Username, " ", e.Verb, " ", e.ResponseStatus.Code)
	}
	for path, want := range map[string]string{
		"/livez":   "",
		"/version": pki.AdminUser + " get 200",
		"/metrics": " get 401",
		"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/missing.example.com": pki.AdminUser + " get 404",
	} {
		if got[path] != want {
			t.Errorf("%s: recorded %q, want %q", path, got[path], want)
		}
	}
	if info, err := os.Stat(log); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the log: %v, %v", info.Mode(), err)
	}
}

// TestBodies sends bodies that are too large or broken.
func TestBodies(t *testing.T) {
	o := servertest.Options(t)
	s := servertest.Start(t, o)
	admin := servertest.Client(t, s, nil)
	post := func(t *testing.T, contentType, body string) (int, string) {
		t.Helper()
		resp, err := admin.Post(s.URL()+"/apis/apiextensions.k8s.io/v1/customresourcedefinitions", contentType, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		var status struct{ Kind, Message, Reason string }
		if err := json.NewDecoder(resp.Body).Decode(&status); err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if status.Kind != "Status" {
			t.Errorf("the answer is no Status but %q", status.Kind)
		}
		return resp.StatusCode, status.Message
	}
	huge := `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"` + strings.Repeat("a", server.MaxRequestBody) + `"}}`
	for _, tt := range []struct {
		name, contentType, body string
		code                    int
	}{
		{"oversized JSON", "application/json", huge, http.StatusRequestEntityTooLarge},
		{"oversized YAML", "application/yaml", "#" + strings.Repeat("a", server.MaxRequestBody), http.StatusRequestEntityTooLarge},
		{"half an object", "application/json", huge[:100], http.StatusBadRequest},
		{"bad YAML", "application/yaml", "a: [", http.StatusBadRequest},
		{"nothing", "application/json", "", http.StatusBadRequest},
		{"not a type of content", "text/plain", "hello", http.StatusUnsupportedMediaType},
		{"a list", "application/json", "[]", http.StatusBadRequest},
		{"deep", "application/json", strings.Repeat("[", 1<<20), http.StatusBadRequest},
		{"deep objects", "application/json", strings.Repeat(`{"a":`, 1<<18), http.StatusBadRequest},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if code, message := post(t, tt.contentType, tt.body); code != tt.code {
				t.Errorf("got %d, want %d: %.200s", code, tt.code, message)
			}
		})
	}
}
