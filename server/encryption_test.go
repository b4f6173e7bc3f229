package server

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// key returns an encryption key.
func key(seed byte) string {
	return base64.StdEncoding.EncodeToString([]byte(strings.Repeat(string(rune(seed)), 32)))
}

// provider returns a provider of an encryption configuration with some keys.
func provider(name string, seeds ...byte) string {
	var keys []string
	for _, seed := range seeds {
		keys = append(keys, fmt.Sprintf(`{"name": "key-%c", "secret": %q}`, seed, key(seed)))
	}
	return fmt.Sprintf(`{%q: {"keys": [%s]}}`, name, strings.Join(keys, ", "))
}

// encryptionConfig returns the text of an encryption configuration for all resources.
func encryptionConfig(providers ...string) string {
	return encryptionRules(encryptionRule("*.*", providers...))
}

func encryptionRule(resource string, providers ...string) string {
	return fmt.Sprintf(`{"resources": [%q], "providers": [%s]}`, resource, strings.Join(providers, ", "))
}

func encryptionRules(rules ...string) string {
	return `{"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration", "resources": [` + strings.Join(rules, ", ") + `]}`
}

// writeEncryption writes an encryption configuration to a file.
func writeEncryption(t testing.TB, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// encryptedOptions returns options of a server with an encryption configuration.
func encryptedOptions(t testing.TB, text string) *Options {
	t.Helper()
	o := testOptions(t)
	o.EncryptionProviderConfig = filepath.Join(t.TempDir(), "encryption.yaml")
	writeEncryption(t, o.EncryptionProviderConfig, text)
	return o
}

// encryptedServer is a server with a CRD.
type encryptedServer struct {
	*testing.T
	*Server
	client *http.Client
}

func startEncrypted(t *testing.T, o *Options) *encryptedServer {
	t.Helper()
	s := startServer(t, o)
	return &encryptedServer{T: t, Server: s, client: client(t, s, nil)}
}

// must sends a request and checks the status of the response.
func (s *encryptedServer) must(code int, method, path, body string) string {
	s.Helper()
	got, text := exchange(s.T, s.client, method, s.URL()+path, body)
	if got != code {
		s.Fatalf("%s %s: %d instead of %d: %s", method, path, got, code, text)
	}
	return text
}

// stored returns the stored value of a key below the prefix.
func (s *encryptedServer) stored(key string) string {
	s.Helper()
	resp, err := s.db.client.Get(s.Context(), "/registry/"+key)
	if err != nil || len(resp.Kvs) != 1 {
		s.Fatal(key, resp, err)
	}
	return string(resp.Kvs[0].Value)
}

const (
	secretThings = "/apis/secret.example.com/v1/things"
	secretCRD    = "apiextensions.k8s.io/customresourcedefinitions/things.secret.example.com"
)

// secretThing returns an object.
func secretThing(name, extra string) string {
	return fmt.Sprintf(`{"apiVersion":"secret.example.com/v1","kind":"Thing","metadata":{"name":%q%s}}`, name, extra)
}

// establish creates the CRD of things.
func (s *encryptedServer) establish() {
	s.Helper()
	s.must(http.StatusCreated, http.MethodPost, crdsPath, sharedCRD("secret.example.com"))
}

// TestEncryption stores CRDs and objects with each provider, reads them after a restart, and
// deletes them.
func TestEncryption(t *testing.T) {
	for _, test := range []struct{ name, provider, prefix string }{
		{"aesgcm", provider("aesgcm", 'a'), "k8s:enc:aesgcm:v1:key-a:"},
		{"aescbc", provider("aescbc", 'a'), "k8s:enc:aescbc:v1:key-a:"},
		{"secretbox", provider("secretbox", 'a'), "k8s:enc:secretbox:v1:key-a:"},
		{"kms", "", "k8s:enc:kms:v2:plugin:"},
		{"identity", `{"identity": {}}`, "{"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.name == "kms" {
				test.provider = startKMS(t).provider()
			}
			o := encryptedOptions(t, encryptionConfig(test.provider))
			s, err := start(t, o)
			if err != nil {
				t.Fatal(err)
			}
			e := &encryptedServer{T: t, Server: s, client: client(t, s, nil)}
			e.establish()
			e.must(http.StatusCreated, http.MethodPost, secretThings, secretThing("a", ""))
			e.must(http.StatusCreated, http.MethodPost, secretThings, secretThing("b", `,"finalizers":["example.com/f"]`))
			for _, key := range []string{secretCRD, "secret.example.com/things/a", "secret.example.com/things/b"} {
				if v := e.stored(key); !strings.HasPrefix(v, test.prefix) || test.name != "identity" && strings.Contains(v, "Thing") {
					t.Errorf("%s is stored as %.60q", key, v)
				}
			}
			if err := s.Stop(); err != nil {
				t.Fatal(err)
			}

			e = startEncrypted(t, o)
			if text := e.must(http.StatusOK, http.MethodGet, secretThings, ""); !strings.Contains(text, `"name":"b"`) {
				t.Error(text)
			}
			e.must(http.StatusOK, http.MethodGet, secretThings+"/a", "")
			// The sweep of the deleted CRD marks b, and waits for its finalizer.
			e.must(http.StatusOK, http.MethodDelete, crdsPath+"/things.secret.example.com", "")
			eventually(t, func() error {
				if text := e.must(http.StatusOK, http.MethodGet, secretThings+"/b", ""); !strings.Contains(text, "deletionTimestamp") {
					return errors.New("not deleted")
				}
				return nil
			})
			if v := e.stored("secret.example.com/things/b"); !strings.HasPrefix(v, test.prefix) {
				t.Errorf("the deleted object is stored as %.60q", v)
			}
			object := e.must(http.StatusOK, http.MethodGet, secretThings+"/b", "")
			e.must(http.StatusOK, http.MethodPut, secretThings+"/b", strings.Replace(object, `"example.com/f"`, "", 1))
			eventually(t, func() error {
				if code, text := get(t, e.Server, e.client, crdsPath+"/things.secret.example.com"); code != http.StatusNotFound {
					return errors.New(text)
				}
				return nil
			})
		})
	}
}

