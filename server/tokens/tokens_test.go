package tokens

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
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
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/warning"
)

const issuerURL = "https://issuer.example.com"

// stored are objects by resource, namespace and name.
type stored map[string]runtime.Object

func (s stored) Get(_ context.Context, r runtimeschema.GroupResource, namespace, name string) (runtime.Object, error) {
	if obj := s[r.Resource+"/"+namespace+"/"+name]; obj != nil {
		return obj, nil
	}
	return nil, apierrors.NewNotFound(r, name)
}

func objects() stored {
	meta := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "uid"}
	}
	return stored{
		"serviceaccounts/ns/robot": &corev1.ServiceAccount{ObjectMeta: meta("ns", "robot")},
		"secrets/ns/secret":        &corev1.Secret{ObjectMeta: meta("ns", "secret")},
		"nodes//node":              &corev1.Node{ObjectMeta: meta("", "node")},
		"pods/ns/pod":              &corev1.Pod{ObjectMeta: meta("ns", "pod"), Spec: corev1.PodSpec{ServiceAccountName: "robot", NodeName: "node"}},
		"pods/ns/lost":             &corev1.Pod{ObjectMeta: meta("ns", "lost"), Spec: corev1.PodSpec{ServiceAccountName: "robot", NodeName: "gone"}},
		"pods/ns/foreign":          &corev1.Pod{ObjectMeta: meta("ns", "foreign"), Spec: corev1.PodSpec{ServiceAccountName: "other"}},
	}
}

