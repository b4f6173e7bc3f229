package authorization_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	jose "gopkg.in/go-jose/go-jose.v2"
	"gopkg.in/go-jose/go-jose.v2/jwt"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/kubernetes"

	"espalier.dev/server"
	"espalier.dev/server/authentication"
	"espalier.dev/server/servertest"
	"espalier.dev/server/tokens"
)

// whoami returns the status of a request with a token, and the user in the answer.
func whoami(t testing.TB, s *server.Server, token string) (int, string) {
	t.Helper()
	config := servertest.Anonymous(t, s)
	config.BearerToken = token
	code, body := servertest.Get(t, s, servertest.Client(t, s, config), "/api/v1/namespaces/default/secrets")
	var status metav1.Status
	if err := json.Unmarshal([]byte(body), &status); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	_, user, _ := strings.Cut(status.Message, `User "`)
	user, _, _ = strings.Cut(user, `"`)
	return code, user
}

// accept checks that a token is that of a service account.
func accept(t testing.TB, s *server.Server, token, name string) {
	t.Helper()
	if code, user := whoami(t, s, token); code != http.StatusForbidden || user != "system:serviceaccount:default:"+name {
		t.Errorf("the token of %s: %d %q", name, code, user)
	}
}

// reject checks that a token is not accepted.
func reject(t testing.TB, s *server.Server, what, token string) {
	t.Helper()
	if code, user := whoami(t, s, token); code != http.StatusUnauthorized {
		t.Errorf("%s: %d %q", what, code, user)
	}
}

