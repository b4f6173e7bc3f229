package authorization_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	jose "gopkg.in/go-jose/go-jose.v2"
	"gopkg.in/go-jose/go-jose.v2/jwt"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"espalier.dev/server"
	"espalier.dev/server/authentication"
	"espalier.dev/server/pki"
	"espalier.dev/server/servertest"
)

// self returns the user that the server sees behind a token, or an error.
func self(t testing.TB, s *server.Server, token string) (*authenticationv1.UserInfo, error) {
	t.Helper()
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	r, err := servertest.Clientset(t, s, nil, "").AuthenticationV1().TokenReviews().Create(context.Background(), review, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	if !r.Status.Authenticated {
		return nil, errors.New(r.Status.Error)
	}
	return &r.Status.User, nil
}

// issuer is an OpenID Connect provider.
type issuer struct {
	*httptest.Server
	signer jose.Signer
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: &jose.JSONWebKey{Key: key, KeyID: "one"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	i := &issuer{signer: signer}
	answer := func(w http.ResponseWriter, v any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(v) // the client checks it
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{"issuer": i.URL, "jwks_uri": i.URL + "/keys", "id_token_signing_alg_values_supported": []string{"RS256"}})
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "one", Algorithm: "RS256", Use: "sig"}}})
	})
	i.Server = httptest.NewTLSServer(mux)
	t.Cleanup(i.Close)
	return i
}

// ca returns the certificate of the provider in PEM.
func (i *issuer) ca() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.Certificate().Raw}))
}