func newKeys(t testing.TB) *Keys {
	t.Helper()
	keys, err := LoadKeys(KeyFiles{Dir: filepath.Join(t.TempDir(), "keys")})
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// recorder records warnings.
type recorder []string

func (r *recorder) AddWarning(_, text string) { *r = append(*r, text) }

// request requests a token, and returns the answer and its claims.
func request(c Config, spec authenticationv1.TokenRequestSpec) (*authenticationv1.TokenRequest, *claims, []string, error) {
	var warnings recorder
	ctx := warning.WithWarningRecorder(apirequest.WithNamespace(context.Background(), "ns"), &warnings)
	obj, err := NewREST(c).Create(ctx, "robot", &authenticationv1.TokenRequest{Spec: spec}, nil, &metav1.CreateOptions{})
	if err != nil {
		return nil, nil, warnings, err
	}
	r := obj.(*authenticationv1.TokenRequest)
	parsed, err := jwt.ParseSigned(r.Status.Token)
	if err != nil {
		return nil, nil, warnings, err
	}
	var got claims
	return r, &got, warnings, parsed.Claims(c.Issuer.Keys.current.Load().public[0].Key, &got.public, &got.private)
}

func TestRequests(t *testing.T) {
	keys := newKeys(t)
	config := Config{Issuer: &Issuer{Keys: keys, URL: issuerURL}, Objects: objects(), Audiences: authenticator.Audiences{"api"}, Extend: true}
	bound := func(kind, name string) *authenticationv1.BoundObjectReference {
		return &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: kind, Name: name}
	}
	for _, tt := range []struct {
		name   string
		spec   authenticationv1.TokenRequestSpec
		limit  time.Duration
		claims string
		// lifetime is that of the token, and status what the answer says.
		lifetime, status time.Duration
		warning, err     string
	}{
		{name: "plain", lifetime: time.Hour, claims: `{"namespace":"ns","serviceaccount":{"name":"robot"}}`},
		{name: "pod", spec: authenticationv1.TokenRequestSpec{BoundObjectRef: bound("Pod", "pod")}, lifetime: time.Hour,
			claims: `{"namespace":"ns","serviceaccount":{"name":"robot"},"pod":{"name":"pod"},"node":{"name":"node"}}`},
		{name: "pod on a node that is gone", spec: authenticationv1.TokenRequestSpec{BoundObjectRef: bound("Pod", "lost")}, lifetime: time.Hour,
			claims: `{"namespace":"ns","serviceaccount":{"name":"robot"},"pod":{"name":"lost"},"node":{"name":"gone"}}`},
		{name: "secret", spec: authenticationv1.TokenRequestSpec{BoundObjectRef: bound("Secret", "secret")}, lifetime: time.Hour,
			claims: `{"namespace":"ns","serviceaccount":{"name":"robot"},"secret":{"name":"secret"}}`},
		{name: "node", spec: authenticationv1.TokenRequestSpec{BoundObjectRef: bound("Node", "node")}, lifetime: time.Hour,
			claims: `{"namespace":"ns","serviceaccount":{"name":"robot"},"node":{"name":"node"}}`},
		{name: "pod of another account", spec: authenticationv1.TokenRequestSpec{BoundObjectRef: bound("Pod", "foreign")},
			err: `cannot bind token for serviceaccount "robot" to pod running with different serviceaccount name.`},
		{name: "another pod of the name", spec: authenticationv1.TokenRequestSpec{BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: "pod", UID: "old"}},
			err: `Operation cannot be fulfilled on Pod "pod": the UID in the bound object reference (old) does not match the UID in record. The object might have been deleted and then recreated`},
		{name: "shortened", spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(7200))}, limit: time.Hour, lifetime: time.Hour,
			warning: "requested expiration of 7200 seconds shortened to 3600 seconds", claims: `{"namespace":"ns","serviceaccount":{"name":"robot"}}`},
		{name: "extended", spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(ProjectedSeconds)), BoundObjectRef: bound("Pod", "pod")},
			lifetime: extendedLifetime, status: ProjectedSeconds * time.Second,
			claims: `{"namespace":"ns","serviceaccount":{"name":"robot"},"pod":{"name":"pod"},"node":{"name":"node"},"warnafter":true}`},
		{name: "not extended without a pod", spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(ProjectedSeconds))}, lifetime: ProjectedSeconds * time.Second,
			claims: `{"namespace":"ns","serviceaccount":{"name":"robot"}}`},
		{name: "not extended for another audience", spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(ProjectedSeconds)), BoundObjectRef: bound("Pod", "pod"), Audiences: []string{"api", "vault"}},
			lifetime: ProjectedSeconds * time.Second, claims: `{"namespace":"ns","serviceaccount":{"name":"robot"},"pod":{"name":"pod"},"node":{"name":"node"}}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := config
			c.MaxLifetime = tt.limit
			r, got, warnings, err := request(c, tt.spec)
			if tt.err != "" {
				if err == nil || err.Error() != tt.err {
					t.Errorf("got %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if strings.Join(warnings, "") != tt.warning {
				t.Errorf("warnings: %q", warnings)
			}
			if lifetime := got.public.Expiry.Time().Sub(got.public.IssuedAt.Time()); lifetime != tt.lifetime {
				t.Errorf("the token is valid for %v", lifetime)
			}
			if tt.status == 0 {
				tt.status = tt.lifetime
			}
			if status := time.Duration(*r.Spec.ExpirationSeconds) * time.Second; status != tt.status || !r.Status.ExpirationTimestamp.Equal(new(metav1.NewTime(r.CreationTimestamp.Add(status)))) {
				t.Errorf("the answer says %v, %v", status, r.Status.ExpirationTimestamp)
			}
			k := got.private.Kubernetes
			have := map[string]any{"namespace": k.Namespace, "serviceaccount": map[string]string{"name": k.ServiceAccount.Name}}
			for name, ref := range map[string]*reference{"pod": k.Pod, "secret": k.Secret, "node": k.Node} {
				if ref != nil {
					have[name] = map[string]string{"name": ref.Name}
				}
			}
			if k.WarnAfter != nil {
				have["warnafter"] = true
			}
			var want map[string]any
			if err := json.Unmarshal([]byte(tt.claims), &want); err != nil {
				t.Fatal(err)
			}
			if a, b := fmt.Sprint(have), fmt.Sprint(want); a != b {
				t.Errorf("claims: %s, want %s", a, b)
			}
		})
	}
}

// TestAuthenticate checks tokens at different times, and with different objects.
func TestAuthenticate(t *testing.T) {
	keys := newKeys(t)
	now := time.Now().Truncate(time.Second)
	for _, tt := range []struct {
		name  string
		at    time.Duration // after the token was issued
		ask   []string
		alter func(stored)
		bind  func(stored, *Claims)
		err   string
	}{
		{name: "valid"},
		{name: "within the tolerance", at: time.Hour + 59*time.Second},
		{name: "expired", at: time.Hour + 61*time.Second, err: "service account token has expired"},
		{name: "not valid yet", at: -61 * time.Second, err: "service account token is not valid yet"},
		{name: "another audience", ask: []string{"vault"}, err: `token audiences ["api"] is invalid for the target audiences ["vault"]`},
		{name: "one of the audiences", ask: []string{"vault", "api"}},
		{name: "no account", alter: func(s stored) { delete(s, "serviceaccounts/ns/robot") }, err: `serviceaccounts "robot" not found`},
		{name: "another account", alter: func(s stored) { s["serviceaccounts/ns/robot"].(*corev1.ServiceAccount).UID = "new" }, err: "service account UID (new) does not match claim (uid)"},
		{name: "account being deleted", alter: func(s stored) {
			s["serviceaccounts/ns/robot"].(*corev1.ServiceAccount).DeletionTimestamp = new(metav1.NewTime(now.Add(-time.Second)))
		}},
		{name: "account deleted", alter: func(s stored) {
			s["serviceaccounts/ns/robot"].(*corev1.ServiceAccount).DeletionTimestamp = new(metav1.NewTime(now.Add(-2 * time.Minute)))
		}, err: "service account ns/robot has been deleted"},
		{name: "pod", bind: func(s stored, c *Claims) { c.Pod = s["pods/ns/pod"].(*corev1.Pod) }},
		{name: "pod on a node that is gone", bind: func(s stored, c *Claims) {
			c.Pod, c.Node = s["pods/ns/pod"].(*corev1.Pod), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "gone"}}
		}},
		{name: "no pod", bind: func(s stored, c *Claims) {
			c.Pod = s["pods/ns/pod"].(*corev1.Pod)
			delete(s, "pods/ns/pod")
		}, err: "service account token has been invalidated"},
		{name: "another secret", bind: func(s stored, c *Claims) {
			c.Secret = s["secrets/ns/secret"].(*corev1.Secret).DeepCopy()
			c.Secret.UID = "old"
		}, err: "secret UID (uid) does not match service account secret ref claim (old)"},
		{name: "no node", bind: func(s stored, c *Claims) {
			c.Node = s["nodes//node"].(*corev1.Node)
			delete(s, "nodes//node")
		}, err: "service account token has been invalidated"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			all := objects()
			c := Claims{ServiceAccount: all["serviceaccounts/ns/robot"].(*corev1.ServiceAccount).DeepCopy(), Audiences: []string{"api"}, IssuedAt: now, Lifetime: time.Hour}
			if tt.bind != nil {
				tt.bind(all, &c)
			}
			token, id, err := (&Issuer{Keys: keys, URL: issuerURL}).Issue(c)
			if err != nil {
				t.Fatal(err)
			}
			a := NewAuthenticator(keys, []string{"https://other.example.com", issuerURL}, authenticator.Audiences{"api", "second"}, all, nil)
			a.now = func() time.Time { return now }
			ctx := context.Background()
			// The token is remembered, and everything else is checked again.
			if _, ok, err := a.AuthenticateToken(ctx, token); tt.bind == nil && (!ok || err != nil) {
				t.Fatal(ok, err)
			}
			if tt.alter != nil {
				tt.alter(all)
			}
			if tt.ask != nil {
				ctx = authenticator.WithAudiences(ctx, tt.ask)
			}
			a.now = func() time.Time { return now.Add(tt.at) }
			resp, ok, err := a.AuthenticateToken(ctx, token)
			if tt.err != "" {
				if ok || err == nil || err.Error() != tt.err {
					t.Errorf("got %v, %v", ok, err)
				}
				return
			}
			if !ok || err != nil {
				t.Fatal(ok, err)
			}
			if u := resp.User; u.GetName() != "system:serviceaccount:ns:robot" || fmt.Sprint(u.GetGroups()) != "[system:serviceaccounts system:serviceaccounts:ns]" ||
				u.GetExtra()["authentication.kubernetes.io/credential-id"][0] != "JTI="+id || c.Pod != nil && u.GetExtra()["authentication.kubernetes.io/pod-name"][0] != "pod" {
				t.Errorf("%+v", u)
			}
			if len(resp.Audiences) != 1 || resp.Audiences[0] != "api" {
				t.Errorf("audiences: %v", resp.Audiences)
			}
		})
	}
	a := NewAuthenticator(keys, []string{issuerURL}, nil, objects(), nil)
	for _, foreign := range []string{"", "abc", "a.b.c", "a.b.c.d", "{}", "..", strings.Repeat(".", 1000)} {
		if _, ok, err := a.AuthenticateToken(context.Background(), foreign); ok || err != nil {
			t.Errorf("%q: %v, %v", foreign, ok, err)
		}
	}
}

// TestKeys loads keys of all kinds.
func TestKeys(t *testing.T) {
	dir := t.TempDir()
	write := func(name, kind string, der []byte, err error) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o644); err != nil {
			t.Fatal(err)
		}
		return file
	}
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	private := write("rsa.pem", "RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(rsaKey), nil)
	der, err := x509.MarshalPKIXPublicKey(rsaKey.Public())
	public := write("rsa.pub", "PUBLIC KEY", der, err)
	algorithms := func(k *Keys) (all []string) {
		for _, key := range k.current.Load().public {
			all = append(all, key.Algorithm)
		}
		return all
	}
	var files []string
	for name, curve := range map[string]elliptic.Curve{"384": elliptic.P384(), "521": elliptic.P521(), "224": elliptic.P224()} {
		key, err := ecdsa.GenerateKey(curve, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		der, err := x509.MarshalECPrivateKey(key)
		files = append(files, write(name+".pem", "EC PRIVATE KEY", der, err))
	}
	for _, file := range files {
		keys, err := LoadKeys(KeyFiles{Sign: file, Verify: []string{public, private}})
		if strings.HasSuffix(file, "224.pem") {
			if err == nil || !strings.Contains(err.Error(), "must be P-256, P-384 or P-521") {
				t.Errorf("P-224: %v", err)
			}
			continue
		}
		if err != nil || len(keys.current.Load().public) != 2 {
			t.Fatal(file, err)
		}
		roundTrip(t, keys)
	}
	keys, err := LoadKeys(KeyFiles{Sign: private})
	if err != nil || fmt.Sprint(algorithms(keys)) != "[RS256]" {
		t.Fatal(err)
	}
	roundTrip(t, keys)
	if _, err := LoadKeys(KeyFiles{Sign: public}); err == nil || !strings.Contains(err.Error(), public) {
		t.Errorf("a public key that signs: %v", err)
	}
	if _, err := LoadKeys(KeyFiles{Sign: private, Verify: []string{filepath.Join(dir, "none")}}); err == nil {
		t.Error("a file that does not exist")
	}

	// A directory is created, closed to others, and its last key signs.
	keep := filepath.Join(dir, "keys")
	first, err := LoadKeys(KeyFiles{Dir: keep})
	if err != nil || fmt.Sprint(algorithms(first)) != "[ES256]" {
		t.Fatal(err)
	}
	roundTrip(t, first)
	for name, curve := range map[string]elliptic.Curve{"keys/zzz.key": elliptic.P384(), "keys/000.key": elliptic.P521()} {
		key, err := ecdsa.GenerateKey(curve, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		der, err := x509.MarshalECPrivateKey(key)
		write(name, "EC PRIVATE KEY", der, err)
	}
	write("keys/other.pub", "PUBLIC KEY", der, nil)
	if err := os.Chmod(keep, 0o755); err != nil {
		t.Fatal(err)
	}
	all, err := LoadKeys(KeyFiles{Dir: keep, Verify: []string{private}})
	if err != nil || fmt.Sprint(algorithms(all)) != "[ES384 ES256 ES512 RS256]" {
		t.Fatal(algorithms(all), err)
	}
	for path, mode := range map[string]os.FileMode{keep: 0o700, filepath.Join(keep, "zzz.key"): 0o600, filepath.Join(keep, "000.key"): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
}

// roundTrip issues a token, authenticates it, and verifies it with the published keys.
func roundTrip(t *testing.T, keys *Keys) {
	t.Helper()
	all := objects()
	token, _, err := (&Issuer{Keys: keys, URL: issuerURL}).Issue(Claims{ServiceAccount: all["serviceaccounts/ns/robot"].(*corev1.ServiceAccount), Audiences: []string{"api"}, IssuedAt: time.Now(), Lifetime: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok, err := NewAuthenticator(keys, []string{issuerURL}, authenticator.Audiences{"api"}, all, nil).AuthenticateToken(context.Background(), token); !ok || err != nil {
		t.Error(ok, err)
	}
	m, err := NewMetadata(keys, issuerURL, issuerURL+"/keys")
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	m.ServeKeys(w, httptest.NewRequest(http.MethodGet, KeysPath, nil))
	var set jose.JSONWebKeySet
	if err := json.Unmarshal(w.Body.Bytes(), &set); err != nil || w.Header().Get("Content-Type") != "application/jwk-set+json" {
		t.Fatal(err, w.Header())
	}
	signed, err := jose.ParseSigned(token)
	if err != nil {
		t.Fatal(err)
	}
	found := set.Key(signed.Signatures[0].Header.KeyID)
	if len(found) != 1 {
		t.Fatal(found)
	}
	if _, err := signed.Verify(found[0]); err != nil {
		t.Error(err)
	}
}

func TestMetadata(t *testing.T) {
	keys := newKeys(t)
	for _, bad := range [][2]string{{"http://a", "https://b"}, {"kubernetes/serviceaccount", "https://b"}, {"https://a?b=c", "https://b"}, {"https://a", "http://b"}} {
		if _, err := NewMetadata(keys, bad[0], bad[1]); err == nil {
			t.Errorf("%s, %s: accepted", bad[0], bad[1])
		}
	}
	m, err := NewMetadata(keys, issuerURL, "https://b/keys")
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	m.ServeConfiguration(w, httptest.NewRequest(http.MethodGet, ConfigurationPath, nil))
	const want = `{"issuer":"https://issuer.example.com","jwks_uri":"https://b/keys","response_types_supported":["id_token"],"subject_types_supported":["public"],"id_token_signing_alg_values_supported":["ES256"]}`
	if w.Body.String() != want || w.Header().Get("Cache-Control") != "public, max-age=3600" {
		t.Errorf("%s\n%v", w.Body, w.Header())
	}
	w = httptest.NewRecorder()
	m.ServeConfiguration(w, httptest.NewRequest(http.MethodPost, ConfigurationPath, nil))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", w.Code)
	}
}