// account creates a service account in the namespace default.
func account(t testing.TB, set kubernetes.Interface, name string) *corev1.ServiceAccount {
	t.Helper()
	a, err := set.CoreV1().ServiceAccounts("default").Create(context.Background(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// requestToken requests a token for a service account in the namespace default.
func requestToken(t testing.TB, set kubernetes.Interface, name string, spec authenticationv1.TokenRequestSpec) *authenticationv1.TokenRequest {
	t.Helper()
	r, err := set.CoreV1().ServiceAccounts("default").CreateToken(context.Background(), name, &authenticationv1.TokenRequest{Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// keyDir returns the directory of the keys of service accounts.
func keyDir(o *server.Options) string { return filepath.Join(o.DataDir, "pki", "service-accounts") }

// forge issues a token with the keys of a server, without asking it.
func forge(t testing.TB, o *server.Options, issuer string, c tokens.Claims) string {
	t.Helper()
	keys, err := tokens.LoadKeys(tokens.KeyFiles{Dir: keyDir(o)})
	if err != nil {
		t.Fatal(err)
	}
	token, _, err := (&tokens.Issuer{Keys: keys, URL: issuer}).Issue(c)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func TestTokens(t *testing.T) {
	t.Parallel()
	o := servertest.Options(t)
	s := servertest.Start(t, o)
	ctx := context.Background()
	set := servertest.Clientset(t, s, nil, runtime.ContentTypeJSON)
	robot := account(t, set, "robot")

	t.Run("formats", func(t *testing.T) {
		for _, contentType := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf} {
			r := requestToken(t, servertest.Clientset(t, s, nil, contentType), "robot", authenticationv1.TokenRequestSpec{})
			accept(t, s, r.Status.Token, "robot")
			if r.Name != "robot" || r.Namespace != "default" || r.UID != robot.UID || *r.Spec.ExpirationSeconds != 3600 ||
				len(r.Spec.Audiences) != 1 || r.Spec.Audiences[0] != authentication.DefaultIssuer {
				t.Errorf("%s: %+v", contentType, r)
			}
		}
		yaml := "apiVersion: authentication.k8s.io/v1\nkind: TokenRequest\nspec: {expirationSeconds: 600}\n"
		resp, err := servertest.Client(t, s, nil).Post(s.URL()+"/api/v1/namespaces/default/serviceaccounts/robot/token", "application/yaml", strings.NewReader(yaml))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		var r authenticationv1.TokenRequest
		if err := json.NewDecoder(resp.Body).Decode(&r); err != nil || resp.StatusCode != http.StatusCreated {
			t.Fatal(resp.StatusCode, err)
		}
		accept(t, s, r.Status.Token, "robot")
	})

	t.Run("discovery", func(t *testing.T) {
		list, err := set.Discovery().ServerResourcesForGroupVersion("v1")
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range list.APIResources {
			if r.Name == "serviceaccounts/token" {
				if r.Group != "authentication.k8s.io" || r.Version != "v1" || r.Kind != "TokenRequest" || fmt.Sprint(r.Verbs) != "[create]" {
					t.Errorf("%+v", r)
				}
				return
			}
		}
		t.Error("there is no serviceaccounts/token")
	})

	t.Run("claims", func(t *testing.T) {
		r := requestToken(t, set, "robot", authenticationv1.TokenRequestSpec{})
		parsed, err := jwt.ParseSigned(r.Status.Token)
		if err != nil {
			t.Fatal(err)
		}
		var claims struct {
			jwt.Claims
			Kubernetes map[string]any `json:"kubernetes.io"`
		}
		// The keys that the server publishes verify the token.
		var set jose.JSONWebKeySet
		code, body := servertest.Get(t, s, servertest.Client(t, s, nil), tokens.KeysPath)
		if err := json.Unmarshal([]byte(body), &set); err != nil || code != http.StatusOK || len(set.Keys) != 1 || !set.Keys[0].IsPublic() {
			t.Fatal(code, body, err)
		}
		if err := parsed.Claims(set.Key(parsed.Headers[0].KeyID)[0], &claims); err != nil {
			t.Fatal(err)
		}
		if claims.Issuer != authentication.DefaultIssuer || claims.ID == "" || claims.Expiry.Time().Sub(claims.NotBefore.Time()) != time.Hour ||
			claims.Kubernetes["namespace"] != "default" || fmt.Sprint(claims.Kubernetes["serviceaccount"]) != fmt.Sprintf("map[name:robot uid:%s]", robot.UID) {
			t.Errorf("%+v", claims)
		}
		code, body = servertest.Get(t, s, servertest.Client(t, s, nil), tokens.ConfigurationPath)
		var config struct {
			Issuer string
			Keys   string   `json:"jwks_uri"`
			Algs   []string `json:"id_token_signing_alg_values_supported"`
		}
		if err := json.Unmarshal([]byte(body), &config); err != nil || code != http.StatusOK || config.Issuer != claims.Issuer ||
			config.Keys != s.URL()+tokens.KeysPath || fmt.Sprint(config.Algs) != "[ES256]" {
			t.Error(code, body, err)
		}
		for _, path := range []string{tokens.KeysPath, tokens.ConfigurationPath} {
			if code, _ := servertest.Get(t, s, servertest.Client(t, s, servertest.Anonymous(t, s)), path); code != http.StatusUnauthorized {
				t.Errorf("anonymous %s: %d", path, code)
			}
		}
	})

	t.Run("invalid requests", func(t *testing.T) {
		pod := func(name string) *authenticationv1.BoundObjectReference {
			return &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: name}
		}
		for _, tt := range []struct {
			name    string
			account string
			request authenticationv1.TokenRequest
			want    string
		}{
			{"no account", "nobody", authenticationv1.TokenRequest{}, `serviceaccounts "nobody" not found`},
			{"short", "robot", authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(599))}},
				`TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 10 minutes`},
			{"long", "robot", authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(1<<32 + 1))}}, "may not specify a duration larger than 2^32 seconds"},
			{"name", "robot", authenticationv1.TokenRequest{ObjectMeta: metav1.ObjectMeta{Name: "other"}}, "must match the service account name if specified"},
			{"uid", "robot", authenticationv1.TokenRequest{ObjectMeta: metav1.ObjectMeta{UID: "other"}}, "the UID in the token request (other) does not match the UID of the service account"},
			{"no pod", "robot", authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: pod("none")}}, `pods "none" not found`},
			{"kind", "robot", authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Service", Name: "a"}}},
				"cannot bind token to object of type /v1, Kind=Service"},
		} {
			_, err := set.CoreV1().ServiceAccounts("default").CreateToken(ctx, tt.account, &tt.request, metav1.CreateOptions{})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s: %v", tt.name, err)
			}
		}
	})

	t.Run("wrong tokens", func(t *testing.T) {
		good := requestToken(t, set, "robot", authenticationv1.TokenRequestSpec{}).Status.Token
		parts := strings.Split(good, ".")
		payload, err := base64.RawURLEncoding.DecodeString(parts[1])
		if err != nil {
			t.Fatal(err)
		}
		encode := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
		other := encode(strings.ReplaceAll(string(payload), "robot", "admin"))
		none := encode(`{"alg":"none","kid":""}`)
		reject(t, s, "tampered claims", parts[0]+"."+other+"."+parts[2])
		reject(t, s, "tampered signature", parts[0]+"."+parts[1]+"."+encode(strings.Repeat("a", 64)))
		reject(t, s, "no signature", parts[0]+"."+parts[1]+".")
		reject(t, s, "alg none", none+"."+parts[1]+".")
		reject(t, s, "alg none with a signature", none+"."+parts[1]+"."+parts[2])
		reject(t, s, "garbage", "a.b.c")
		// HS256 with the public key as the secret.
		_, public := servertest.Get(t, s, servertest.Client(t, s, nil), tokens.KeysPath)
		hmac, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.HS256, Key: []byte(public)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		signed, err := hmac.Sign(payload)
		if err != nil {
			t.Fatal(err)
		}
		compact, err := signed.CompactSerialize()
		if err != nil {
			t.Fatal(err)
		}
		reject(t, s, "HS256", compact)

		claims := func(change func(*tokens.Claims)) tokens.Claims {
			c := tokens.Claims{ServiceAccount: robot, Audiences: []string{authentication.DefaultIssuer}, IssuedAt: time.Now(), Lifetime: time.Hour}
			change(&c)
			return c
		}
		accept(t, s, forge(t, o, authentication.DefaultIssuer, claims(func(*tokens.Claims) {})), "robot")
		reject(t, s, "expired", forge(t, o, authentication.DefaultIssuer, claims(func(c *tokens.Claims) { c.IssuedAt = c.IssuedAt.Add(-2 * time.Hour) })))
		reject(t, s, "not valid yet", forge(t, o, authentication.DefaultIssuer, claims(func(c *tokens.Claims) { c.IssuedAt = c.IssuedAt.Add(2 * time.Hour) })))
		reject(t, s, "wrong audience", forge(t, o, authentication.DefaultIssuer, claims(func(c *tokens.Claims) { c.Audiences = []string{"vault"} })))
		reject(t, s, "no audience", forge(t, o, authentication.DefaultIssuer, claims(func(c *tokens.Claims) { c.Audiences = nil })))
		reject(t, s, "wrong issuer", forge(t, o, "https://elsewhere.example.com", claims(func(*tokens.Claims) {})))
		reject(t, s, "wrong audience by request", requestToken(t, set, "robot", authenticationv1.TokenRequestSpec{Audiences: []string{"vault"}}).Status.Token)
		elsewhere := servertest.Options(t)
		reject(t, s, "another key", forge(t, elsewhere, authentication.DefaultIssuer, claims(func(*tokens.Claims) {})))
	})

	t.Run("revocation", func(t *testing.T) { testRevocation(t, s, set) })

	t.Run("files", func(t *testing.T) {
		dir := keyDir(o)
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v", dir, info.Mode(), err)
		}
		files, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil || len(files) != 1 {
			t.Fatal(files, err)
		}
		if info, err := os.Stat(files[0]); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", files[0], info.Mode(), err)
		}
	})
}