// token returns a token with claims beside the usual ones.
func (i *issuer) token(t *testing.T, audience string, lifetime time.Duration, claims map[string]any) string {
	t.Helper()
	usual := jwt.Claims{Issuer: i.URL, Audience: jwt.Audience{audience}, Subject: "jane", Expiry: jwt.NewNumericDate(time.Now().Add(lifetime))}
	text, err := jwt.Signed(i.signer).Claims(usual).Claims(claims).CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// configuration returns an AuthenticationConfiguration for the provider.
func (i *issuer) configuration(username string) string {
	return fmt.Sprintf(`
apiVersion: apiserver.config.k8s.io/v1
kind: AuthenticationConfiguration
anonymous: {enabled: true, conditions: [{path: /livez}]}
jwt:
- issuer:
    url: %s
    audiences: [espalier]
    certificateAuthority: %q
  claimMappings:
    username: {expression: '%s'}
    groups: {expression: 'claims.groups'}
  userValidationRules:
  - {expression: "!user.username.startsWith('system:')", message: username cannot use the prefix system}
`, i.URL, i.ca(), username)
}

func TestAuthenticationConfig(t *testing.T) {
	t.Parallel()
	provider := newIssuer(t)
	file := filepath.Join(t.TempDir(), "authentication.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(provider.configuration(`"oidc:" + claims.sub`))
	o := servertest.Options(t)
	o.Authentication.ConfigFile = file
	s := servertest.Start(t, o)
	groups := map[string]any{"groups": []string{"dev"}, "name": "other"}
	token := provider.token(t, "espalier", time.Hour, groups)
	named := func(name string) error {
		user, err := self(t, s, token)
		if err != nil {
			return err
		}
		if user.Username != name || !slices.Contains(user.Groups, "dev") || !slices.Contains(user.Groups, "system:authenticated") {
			return fmt.Errorf("%+v", user)
		}
		return nil
	}
	servertest.Eventually(t, func() error { return named("oidc:jane") }) // the keys are fetched in the background

	reject(t, s, "wrong audience", provider.token(t, "elsewhere", time.Hour, groups))
	reject(t, s, "expired", provider.token(t, "espalier", -time.Hour, groups))
	reject(t, s, "no groups", provider.token(t, "espalier", time.Hour, nil))
	other := newIssuer(t)
	other.URL = provider.URL
	reject(t, s, "another key", other.token(t, "espalier", time.Hour, groups))

	// Tokens of service accounts work beside it.
	set := servertest.Clientset(t, s, nil, "")
	account(t, set, "robot")
	accept(t, s, requestToken(t, set, "robot", authenticationv1.TokenRequestSpec{}).Status.Token, "robot")

	stranger := servertest.Client(t, s, servertest.Anonymous(t, s))
	for path, want := range map[string]int{"/livez": http.StatusOK, "/readyz": http.StatusUnauthorized, "/version": http.StatusUnauthorized} {
		if code, body := servertest.Get(t, s, stranger, path); code != want {
			t.Errorf("anonymous %s: %d %s", path, code, body)
		}
	}

	// The file is reloaded. What is invalid changes nothing.
	write(provider.configuration(`"oidc2:" + claims.name`))
	servertest.Eventually(t, func() error { return named("oidc2:other") })
	write(provider.configuration(`"broken`))
	write(provider.configuration(`"system:" + claims.name`))
	servertest.Eventually(t, func() error {
		if code, _ := whoami(t, s, token); code != http.StatusUnauthorized {
			return fmt.Errorf("%d", code)
		}
		return nil
	})
}

func TestOIDCFlags(t *testing.T) {
	t.Parallel()
	provider := newIssuer(t)
	ca := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(ca, []byte(provider.ca()), 0o600); err != nil {
		t.Fatal(err)
	}
	o := servertest.Options(t)
	f := &o.Authentication.OIDC
	f.IssuerURL, f.ClientID, f.CAFile, f.GroupsClaim, f.GroupsPrefix = provider.URL, "espalier", ca, "groups", "oidc:"
	f.RequiredClaims = map[string]string{"team": "a"}
	s := servertest.Start(t, o)
	servertest.Eventually(t, func() error {
		user, err := self(t, s, provider.token(t, "espalier", time.Hour, map[string]any{"groups": []string{"dev"}, "team": "a"}))
		if err != nil {
			return err
		}
		if user.Username != provider.URL+"#jane" || !slices.Contains(user.Groups, "oidc:dev") {
			return fmt.Errorf("%+v", user)
		}
		return nil
	})
	reject(t, s, "without the required claim", provider.token(t, "espalier", time.Hour, map[string]any{"team": "b"}))
}

// TestTokenWebhook authenticates tokens by a webhook over HTTPS.
func TestTokenWebhook(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	hook := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		asked.Add(1)
		var review authenticationv1.TokenReview
		if err := json.NewDecoder(req.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		switch review.Spec.Token {
		case "redirect":
			http.Redirect(w, req, "/elsewhere", http.StatusFound)
			return
		case "broken":
			_, _ = w.Write([]byte("{"))
			return
		case "good":
			review.Status = authenticationv1.TokenReviewStatus{Authenticated: true, User: authenticationv1.UserInfo{Username: "jane", Groups: []string{"dev"}}, Audiences: review.Spec.Audiences}
		case "other audience":
			review.Status = authenticationv1.TokenReviewStatus{Authenticated: true, User: authenticationv1.UserInfo{Username: "jane"}, Audiences: []string{"vault"}}
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(review)
	}))
	t.Cleanup(hook.Close)
	file := filepath.Join(t.TempDir(), "webhook.kubeconfig")
	config := clientcmdapi.NewConfig()
	config.Clusters["hook"] = &clientcmdapi.Cluster{Server: hook.URL, CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hook.Certificate().Raw})}
	config.Contexts["hook"] = &clientcmdapi.Context{Cluster: "hook"}
	config.CurrentContext = "hook"
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		t.Fatal(err)
	}
	o := servertest.Options(t)
	o.Authentication.WebhookConfigFile, o.Authentication.WebhookVersion = file, "v1"
	s := servertest.Start(t, o)
	user, err := self(t, s, "good")
	if err != nil || user.Username != "jane" || !slices.Contains(user.Groups, "dev") {
		t.Errorf("%+v, %v", user, err)
	}
	before := asked.Load()
	if _, err := self(t, s, "good"); err != nil || asked.Load() != before {
		t.Errorf("the answer is not cached: %d requests, %v", asked.Load()-before, err)
	}
	for _, token := range []string{"unknown", "redirect", "broken", "other audience"} {
		reject(t, s, token, token)
	}
	set := servertest.Clientset(t, s, nil, "")
	account(t, set, "robot")
	before = asked.Load()
	accept(t, s, requestToken(t, set, "robot", authenticationv1.TokenRequestSpec{}).Status.Token, "robot")
	if asked.Load() != before {
		t.Error("the webhook was asked about a token of a service account")
	}
}

