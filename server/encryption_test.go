package server_test

import (
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"espalier.dev/server/servertest"
)

const (
	secretThings = "/apis/secret.example.com/v1/things"
	secretCRD    = "apiextensions.k8s.io/customresourcedefinitions/things.secret.example.com"
)

// secretThing returns an object.
func secretThing(name, extra string) string {
	return fmt.Sprintf(`{"apiVersion":"secret.example.com/v1","kind":"Thing","metadata":{"name":%q%s}}`, name, extra)
}

// TestEncryption stores CRDs and objects with each provider, reads them after a restart, and
// deletes them.
func TestEncryption(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, provider, prefix string }{
		{"aesgcm", servertest.EncryptionProvider("aesgcm", 'a'), "k8s:enc:aesgcm:v1:key-a:"},
		{"aescbc", servertest.EncryptionProvider("aescbc", 'a'), "k8s:enc:aescbc:v1:key-a:"},
		{"secretbox", servertest.EncryptionProvider("secretbox", 'a'), "k8s:enc:secretbox:v1:key-a:"},
		{"kms", "", "k8s:enc:kms:v2:plugin:"},
		{"identity", `{"identity": {}}`, "{"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.name == "kms" {
				test.provider = startKMS(t).provider()
			}
			o := servertest.EncryptedOptions(t, servertest.EncryptionConfig(test.provider))
			s, err := servertest.TryStart(t, o)
			if err != nil {
				t.Fatal(err)
			}
			e := servertest.Use(t, s, o)
			e.Must(http.StatusCreated, http.MethodPost, servertest.CRDs, servertest.ThingCRD("secret.example.com"))
			e.Must(http.StatusCreated, http.MethodPost, secretThings, secretThing("a", ""))
			e.Must(http.StatusCreated, http.MethodPost, secretThings, secretThing("b", `,"finalizers":["example.com/f"]`))
			for _, key := range []string{secretCRD, "secret.example.com/things/a", "secret.example.com/things/b"} {
				if v := e.Stored(key); !strings.HasPrefix(v, test.prefix) || test.name != "identity" && strings.Contains(v, "Thing") {
					t.Errorf("%s is stored as %.60q", key, v)
				}
			}
			if err := s.Stop(); err != nil {
				t.Fatal(err)
			}

			e = servertest.Run(t, o)
			if text := e.Must(http.StatusOK, http.MethodGet, secretThings, ""); !strings.Contains(text, `"name":"b"`) {
				t.Error(text)
			}
			e.Must(http.StatusOK, http.MethodGet, secretThings+"/a", "")
			// The sweep of the deleted CRD marks b, and waits for its finalizer.
			e.Must(http.StatusOK, http.MethodDelete, servertest.CRDs+"/things.secret.example.com", "")
			servertest.Eventually(t, func() error {
				if text := e.Must(http.StatusOK, http.MethodGet, secretThings+"/b", ""); !strings.Contains(text, "deletionTimestamp") {
					return errors.New("not deleted")
				}
				return nil
			})
			if v := e.Stored("secret.example.com/things/b"); !strings.HasPrefix(v, test.prefix) {
				t.Errorf("the deleted object is stored as %.60q", v)
			}
			object := e.Must(http.StatusOK, http.MethodGet, secretThings+"/b", "")
			e.Must(http.StatusOK, http.MethodPut, secretThings+"/b", strings.Replace(object, `"example.com/f"`, "", 1))
			servertest.Eventually(t, func() error {
				if code, text := servertest.Get(t, e.Server, e.Client, servertest.CRDs+"/things.secret.example.com"); code != http.StatusNotFound {
					return errors.New(text)
				}
				return nil
			})
		})
	}
}

