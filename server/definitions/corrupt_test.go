package definitions_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"espalier.dev/server"
	"espalier.dev/server/servertest"
)

// TestCorruptCRD replaces a CRD in etcd with a value that cannot be decoded, while the server
// runs or before it starts. Lists of CRDs fail and name it, and the objects of the CRD remain.
// All other requests work, and the CRD can be repaired or deleted.
func TestCorruptCRD(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		restart bool
	}{
		{"while running", false},
		{"before the start", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			testCorruptCRD(t, servertest.Options(t), c.restart)
		})
	}
}

// testCorruptCRD corrupts a CRD and, if restart is set, restarts the server.
func testCorruptCRD(t *testing.T, o *server.Options, restart bool) {
	const (
		crds   = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
		prefix = "/registry/apiextensions.k8s.io/customresourcedefinitions/"
		bad    = "bads.corrupt.example.com"
		unsafe = "?ignoreStoreReadErrorWithClusterBreakingPotential=true"
	)
	definition := func(plural, kind string) string {
		return `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"` + plural + `.corrupt.example.com"},"spec":{"group":"corrupt.example.com","scope":"Cluster",
"names":{"plural":"` + plural + `","kind":"` + kind + `"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`
	}
	object := func(kind string) string {
		return `{"apiVersion":"corrupt.example.com/v1","kind":"` + kind + `","metadata":{"name":"a"}}`
	}
	path := func(plural string) string { return "/apis/corrupt.example.com/v1/" + plural }

	s, err := servertest.TryStart(t, o)
	if err != nil {
		t.Fatal(err)
	}
	c := servertest.Client(t, s, nil)
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	must := func(code int, method, path, body string) string {
		t.Helper()
		began := time.Now()
		got, text := servertest.Exchange(t, c, method, s.URL()+path, body)
		if got != code {
			t.Errorf("%s %s: %d instead of %d: %s", method, path, got, code, text)
		}
		// A write that the reconciler does not see returns after five seconds.
		if took := time.Since(began); took > 4*time.Second {
			t.Errorf("%s %s took %v", method, path, took)
		}
		return text
	}
	become := func(code int, path string) {
		t.Helper()
		servertest.Eventually(t, func() error {
			if got, text := servertest.Exchange(t, c, http.MethodGet, s.URL()+path, ""); got != code {
				return fmt.Errorf("GET %s: %d instead of %d: %s", path, got, code, text)
			}
			return nil
		})
	}
	put := func(value string) {
		t.Helper()
		if _, err := servertest.Etcd(t, o).Put(t.Context(), prefix+bad, value); err != nil {
			t.Fatal(err)
		}
	}
	for plural, kind := range map[string]string{"bads": "Bad", "goods": "Good"} {
		must(http.StatusCreated, http.MethodPost, crds, definition(plural, kind))
		must(http.StatusCreated, http.MethodPost, path(plural), object(kind))
	}
	before := must(http.StatusOK, http.MethodGet, path("bads/a"), "")
	stored, err := servertest.Etcd(t, o).Get(t.Context(), prefix+bad)
	if err != nil || len(stored.Kvs) != 1 {
		t.Fatal(stored, err)
	}

	put(`{"apiVersion":`)
	if restart {
		if err := s.Stop(); err != nil {
			t.Fatal(err)
		}
		again, err := servertest.TryStart(t, o)
		if err != nil {
			t.Fatal(err)
		}
		s = again
		c = servertest.Client(t, s, nil)
	}

	// Requests that would return the CRD fail and name it.
	become(http.StatusServiceUnavailable, path("bads/a")) // not 404: it exists
	must(http.StatusServiceUnavailable, http.MethodGet, path("bads"), "")
	must(http.StatusServiceUnavailable, http.MethodPost, path("bads"), object("Bad"))
	become(http.StatusInternalServerError, crds)
	var status metav1.Status
	if err := json.Unmarshal([]byte(must(http.StatusInternalServerError, http.MethodGet, crds, "")), &status); err != nil {
		t.Fatal(err)
	}
	if status.Reason != metav1.StatusReasonStoreReadError || status.Details == nil || len(status.Details.Causes) != 1 || status.Details.Causes[0].Field != prefix+bad {
		t.Errorf("the list does not name the key: %+v", status)
	}
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		if text := must(http.StatusInternalServerError, method, crds+"/"+bad, ""); !strings.Contains(text, "customresourcedefinitions/"+bad) {
			t.Errorf("%s does not name the key: %s", method, text)
		}
	}
	if _, body := servertest.Get(t, s, c, "/metrics"); !strings.Contains(body, `espalier_undecodable_values_total{group="apiextensions.k8s.io",resource="customresourcedefinitions"}`) {
		t.Error("there is no metric of the CRD")
	}

	// Everything else is unaffected.
	must(http.StatusOK, http.MethodGet, "/readyz", "")
	must(http.StatusOK, http.MethodGet, path("goods"), "")
	must(http.StatusOK, http.MethodGet, path("goods/a"), "")
	must(http.StatusOK, http.MethodGet, crds+"/goods.corrupt.example.com", "")
	must(http.StatusCreated, http.MethodPost, crds, definition("news", "New"))
	must(http.StatusCreated, http.MethodPost, path("news"), object("New"))
	served := must(http.StatusOK, http.MethodGet, crds+"/news.corrupt.example.com", "")
	must(http.StatusOK, http.MethodPut, crds+"/news.corrupt.example.com", strings.Replace(served, `"name":"v1","served":true`, `"name":"v1","served":false`, 1))
	must(http.StatusNotFound, http.MethodGet, path("news/a"), "")
	must(http.StatusOK, http.MethodDelete, crds+"/news.corrupt.example.com", "")
	become(http.StatusNotFound, crds+"/news.corrupt.example.com")
	must(http.StatusOK, http.MethodDelete, path("goods/a"), "")

	// It can be repaired without a restart.
	put(string(stored.Kvs[0].Value))
	become(http.StatusOK, path("bads/a"))
	if after := must(http.StatusOK, http.MethodGet, path("bads/a"), ""); after != before {
		t.Errorf("the object has changed:\n%s\n%s", before, after)
	}
	become(http.StatusOK, crds)

	// It can be deleted. The object remains for another CRD of the same name.
	put("")
	become(http.StatusInternalServerError, crds+"/"+bad)
	must(http.StatusOK, http.MethodDelete, crds+"/"+bad+unsafe, "")
	become(http.StatusOK, crds)
	become(http.StatusNotFound, path("bads/a"))
	must(http.StatusConflict, http.MethodDelete, crds+"/goods.corrupt.example.com"+unsafe, "") // it is readable
	must(http.StatusCreated, http.MethodPost, crds, definition("bads", "Bad"))
	if after := must(http.StatusOK, http.MethodGet, path("bads/a"), ""); after != before {
		t.Errorf("the object has changed:\n%s\n%s", before, after)
	}
	// Watches work again too.
	become(http.StatusOK, crds+"?watch=true&timeoutSeconds=1")
}
