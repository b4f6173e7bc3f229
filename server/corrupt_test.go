package server

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"espalier.dev/schema"
)

var errNotYet = errors.New("not yet")

// TestCorruptObjects puts values into etcd that cannot be decoded. What would include them
// fails and says which they are; everything else goes on, and they can be deleted.
func TestCorruptObjects(t *testing.T) {
	o := testOptions(t)
	o.Semantics = schema.Kubernetes
	s := startServer(t, o)
	c := client(t, s, nil)
	const things = "/apis/corrupt.example.com/v1/namespaces/"
	must := func(code int, method, path, body string) string {
		t.Helper()
		got, text := exchange(t, c, method, s.URL()+path, body)
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
	must(http.StatusCreated, http.MethodPost, things+"a/things", object("good"))
	must(http.StatusCreated, http.MethodPost, things+"b/things", object("good"))
	must(http.StatusOK, http.MethodGet, things+"a/things", "")
	for _, name := range []string{"bad", "worse"} {
		if _, err := s.db.client.Put(t.Context(), "/registry/corrupt.example.com/things/a/"+name, `{"apiVersion":`); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, func() error {
		code, _ := exchange(t, c, http.MethodGet, s.URL()+things+"a/things", "")
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
	// They can be deleted by who knows what that means.
	const unsafe = `{"apiVersion":"v1","kind":"DeleteOptions","ignoreStoreReadErrorWithClusterBreakingPotential":true}`
	for _, name := range []string{"bad", "worse"} {
		must(http.StatusOK, http.MethodDelete, things+"a/things/"+name, unsafe)
	}
	must(http.StatusConflict, http.MethodDelete, things+"a/things/new", unsafe) // it is readable
	eventually(t, func() error {
		code, _ := exchange(t, c, http.MethodGet, s.URL()+things+"a/things", "")
		if code != http.StatusOK {
			return errNotYet
		}
		return nil
	})
	if _, body := get(t, s, c, "/metrics"); !strings.Contains(body, "espalier_undecodable_values_total{") {
		t.Error("there is no metric of values that cannot be decoded")
	}
}

// TestCorruptCRD starts with a stored CRD that cannot be decoded: the error names its key.
func TestCorruptCRD(t *testing.T) {
	o := testOptions(t)
	s, err := start(t, o)
	if err != nil {
		t.Fatal(err)
	}
	const key = "/registry/apiextensions.k8s.io/customresourcedefinitions/bad.example.com"
	_, err = s.db.client.Put(t.Context(), key, `{"apiVersion":`)
	if err := errors.Join(err, s.Stop()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	s, err = Start(ctx, o)
	if err == nil {
		_ = s.Stop()
		t.Fatal("it started without the CRD")
	}
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), key) {
		t.Errorf("it does not name the key: %v", err)
	}
}
