package server_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"espalier.dev/schema"
	"espalier.dev/server/servertest"
)

var errNotYet = errors.New("not yet")

// TestCorruptObjects puts values into etcd that cannot be decoded. Requests that would return
// them fail and name them. All other requests work, and the objects can be deleted.
func TestCorruptObjects(t *testing.T) {
	o := servertest.Options(t)
	o.Semantics = schema.Kubernetes
	s := servertest.Start(t, o)
	c := servertest.Client(t, s, nil)
	const things = "/apis/corrupt.example.com/v1/namespaces/"
	must := func(code int, method, path, body string) string {
		t.Helper()
		got, text := servertest.Exchange(t, c, method, s.URL()+path, body)
		if got != code {
			t.Errorf("%s %s: %d instead of %d: %s", method, path, got, code, text)
		}
		return text
	}
	object := func(name string) string {
		return `{"apiVersion":"corrupt.example.com/v1","kind":"Thing","metadata":{"name":"` + name + `"}}`
	}
	must(http.StatusCreated, http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", `{
"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"things.corrupt.example.com"},"spec":{"group":"corrupt.example.com","scope":"Namespaced",
"names":{"plural":"things","kind":"Thing"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`)
	for _, namespace := range []string{"a", "b"} {
		must(http.StatusCreated, http.MethodPost, "/api/v1/namespaces", `{"metadata":{"name":"`+namespace+`"}}`)
	}
	must(http.StatusCreated, http.MethodPost, things+"a/things", object("good"))
	must(http.StatusCreated, http.MethodPost, things+"b/things", object("good"))
	must(http.StatusOK, http.MethodGet, things+"a/things", "")
	db := servertest.Etcd(t, o)
	for _, name := range []string{"bad", "worse"} {
		if _, err := db.Put(t.Context(), "/registry/corrupt.example.com/things/a/"+name, `{"apiVersion":`); err != nil {
			t.Fatal(err)
		}
	}
	servertest.Eventually(t, func() error {
		code, _ := servertest.Exchange(t, c, http.MethodGet, s.URL()+things+"a/things", "")
		if code == http.StatusOK {
			return errNotYet
		}
		return nil
	})
	for _, path := range []string{things + "a/things", "/apis/corrupt.example.com/v1/things"} {
		text := must(http.StatusInternalServerError, http.MethodGet, path, "")
		for _, key := range []string{"things/a/bad", "things/a/worse"} {
			if !strings.Contains(text, key) {
				t.Errorf("GET %s does not name %s: %s", path, key, text)
			}
		}
	}
	must(http.StatusInternalServerError, http.MethodGet, things+"a/things/bad", "")
	must(http.StatusInternalServerError, http.MethodDelete, things+"a/things/bad", "")
	// Everything else is unaffected.
	must(http.StatusOK, http.MethodGet, things+"b/things", "")
	must(http.StatusOK, http.MethodGet, things+"b/things?resourceVersion=0", "")
	must(http.StatusOK, http.MethodGet, things+"b/things?watch=true&timeoutSeconds=1", "")
	must(http.StatusOK, http.MethodGet, things+"a/things/good", "")
	must(http.StatusCreated, http.MethodPost, things+"a/things", object("new"))
	must(http.StatusOK, http.MethodDelete, things+"a/things/good", "")
	must(http.StatusOK, http.MethodGet, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "")
	// A client can delete them if it accepts the risk.
	const unsafe = `{"apiVersion":"v1","kind":"DeleteOptions","ignoreStoreReadErrorWithClusterBreakingPotential":true}`
	for _, name := range []string{"bad", "worse"} {
		must(http.StatusOK, http.MethodDelete, things+"a/things/"+name, unsafe)
	}
	must(http.StatusConflict, http.MethodDelete, things+"a/things/new", unsafe) // it is readable
	servertest.Eventually(t, func() error {
		code, _ := servertest.Exchange(t, c, http.MethodGet, s.URL()+things+"a/things", "")
		if code != http.StatusOK {
			return errNotYet
		}
		return nil
	})
	if _, body := servertest.Get(t, s, c, "/metrics"); !strings.Contains(body, "espalier_undecodable_values_total{") {
		t.Error("there is no metric of values that cannot be decoded")
	}
}