// TestEncryptionRules selects what is encrypted by resource and by group.
func TestEncryptionRules(t *testing.T) {
	t.Parallel()
	e := servertest.Run(t, servertest.EncryptedOptions(t, servertest.EncryptionRules(
		servertest.EncryptionRule("things.plain.example.com", `{"identity": {}}`),
		servertest.EncryptionRule("*.secret.example.com", servertest.EncryptionProvider("secretbox", 'a')),
		servertest.EncryptionRule("customresourcedefinitions.apiextensions.k8s.io", servertest.EncryptionProvider("aesgcm", 'b')),
	)))
	e.Must(http.StatusCreated, http.MethodPost, servertest.CRDs, servertest.ThingCRD("secret.example.com"))
	e.Must(http.StatusCreated, http.MethodPost, servertest.CRDs, servertest.ThingCRD("plain.example.com"))
	e.Must(http.StatusCreated, http.MethodPost, secretThings, secretThing("a", ""))
	e.Must(http.StatusCreated, http.MethodPost, "/apis/plain.example.com/v1/things", strings.Replace(secretThing("a", ""), "secret", "plain", 1))
	for key, prefix := range map[string]string{
		secretCRD:                     "k8s:enc:aesgcm:v1:key-b:",
		"secret.example.com/things/a": "k8s:enc:secretbox:v1:key-a:",
		"plain.example.com/things/a":  "{",
	} {
		if v := e.Stored(key); !strings.HasPrefix(v, prefix) {
			t.Errorf("%s is stored as %.60q", key, v)
		}
	}
	// The key is authenticated: a value cannot be moved.
	moved := e.Stored(secretCRD)
	if _, err := servertest.Etcd(t, e.Options).Put(t.Context(), "/registry/apiextensions.k8s.io/customresourcedefinitions/others.secret.example.com", moved); err != nil {
		t.Fatal(err)
	}
	e.Must(http.StatusInternalServerError, http.MethodGet, servertest.CRDs+"/others.secret.example.com", "")
}

// TestEncryptionWrongKey starts a server whose key cannot decrypt an object and a CRD. They
// are named and can be deleted. Lists that would include them fail.
func TestEncryptionWrongKey(t *testing.T) {
	t.Parallel()
	o := servertest.EncryptedOptions(t, servertest.EncryptionRules(
		servertest.EncryptionRule("things.secret.example.com", servertest.EncryptionProvider("aesgcm", 'a')),
		servertest.EncryptionRule("customresourcedefinitions.apiextensions.k8s.io", servertest.EncryptionProvider("aesgcm", 'b')),
	))
	s, err := servertest.TryStart(t, o)
	if err != nil {
		t.Fatal(err)
	}
	e := servertest.Use(t, s, o)
	e.Must(http.StatusCreated, http.MethodPost, servertest.CRDs, servertest.ThingCRD("secret.example.com"))
	e.Must(http.StatusCreated, http.MethodPost, servertest.CRDs, servertest.ThingCRD("good.example.com"))
	e.Must(http.StatusCreated, http.MethodPost, secretThings, secretThing("bad", ""))
	broken := e.Stored("secret.example.com/things/bad")
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}

	servertest.WriteEncryption(t, o, servertest.EncryptionRules(
		servertest.EncryptionRule("things.secret.example.com", servertest.EncryptionProvider("aesgcm", 'c')),
		servertest.EncryptionRule("customresourcedefinitions.apiextensions.k8s.io", servertest.EncryptionProvider("aesgcm", 'b')),
	))
	if s, err = servertest.TryStart(t, o); err != nil {
		t.Fatal(err)
	}
	e = servertest.Use(t, s, o)
	e.Must(http.StatusCreated, http.MethodPost, secretThings, secretThing("good", ""))
	code, text := servertest.Exchange(t, e.Client, http.MethodGet, e.URL()+secretThings, "")
	if code == http.StatusOK || !strings.Contains(text, "things/bad") {
		t.Error("the list does not fail, or does not name the object:", code, text)
	}
	e.Must(http.StatusOK, http.MethodGet, secretThings+"/good", "")
	e.Must(http.StatusInternalServerError, http.MethodGet, secretThings+"/bad", "")
	if v := e.Stored("secret.example.com/things/bad"); v != broken {
		t.Error("the object has changed")
	}
	const unsafe = `{"apiVersion":"v1","kind":"DeleteOptions","ignoreStoreReadErrorWithClusterBreakingPotential":true}`
	e.Must(http.StatusOK, http.MethodDelete, secretThings+"/bad", unsafe)
	servertest.Eventually(t, func() error {
		if code, text := servertest.Exchange(t, e.Client, http.MethodGet, e.URL()+secretThings, ""); code != http.StatusOK {
			return errors.New(text)
		}
		return nil
	})
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}

	servertest.WriteEncryption(t, o, servertest.EncryptionRules(
		servertest.EncryptionRule("customresourcedefinitions.apiextensions.k8s.io", servertest.EncryptionProvider("aesgcm", 'c')),
	))
	e = servertest.Run(t, o)
	brokenCRD := e.Stored(secretCRD)
	text = e.Must(http.StatusInternalServerError, http.MethodGet, servertest.CRDs, "")
	if !strings.Contains(text, "things.secret.example.com") || !strings.Contains(text, "things.good.example.com") {
		t.Error("the list does not name the CRDs:", text)
	}
	e.Must(http.StatusServiceUnavailable, http.MethodGet, secretThings, "") // its objects exist
	if v := e.Stored(secretCRD); v != brokenCRD {
		t.Error("the CRD has changed")
	}
	e.Must(http.StatusCreated, http.MethodPost, servertest.CRDs, servertest.ThingCRD("new.example.com"))
	e.Must(http.StatusOK, http.MethodGet, "/apis/new.example.com/v1/things", "")
	e.Must(http.StatusOK, http.MethodDelete, servertest.CRDs+"/things.secret.example.com", unsafe)
}

