package server_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"espalier.dev/server/servertest"
)

// TestReadsFromStore checks that a read of a custom resource is not left to k8s.io/apiserver: the
// store keeps what the server has found out about the stored bytes.
func TestReadsFromStore(t *testing.T) {
	t.Parallel()
	s := servertest.Run(t, servertest.Options(t))
	s.Must(http.StatusCreated, http.MethodPost, servertest.CRDs, servertest.ThingCRD("reads.example.com"))
	const things = "/apis/reads.example.com/v1/things"
	s.Must(http.StatusCreated, http.MethodPost, things, `{"apiVersion":"reads.example.com/v1","kind":"Thing","metadata":{"name":"a"}}`)
	s.Must(http.StatusOK, http.MethodGet, things+"/a", "")
	if e := s.Store().Get("/registry/reads.example.com/things/a"); !strings.HasSuffix(fmt.Sprintf("%T", e.Memo()), ".view") {
		t.Errorf("the store keeps %T", e.Memo())
	}
}
