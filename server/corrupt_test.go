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
	t.Parallel()
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

// TestOtherKind puts objects into etcd under the keys of another resource. Requests that would return them
// fail and name them, and they can be deleted.
func TestOtherKind(t *testing.T) {
	t.Parallel()
	o := servertest.Options(t)
	s := servertest.Start(t, o)
	c := servertest.Client(t, s, nil)
	db := servertest.Etcd(t, o)
	for _, test := range []struct{ key, value, objects string }{
		{"/registry/configmaps/default/bad", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"bad","namespace":"default"}}`,
			"/api/v1/namespaces/default/configmaps"},
		{"/registry/configmaps/default/bad", `{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"bad","namespace":"default"}}`,
			"/api/v1/namespaces/default/configmaps"},
		{"/registry/events/default/bad", `{"apiVersion":"v1","kind":"Status","metadata":{}}`, "/apis/events.k8s.io/v1/namespaces/default/events"},
	} {
		t.Run(test.objects+" "+test.value, func(t *testing.T) {
			if _, err := db.Put(t.Context(), test.key, test.value); err != nil {
				t.Fatal(err)
			}
			exchange := func(method, path, body string) (int, string) {
				return servertest.Exchange(t, c, method, s.URL()+test.objects+path, body)
			}
			servertest.Eventually(t, func() error {
				if code, text := exchange(http.MethodGet, "/bad", ""); code == http.StatusNotFound {
					return errors.New(text)
				}
				return nil
			})
			for _, request := range []struct{ method, path string }{
				{http.MethodGet, "/bad"}, {http.MethodGet, ""}, {http.MethodGet, "?resourceVersion=0"}, {http.MethodGet, "?limit=1"},
				{http.MethodPatch, "/bad"}, {http.MethodDelete, "/bad"}, {http.MethodDelete, ""},
			} {
				code, text := exchange(request.method, request.path, "{}")
				if code != http.StatusInternalServerError || !strings.Contains(text, test.key) {
					t.Errorf("%s %s: got %d %s", request.method, request.path, code, text)
				}
			}
			if code, text := exchange(http.MethodGet, "?watch=true&timeoutSeconds=5", ""); !strings.Contains(text, test.key) {
				t.Errorf("watch: got %d %s", code, text)
			}
			if code, text := exchange(http.MethodDelete, "/bad", `{"ignoreStoreReadErrorWithClusterBreakingPotential":true}`); code != http.StatusOK {
				t.Errorf("delete: got %d %s", code, text)
			}
			servertest.Eventually(t, func() error {
				if code, text := exchange(http.MethodGet, "", ""); code != http.StatusOK {
					return errors.New(text)
				}
				return nil
			})
		})
	}
}
