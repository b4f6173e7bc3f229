package server_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"espalier.dev/server/servertest"
)

// TestEncryptionRotation adds a key while the server runs. Objects with the old key are
// readable, and are encrypted with the new key by an update that changes nothing.
func TestEncryptionRotation(t *testing.T) {
	t.Parallel()
	const things = "/apis/secret.example.com/v1/things"
	thing := func(name string) string {
		return `{"apiVersion":"secret.example.com/v1","kind":"Thing","metadata":{"name":"` + name + `"}}`
	}
	o := servertest.EncryptedOptions(t, servertest.EncryptionConfig(servertest.EncryptionProvider("aesgcm", 'a'), `{"identity": {}}`))
	const poll = 10 * time.Millisecond
	o.EncryptionProviderConfigReload = true
	o.SetEncryptionPoll(poll)
	e := servertest.Run(t, o)
	e.Must(http.StatusCreated, http.MethodPost, servertest.CRDs, servertest.ThingCRD("secret.example.com"))
	e.Must(http.StatusCreated, http.MethodPost, things, thing("a"))
	object := e.Must(http.StatusOK, http.MethodGet, things+"/a", "")

	servertest.WriteEncryption(t, o, "{") // a mistake has no effect
	time.Sleep(5 * poll)
	e.Must(http.StatusOK, http.MethodGet, things+"/a", "")
	servertest.WriteEncryption(t, o, servertest.EncryptionConfig(servertest.EncryptionProvider("secretbox", 'b'), servertest.EncryptionProvider("aesgcm", 'a')))
	var names int
	servertest.Eventually(t, func() error {
		names++
		name := fmt.Sprint("new", names)
		e.Must(http.StatusCreated, http.MethodPost, things, thing(name))
		if v := e.Stored("secret.example.com/things/" + name); !strings.HasPrefix(v, "k8s:enc:secretbox:v1:key-b:") {
			return fmt.Errorf("stored as %.60q", v)
		}
		return nil
	})
	e.Must(http.StatusOK, http.MethodPut, things+"/a", object)
	if v := e.Stored("secret.example.com/things/a"); !strings.HasPrefix(v, "k8s:enc:secretbox:v1:key-b:") {
		t.Errorf("an update without changes left %.60q", v)
	}
}