// TestEncryptionMistakes starts servers with configurations that cannot be used.
func TestEncryptionMistakes(t *testing.T) {
	t.Parallel()
	o := servertest.Options(t)
	o.EncryptionProviderConfig = filepath.Join(t.TempDir(), "missing.yaml")
	servertest.StartFails(t, o, "--encryption-provider-config", "missing.yaml", "no such file")
	servertest.StartFails(t, servertest.EncryptedOptions(t, "{"), "--encryption-provider-config", "encryption.yaml")
	servertest.StartFails(t, servertest.EncryptedOptions(t, servertest.EncryptionConfig(`{"aesgcm": {"keys": [{"name": "short", "secret": "YQ=="}]}}`)), "--encryption-provider-config", "secret")
	o = servertest.Options(t)
	o.EncryptionProviderConfigReload = true
	servertest.StartFails(t, o, "--encryption-provider-config-automatic-reload needs --encryption-provider-config")
}

// TestEncryptionRemoved starts a server without the configuration that its data needs.
func TestEncryptionRemoved(t *testing.T) {
	t.Parallel()
	o := servertest.EncryptedOptions(t, servertest.EncryptionConfig(servertest.EncryptionProvider("aesgcm", 'a')))
	s, err := servertest.TryStart(t, o)
	if err != nil {
		t.Fatal(err)
	}
	e := servertest.Use(t, s, o)
	e.Must(http.StatusCreated, http.MethodPost, servertest.CRDs, servertest.ThingCRD("secret.example.com"))
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	o.EncryptionProviderConfig = ""
	e = servertest.Run(t, o)
	text := e.Must(http.StatusInternalServerError, http.MethodGet, servertest.CRDs, "")
	if !strings.Contains(text, "things.secret.example.com") || !strings.Contains(text, string(metav1.StatusReasonStoreReadError)) {
		t.Error(text)
	}
	if !strings.HasPrefix(e.Stored(secretCRD), "k8s:enc:aesgcm:") {
		t.Error("the CRD has changed")
	}
}