// TestEncryptionRules selects what is encrypted by resource and by group.
func TestEncryptionRules(t *testing.T) {
	e := startEncrypted(t, encryptedOptions(t, encryptionRules(
		encryptionRule("things.plain.example.com", `{"identity": {}}`),
		encryptionRule("*.secret.example.com", provider("secretbox", 'a')),
		encryptionRule("customresourcedefinitions.apiextensions.k8s.io", provider("aesgcm", 'b')),
	)))
	e.establish()
	e.must(http.StatusCreated, http.MethodPost, crdsPath, sharedCRD("plain.example.com"))
	e.must(http.StatusCreated, http.MethodPost, secretThings, secretThing("a", ""))
	e.must(http.StatusCreated, http.MethodPost, "/apis/plain.example.com/v1/things", strings.Replace(secretThing("a", ""), "secret", "plain", 1))
	for key, prefix := range map[string]string{
		secretCRD:                     "k8s:enc:aesgcm:v1:key-b:",
		"secret.example.com/things/a": "k8s:enc:secretbox:v1:key-a:",
		"plain.example.com/things/a":  "{",
	} {
		if v := e.stored(key); !strings.HasPrefix(v, prefix) {
			t.Errorf("%s is stored as %.60q", key, v)
		}
	}
	// The key is authenticated: a value cannot be moved.
	moved := e.stored(secretCRD)
	if _, err := e.db.client.Put(t.Context(), "/registry/apiextensions.k8s.io/customresourcedefinitions/others.secret.example.com", moved); err != nil {
		t.Fatal(err)
	}
	e.must(http.StatusInternalServerError, http.MethodGet, crdsPath+"/others.secret.example.com", "")
}

// TestEncryptionRotation adds a key while the server runs. Objects with the old key are
// readable, and are encrypted with the new key by an update that changes nothing.
func TestEncryptionRotation(t *testing.T) {
	o := encryptedOptions(t, encryptionConfig(provider("aesgcm", 'a'), `{"identity": {}}`))
	o.EncryptionProviderConfigReload, o.encryptionPoll = true, 10*time.Millisecond
	e := startEncrypted(t, o)
	e.establish()
	e.must(http.StatusCreated, http.MethodPost, secretThings, secretThing("a", ""))
	object := e.must(http.StatusOK, http.MethodGet, secretThings+"/a", "")

	writeEncryption(t, o.EncryptionProviderConfig, "{") // a mistake has no effect
	time.Sleep(5 * o.encryptionPoll)
	e.must(http.StatusOK, http.MethodGet, secretThings+"/a", "")
	writeEncryption(t, o.EncryptionProviderConfig, encryptionConfig(provider("secretbox", 'b'), provider("aesgcm", 'a')))
	var names int
	eventually(t, func() error {
		names++
		name := fmt.Sprint("new", names)
		e.must(http.StatusCreated, http.MethodPost, secretThings, secretThing(name, ""))
		if v := e.stored("secret.example.com/things/" + name); !strings.HasPrefix(v, "k8s:enc:secretbox:v1:key-b:") {
			return fmt.Errorf("stored as %.60q", v)
		}
		return nil
	})
	e.must(http.StatusOK, http.MethodPut, secretThings+"/a", object)
	if v := e.stored("secret.example.com/things/a"); !strings.HasPrefix(v, "k8s:enc:secretbox:v1:key-b:") {
		t.Errorf("an update without changes left %.60q", v)
	}
}

