package server

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"espalier.dev/server/pki"
)

// nobody returns a configuration without credentials.
func nobody(t testing.TB, s *Server) *rest.Config {
	t.Helper()
	c, err := s.ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	return rest.AnonymousClientConfig(c)
}

func TestAuth(t *testing.T) {
	dir := t.TempDir()
	tokens := filepath.Join(dir, "tokens.csv")
	if err := os.WriteFile(tokens, []byte("root-token,root,1,\"system:masters,other\"\nuser-token,user,2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	foreign, err := pki.Ensure(pki.Config{Dir: filepath.Join(dir, "foreign")})
	if err != nil {
		t.Fatal(err)
	}
	unknown, err := pki.Ensure(pki.Config{Dir: filepath.Join(dir, "unknown")})
	if err != nil {
		t.Fatal(err)
	}
	o := testOptions(t)
	o.TokenAuthFile = tokens
	o.ClientCAFile = foreign.CA.CertFile
	o.Profiling = true
	s := startServer(t, o)

	with := func(change func(c *rest.Config)) *rest.Config {
		c := nobody(t, s)
		change(c)
		return c
	}
	cert := func(p pki.Pair) *rest.Config {
		return with(func(c *rest.Config) { c.CertData, c.KeyData = p.Cert, p.Key })
	}
	token := func(token string) *rest.Config {
		return with(func(c *rest.Config) { c.BearerToken = token })
	}
	const ok, forbidden, unauthorized = http.StatusOK, http.StatusForbidden, http.StatusUnauthorized
	crds := "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	for _, tt := range []struct {
		name   string
		config *rest.Config
		// health and discovery are open to all authenticated users.
		health, discovery, rest int
	}{
		{"nobody", nobody(t, s), ok, unauthorized, unauthorized},
		{"the administrator's certificate", nil, ok, ok, ok},
		{"a certificate of --client-ca-file", cert(foreign.Admin), ok, ok, ok},
		{"a certificate of somebody else", cert(unknown.Admin), unauthorized, unauthorized, unauthorized},
		{"a serving certificate", cert(s.identity.current.Load().Serving), unauthorized, unauthorized, unauthorized},
		{"a token of system:masters", token("root-token"), ok, ok, ok},
		{"a token of somebody", token("user-token"), ok, ok, forbidden},
		{"no token of the file", token("guessed"), unauthorized, unauthorized, unauthorized},
		{"system:masters as somebody", with(func(c *rest.Config) {
			c.BearerToken = "root-token"
			c.Impersonate.UserName = "user"
		}), ok, ok, forbidden},
		{"somebody as system:masters", with(func(c *rest.Config) {
			c.BearerToken = "user-token"
			c.Impersonate.UserName = "root"
			c.Impersonate.Groups = []string{"system:masters"}
		}), forbidden, forbidden, forbidden},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := client(t, s, tt.config)
			for path, want := range map[string]int{
				"/livez": tt.health, "/readyz": tt.health, "/healthz": tt.health, "/livez?verbose": tt.health,
				"/version": tt.discovery, "/apis": tt.discovery, "/openapi/v2": tt.discovery, "/metrics": tt.rest, "/": tt.rest,
				"/debug/pprof/": tt.rest, crds: tt.rest, "/livez/etcd": tt.rest,
			} {
				if got, body := get(t, s, c, path); got != want {
					t.Errorf("%s: got %d, want %d: %.200s", path, got, want, body)
				}
			}
		})
	}
}

// TestServingCertificate configures a certificate from another CA, for a name that is not the
// server's.
func TestServingCertificate(t *testing.T) {
	b, err := pki.Ensure(pki.Config{Dir: t.TempDir(), Hosts: []string{"api.example.com"}})
	if err != nil {
		t.Fatal(err)
	}
	o := testOptions(t)
	o.TLSCertFile, o.TLSPrivateKeyFile = b.Serving.CertFile, b.Serving.KeyFile
	s := startServer(t, o)
	for name, c := range map[string]*rest.Config{"administrator": nil, "loopback": s.api.LoopbackClientConfig} {
		if code, body := get(t, s, client(t, s, c), "/version"); code != http.StatusOK {
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
	first, second := made("first"), made("second")
	o := testOptions(t)
	o.TLSCertFile, o.TLSPrivateKeyFile = first.Serving.CertFile, first.Serving.KeyFile
	s := startServer(t, o)
	for file, data := range map[string][]byte{first.Serving.CertFile: second.Serving.Cert, first.Serving.KeyFile: second.Serving.Key} {
		if err := pki.WriteFile(file, data); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, func() error {
		c, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig())
		if err != nil {
			return err
		}
		if string(c.CAData) != string(second.Serving.Cert) {
			return errors.New("the kubeconfig trusts the old certificate")
		}
		resp, err := client(t, s, c).Get(s.URL() + "/version")
		if err != nil {
			return err
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%d", resp.StatusCode)
		}
		code, body := get(t, s, client(t, s, c), "/api/v1/namespaces/default/configmaps/kube-root-ca.crt")
		var ca corev1.ConfigMap
		if err := json.Unmarshal([]byte(body), &ca); err != nil || code != http.StatusOK || ca.Data["ca.crt"] != string(second.Serving.Cert) {
			return fmt.Errorf("kube-root-ca.crt: %d %s", code, body)
		}
		return nil
	})
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
	o := testOptions(t)
	o.AuditPolicyFile, o.AuditLogPath = policy, log
	s := startServer(t, o)
	admin, stranger := client(t, s, nil), client(t, s, nobody(t, s))
	get(t, s, admin, "/livez")
	get(t, s, admin, "/version")
	get(t, s, stranger, "/metrics")
	get(t, s, admin, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/missing.example.com")
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
	o := testOptions(t)
	s := startServer(t, o)
	admin := client(t, s, nil)
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
	huge := `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"` + strings.Repeat("a", maxRequestBody) + `"}}`
	for _, tt := range []struct {
		name, contentType, body string
		code                    int
	}{
		{"oversized JSON", "application/json", huge, http.StatusRequestEntityTooLarge},
		{"oversized YAML", "application/yaml", "#" + strings.Repeat("a", maxRequestBody), http.StatusRequestEntityTooLarge},
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