// TestRequestHeaders authenticates users by the headers of a proxy.
func TestRequestHeaders(t *testing.T) {
	t.Parallel()
	proxies := pki.Config{Dir: filepath.Join(t.TempDir(), "proxies")}
	made, err := pki.Ensure(proxies)
	if err != nil {
		t.Fatal(err)
	}
	o := servertest.Options(t)
	r := &o.Authentication.RequestHeader
	r.ClientCAFile, r.AllowedNames = made.CA.CertFile, []string{"proxy"}
	r.UsernameHeaders, r.GroupHeaders, r.ExtraHeaderPrefixes = []string{"X-Remote-User"}, []string{"X-Remote-Group"}, []string{"X-Remote-Extra-"}
	s := servertest.Start(t, o)
	as := func(config *rest.Config) (int, string) {
		t.Helper()
		req, err := http.NewRequest(http.MethodGet, s.URL()+"/api/v1/namespaces/default/secrets", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Remote-User", "jane")
		req.Header.Set("X-Remote-Group", "dev")
		resp, err := servertest.Client(t, s, config).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		var status metav1.Status
		if err := json.NewDecoder(resp.Body).Decode(&status); err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, status.Message
	}
	of := func(name string) *rest.Config {
		pair, err := pki.NewClient(proxies, name)
		if err != nil {
			t.Fatal(err)
		}
		c := servertest.Anonymous(t, s)
		c.CertData, c.KeyData = pair.Cert, pair.Key
		return c
	}
	if code, message := as(of("proxy")); code != http.StatusForbidden || !strings.Contains(message, `User "jane"`) {
		t.Errorf("the proxy: %d %s", code, message)
	}
	if code, message := as(of("somebody")); code != http.StatusUnauthorized {
		t.Errorf("a certificate of the CA with another name: %d %s", code, message)
	}
	if code, message := as(servertest.User(t, s, "user")); code != http.StatusForbidden || !strings.Contains(message, `User "user"`) {
		t.Errorf("a user who sends the headers: %d %s", code, message)
	}

	// Certificates of users must not be those of proxies.
	wrong := servertest.Options(t)
	own, err := pki.Ensure(pki.Config{Dir: filepath.Join(wrong.DataDir, "pki")})
	if err != nil {
		t.Fatal(err)
	}
	wrong.Authentication.RequestHeader = *r
	wrong.Authentication.RequestHeader.ClientCAFile, wrong.Authentication.RequestHeader.AllowedNames = own.CA.CertFile, nil
	servertest.StartFails(t, wrong, "--requestheader-allowed-names")
}

// TestAnonymous starts servers that allow all or no anonymous requests.
func TestAnonymous(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		value           string
		health, objects int
	}{
		{authentication.AnonymousHealth, http.StatusOK, http.StatusUnauthorized},
		{authentication.AnonymousAll, http.StatusOK, http.StatusForbidden},
		{authentication.AnonymousNone, http.StatusUnauthorized, http.StatusUnauthorized},
	} {
		t.Run(tt.value, func(t *testing.T) {
			o := servertest.Options(t)
			o.Authentication.Anonymous = tt.value
			s := servertest.Start(t, o)
			stranger := servertest.Client(t, s, servertest.Anonymous(t, s))
			if code, body := servertest.Get(t, s, stranger, "/readyz"); code != tt.health {
				t.Errorf("health: %d %s", code, body)
			}
			if code, body := servertest.Get(t, s, stranger, "/api/v1/namespaces"); code != tt.objects {
				t.Errorf("objects: %d %s", code, body)
			}
			reject(t, s, "a wrong token", "guessed")
		})
	}
}