// testRevocation deletes the objects that tokens are bound to. The first request after the
// deletion is rejected.
func testRevocation(t *testing.T, s *server.Server, set kubernetes.Interface) {
	ctx, core, now := context.Background(), set.CoreV1(), metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}
	account(t, set, "bound")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	meta := metav1.ObjectMeta{Name: "thing"}
	for _, tt := range []struct {
		kind   string
		create func()
		delete func()
	}{
		{"Pod", func() {
			_, err := core.Pods("default").Create(ctx, &corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{ServiceAccountName: "bound", NodeName: "node", Containers: []corev1.Container{{Name: "c", Image: "i"}}}}, metav1.CreateOptions{})
			must(err)
		}, func() { must(core.Pods("default").Delete(ctx, "thing", now)) }},
		{"Secret", func() {
			_, err := core.Secrets("default").Create(ctx, &corev1.Secret{ObjectMeta: meta}, metav1.CreateOptions{})
			must(err)
		}, func() { must(core.Secrets("default").Delete(ctx, "thing", now)) }},
		{"Node", func() {
			_, err := core.Nodes().Create(ctx, &corev1.Node{ObjectMeta: meta}, metav1.CreateOptions{})
			must(err)
		}, func() { must(core.Nodes().Delete(ctx, "thing", now)) }},
	} {
		ref := &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: tt.kind, Name: "thing"}
		for range 2 {
			tt.create()
			token := requestToken(t, set, "bound", authenticationv1.TokenRequestSpec{BoundObjectRef: ref}).Status.Token
			accept(t, s, token, "bound")
			tt.delete()
			reject(t, s, tt.kind+" is deleted", token)
			tt.create()
			reject(t, s, tt.kind+" is another one", token)
			tt.delete()
		}
	}
	for range 2 {
		token := requestToken(t, set, "bound", authenticationv1.TokenRequestSpec{}).Status.Token
		accept(t, s, token, "bound")
		must(core.ServiceAccounts("default").Delete(ctx, "bound", now))
		reject(t, s, "the account is deleted", token)
		account(t, set, "bound")
		reject(t, s, "the account is another one", token)
	}
	_, err := core.ServiceAccounts("default").CreateToken(ctx, "bound", &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: "thing"},
	}}, metav1.CreateOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("a token for a pod that does not exist: %v", err)
	}
}