// TestEncryptionWrongKey starts a server whose key cannot decrypt an object and a CRD. They
// are named and can be deleted. Lists that would include them fail.
func TestEncryptionWrongKey(t *testing.T) {
	o := encryptedOptions(t, encryptionRules(
		encryptionRule("things.secret.example.com", provider("aesgcm", 'a')),
		encryptionRule("customresourcedefinitions.apiextensions.k8s.io", provider("aesgcm", 'b')),
	))
	s, err := start(t, o)
	if err != nil {
		t.Fatal(err)
	}
	e := &encryptedServer{T: t, Server: s, client: client(t, s, nil)}
	e.establish()
	e.must(http.StatusCreated, http.MethodPost, crdsPath, sharedCRD("good.example.com"))
	e.must(http.StatusCreated, http.MethodPost, secretThings, secretThing("bad", ""))
	broken := e.stored("secret.example.com/things/bad")
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}

	writeEncryption(t, o.EncryptionProviderConfig, encryptionRules(
		encryptionRule("things.secret.example.com", provider("aesgcm", 'c')),
		encryptionRule("customresourcedefinitions.apiextensions.k8s.io", provider("aesgcm", 'b')),
	))
	if s, err = start(t, o); err != nil {
		t.Fatal(err)
	}
	e = &encryptedServer{T: t, Server: s, client: client(t, s, nil)}
	e.must(http.StatusCreated, http.MethodPost, secretThings, secretThing("good", ""))
	code, text := exchange(t, e.client, http.MethodGet, e.URL()+secretThings, "")
	if code == http.StatusOK || !strings.Contains(text, "things/bad") {
		t.Error("the list does not fail, or does not name the object:", code, text)
	}
	e.must(http.StatusOK, http.MethodGet, secretThings+"/good", "")
	e.must(http.StatusInternalServerError, http.MethodGet, secretThings+"/bad", "")
	if v := e.stored("secret.example.com/things/bad"); v != broken {
		t.Error("the object has changed")
	}
	const unsafe = `{"apiVersion":"v1","kind":"DeleteOptions","ignoreStoreReadErrorWithClusterBreakingPotential":true}`
	e.must(http.StatusOK, http.MethodDelete, secretThings+"/bad", unsafe)
	eventually(t, func() error {
		if code, text := exchange(t, e.client, http.MethodGet, e.URL()+secretThings, ""); code != http.StatusOK {
			return errors.New(text)
		}
		return nil
	})
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}

	writeEncryption(t, o.EncryptionProviderConfig, encryptionRules(
		encryptionRule("customresourcedefinitions.apiextensions.k8s.io", provider("aesgcm", 'c')),
	))
	e = startEncrypted(t, o)
	brokenCRD := e.stored(secretCRD)
	text = e.must(http.StatusInternalServerError, http.MethodGet, crdsPath, "")
	if !strings.Contains(text, "things.secret.example.com") || !strings.Contains(text, "things.good.example.com") {
		t.Error("the list does not name the CRDs:", text)
	}
	e.must(http.StatusServiceUnavailable, http.MethodGet, secretThings, "") // its objects exist
	if v := e.stored(secretCRD); v != brokenCRD {
		t.Error("the CRD has changed")
	}
	e.must(http.StatusCreated, http.MethodPost, crdsPath, sharedCRD("new.example.com"))
	e.must(http.StatusOK, http.MethodGet, "/apis/new.example.com/v1/things", "")
	e.must(http.StatusOK, http.MethodDelete, crdsPath+"/things.secret.example.com", unsafe)
}

// TestEncryptionMistakes starts servers with configurations that cannot be used.
func TestEncryptionMistakes(t *testing.T) {
	o := testOptions(t)
	o.EncryptionProviderConfig = filepath.Join(t.TempDir(), "missing.yaml")
	startFails(t, o, "--encryption-provider-config", "missing.yaml", "no such file")
	startFails(t, encryptedOptions(t, "{"), "--encryption-provider-config", "encryption.yaml")
	startFails(t, encryptedOptions(t, encryptionConfig(`{"aesgcm": {"keys": [{"name": "short", "secret": "YQ=="}]}}`)), "--encryption-provider-config", "secret")
	o = testOptions(t)
	o.EncryptionProviderConfigReload = true
	startFails(t, o, "--encryption-provider-config-automatic-reload needs --encryption-provider-config")
}

// TestEncryptionRemoved starts a server without the configuration that its data needs.
func TestEncryptionRemoved(t *testing.T) {
	o := encryptedOptions(t, encryptionConfig(provider("aesgcm", 'a')))
	s, err := start(t, o)
	if err != nil {
		t.Fatal(err)
	}
	e := &encryptedServer{T: t, Server: s, client: client(t, s, nil)}
	e.establish()
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	o.EncryptionProviderConfig = ""
	e = startEncrypted(t, o)
	text := e.must(http.StatusInternalServerError, http.MethodGet, crdsPath, "")
	if !strings.Contains(text, "things.secret.example.com") || !strings.Contains(text, string(metav1.StatusReasonStoreReadError)) {
		t.Error(text)
	}
	if !strings.HasPrefix(e.stored(secretCRD), "k8s:enc:aesgcm:") {
		t.Error("the CRD has changed")
	}
}
