package authorization_test

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/rest"

	"espalier.dev/server/pki"
	"espalier.dev/server/servertest"
)

func TestCredentials(t *testing.T) {
	t.Parallel()
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
	o := servertest.Options(t)
	o.TokenAuthFile = tokens
	o.ClientCAFile = foreign.CA.CertFile
	o.Profiling = true
	s := servertest.Start(t, o)

	with := func(change func(c *rest.Config)) *rest.Config {
		c := servertest.Anonymous(t, s)
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
		{"nobody", servertest.Anonymous(t, s), ok, unauthorized, unauthorized},
		{"the administrator's certificate", nil, ok, ok, ok},
		{"a certificate of --client-ca-file", cert(foreign.Admin), ok, ok, ok},
		{"a certificate of somebody else", cert(unknown.Admin), unauthorized, unauthorized, unauthorized},
		{"a serving certificate", with(func(c *rest.Config) {
			c.CertFile, c.KeyFile = filepath.Join(o.DataDir, "pki", "serving.crt"), filepath.Join(o.DataDir, "pki", "serving.key")
		}), unauthorized, unauthorized, unauthorized},
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
			c := servertest.Client(t, s, tt.config)
			for path, want := range map[string]int{
				"/livez": tt.health, "/readyz": tt.health, "/healthz": tt.health, "/livez?verbose": tt.health,
				"/version": tt.discovery, "/apis": tt.discovery, "/openapi/v2": tt.discovery, "/metrics": tt.rest, "/": tt.rest,
				"/debug/pprof/": tt.rest, crds: tt.rest, "/livez/etcd": tt.rest,
			} {
				if got, body := servertest.Get(t, s, c, path); got != want {
					t.Errorf("%s: got %d, want %d: %.200s", path, got, want, body)
				}
			}
		})
	}
}