// TestTokenKeys restarts a server and rotates its keys.
func TestTokenKeys(t *testing.T) {
	t.Parallel()
	o := servertest.Options(t)
	s := servertest.Start(t, o)
	account(t, servertest.Clientset(t, s, nil, ""), "robot")
	restart := func() *kubernetes.Clientset {
		if err := s.Stop(); err != nil {
			t.Fatal(err)
		}
		s = servertest.Start(t, o)
		return servertest.Clientset(t, s, nil, "")
	}
	signer := func(token string) string {
		parsed, err := jwt.ParseSigned(token)
		if err != nil {
			t.Fatal(err)
		}
		return parsed.Headers[0].KeyID
	}
	first := requestToken(t, servertest.Clientset(t, s, nil, ""), "robot", authenticationv1.TokenRequestSpec{}).Status.Token
	restart()
	accept(t, s, first, "robot")

	// A key whose name sorts later signs, and the first one still verifies.
	extra := servertest.Options(t)
	if _, err := tokens.LoadKeys(tokens.KeyFiles{Dir: keyDir(extra)}); err != nil {
		t.Fatal(err)
	}
	made, err := filepath.Glob(filepath.Join(keyDir(extra), "*.key"))
	if err != nil || len(made) != 1 {
		t.Fatal(made, err)
	}
	newer := filepath.Join(keyDir(o), "99990101.key")
	if err := os.Rename(made[0], newer); err != nil {
		t.Fatal(err)
	}
	set := restart()
	second := requestToken(t, set, "robot", authenticationv1.TokenRequestSpec{}).Status.Token
	accept(t, s, first, "robot")
	accept(t, s, second, "robot")
	if signer(first) == signer(second) {
		t.Error("the new key does not sign")
	}
	var keys jose.JSONWebKeySet
	if _, body := servertest.Get(t, s, servertest.Client(t, s, nil), tokens.KeysPath); json.Unmarshal([]byte(body), &keys) != nil || len(keys.Keys) != 2 || bytes.Contains([]byte(body), []byte(`"d"`)) {
		t.Errorf("published keys: %s", body)
	}

	// The flags of kube-apiserver replace the directory.
	o.Authentication.ServiceAccountSigningKeyFile = newer
	o.Authentication.ServiceAccountIssuers = []string{"https://new.example.com", authentication.DefaultIssuer}
	set = restart()
	accept(t, s, second, "robot")
	reject(t, s, "a token of a key that is gone", first)
	third := requestToken(t, set, "robot", authenticationv1.TokenRequestSpec{}).Status
	accept(t, s, third.Token, "robot")
}

// TestTokenAudit finds the token that made a request in the audit log, and requests with tokens
// that are not valid.
func TestTokenAudit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	policy, log := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "audit.log")
	if err := os.WriteFile(policy, []byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: [{level: Metadata}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := servertest.Options(t)
	o.AuditPolicyFile, o.AuditLogPath = policy, log
	s := servertest.Start(t, o)
	set := servertest.Clientset(t, s, nil, "")
	account(t, set, "robot")
	token := requestToken(t, set, "robot", authenticationv1.TokenRequestSpec{}).Status.Token
	accept(t, s, token, "robot")
	reject(t, s, "tampered", token[:len(token)-8]+"AAAAAAAA")
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(data), token) {
		t.Error("the log has the token")
	}
	var issued, used string
	rejected := 0
	for line := range strings.Lines(string(data)) {
		var e auditv1.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		if e.ObjectRef != nil && e.ObjectRef.Subresource == "token" {
			issued = e.Annotations["authentication.kubernetes.io/issued-credential-id"]
		}
		if e.User.Username == "system:serviceaccount:default:robot" {
			used = strings.Join(e.User.Extra["authentication.kubernetes.io/credential-id"], "")
		}
		if e.ResponseStatus != nil && e.ResponseStatus.Code == http.StatusUnauthorized {
			rejected++
		}
	}
	if issued == "" || issued != used || rejected != 1 {
		t.Errorf("issued %q, used %q, rejected %d", issued, used, rejected)
	}
}
