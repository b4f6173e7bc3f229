package server_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"espalier.dev/server/pki"
	"espalier.dev/server/servertest"
)

// TestUnreadableAPIService has an API service that cannot be decrypted when the server starts. As soon as it can be, its
// requests are proxied.
func TestUnreadableAPIService(t *testing.T) {
	t.Parallel()
	const services, path = "/apis/apiregistration.k8s.io/v1/apiservices", "/apis/sealed.example.com/v1/things"
	other := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}") }))
	t.Cleanup(other.Close)
	rule := func(providers ...string) string {
		return servertest.EncryptionRules(servertest.EncryptionRule("apiservices.apiregistration.k8s.io", providers...))
	}
	with := rule(servertest.EncryptionProvider("aesgcm", 'a'))
	o := servertest.EncryptedOptions(t, with)
	o.EncryptionProviderConfigReload = true
	o.SetEncryptionPoll(10 * time.Millisecond)
	o.ServiceResolver = []string{"sealed.default=" + other.URL}
	s, err := servertest.TryStart(t, o)
	if err != nil {
		t.Fatal(err)
	}
	e := servertest.Use(t, s, o)
	e.Must(http.StatusCreated, http.MethodPost, services, `{"metadata":{"name":"v1.sealed.example.com"},"spec":{"group":"sealed.example.com","version":"v1",
"groupPriorityMinimum":2000,"versionPriority":10,"insecureSkipTLSVerify":true,"service":{"namespace":"default","name":"sealed"}}}`)
	served := func(e *servertest.Running) func() error {
		return func() error {
			if code, text := servertest.Get(t, e.Server, e.Client, path); code != http.StatusOK {
				return fmt.Errorf("%d %s", code, text)
			}
			return nil
		}
	}
	servertest.Eventually(t, served(e))
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	servertest.WriteEncryption(t, o, rule(servertest.EncryptionProvider("aesgcm", 'b')))
	e = servertest.Run(t, o)
	if served(e)() == nil {
		t.Fatal("the API service is used without the key")
	}
	servertest.WriteEncryption(t, o, with)
	servertest.Eventually(t, served(e))
}

// TestTrustsNewCAs replaces the file with the CAs of users while the server runs: extension servers learn of the new one.
func TestTrustsNewCAs(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for the next look at the CAs")
	}
	t.Parallel()
	ca := func(name string) string {
		made, err := pki.Ensure(pki.Config{Dir: filepath.Join(t.TempDir(), name)})
		if err != nil {
			t.Fatal(err)
		}
		return string(made.CA.Cert)
	}
	before, after := ca("before"), ca("after")
	o := servertest.Options(t)
	o.ClientCAFile = filepath.Join(t.TempDir(), "ca.crt")
	write := func(text string) {
		if err := os.WriteFile(o.ClientCAFile, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(before)
	e := servertest.Run(t, o)
	published := func(ca string) bool {
		text := e.Must(http.StatusOK, http.MethodGet, "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication", "")
		return strings.Contains(strings.ReplaceAll(text, `\n`, "\n"), strings.TrimSpace(ca))
	}
	if !published(before) || published(after) {
		t.Fatal("the CAs of the start are not those of the file")
	}
	write(after)
	servertest.Eventually(t, func() error {
		if !published(after) {
			return errors.New("the new CA is not published")
		}
		return nil
	})
}
