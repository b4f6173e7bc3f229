package server_test

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"espalier.dev/schema"
	"espalier.dev/server"
	"espalier.dev/server/servertest"
	"espalier.dev/server/snapshot"
)

// unpack unpacks a tar.gz file.
func unpack(t *testing.T, file, dir string) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, filepath.FromSlash(h.Name))
		if h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(path, 0o700)
		} else {
			var text []byte
			if text, err = io.ReadAll(r); err == nil {
				err = os.WriteFile(path, text, h.FileInfo().Mode().Perm())
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestOlderData opens the data directory of an older release, which was written before
// espalier backup and espalier migrate existed, with --semantics kubernetes:
//
//   - CronTab example.com/v1, v1alpha1: nightly was stored before the schema of v1 began to
//     prune, with spec.privileged and spec.nested. It has a finalizer and a status.
//   - Gadget example.com/v1, v2, cluster-scoped, with a webhook for conversions that does not
//     answer.
//   - Widget example.com/v1, of a CRD that was created as v1beta1 and preserves unknown fields.
//     One was deleted.
//
// The test does not depend on the validity of the certificates: the server renews them.
func TestOlderData(t *testing.T) {
	t.Parallel()
	o := servertest.EtcdOptions(t)
	o.Semantics = schema.Kubernetes
	unpack(t, "testdata/older-data.tar.gz", o.DataDir)

	const crontabs, widgets = "/apis/example.com/v1/namespaces/default/crontabs", "/apis/example.com/v1/namespaces/default/widgets"
	run := func(do func(must func(code int, method, path, body string) string)) {
		t.Helper()
		s, err := servertest.TryStart(t, o)
		if err != nil {
			t.Fatal(err)
		}
		c := servertest.Client(t, s, nil)
		do(func(code int, method, path, body string) string {
			t.Helper()
			got, text := servertest.Exchange(t, c, method, s.URL()+path, body)
			if got != code {
				t.Errorf("%s %s: %d, want %d: %s", method, path, got, code, text)
			}
			return text
		})
		c.CloseIdleConnections()
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	}
	contains := func(text string, parts ...string) {
		t.Helper()
		for _, part := range parts {
			if !strings.Contains(text, part) {
				t.Errorf("no %s in %s", part, text)
			}
		}
	}

	run(func(must func(code int, method, path, body string) string) {
		for _, name := range []string{"crontabs", "gadgets", "widgets"} {
			contains(must(http.StatusOK, http.MethodGet, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"+name+".example.com", ""), `"type":"Established"`)
		}
		nightly := must(http.StatusOK, http.MethodGet, crontabs+"/nightly", "")
		contains(nightly, `"uid":"32d58618-f980-4b1a-966e-cd12570ce016"`, `"resourceVersion":"13"`, `"message":"stored"`, `"replicas":1`, `"schedule":"0 3 * * *"`, `"finalizers":["example.com/keep"]`)
		if strings.Contains(nightly, `"privileged"`) || strings.Contains(nightly, `"nested"`) {
			t.Errorf("unspecified fields are served: %s", nightly)
		}
		contains(must(http.StatusOK, http.MethodGet, "/apis/example.com/v1alpha1/namespaces/other/crontabs/old", ""), `"@daily"`, `"apiVersion":"example.com/v1alpha1"`)
		contains(must(http.StatusOK, http.MethodGet, "/apis/example.com/v1/gadgets/big", ""), `"size":7`)
		must(http.StatusInternalServerError, http.MethodGet, "/apis/example.com/v2/gadgets/big", "")
		contains(must(http.StatusOK, http.MethodGet, widgets+"/plain", ""), `"secret":"kept"`, `"extra":{"any":"thing"}`)
		must(http.StatusNotFound, http.MethodGet, widgets+"/deleted", "")

		must(http.StatusOK, http.MethodPut, crontabs+"/nightly", strings.Replace(nightly, `"0 3 * * *"`, `"0 4 * * *"`, 1))
		must(http.StatusConflict, http.MethodPut, crontabs+"/nightly", nightly)
		must(http.StatusCreated, http.MethodPost, widgets, `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"new"},"any":[1]}`)
		must(http.StatusOK, http.MethodDelete, widgets+"/plain", "")
		must(http.StatusCreated, http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"others.example.com"},
"spec":{"group":"example.com","scope":"Cluster","names":{"plural":"others","kind":"Other"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`)
	})
	run(func(must func(code int, method, path, body string) string) {
		contains(must(http.StatusOK, http.MethodGet, crontabs+"/nightly", ""), `"0 4 * * *"`, `"message":"stored"`)
		contains(must(http.StatusOK, http.MethodGet, widgets+"/new", ""), `"any":[1]`)
		must(http.StatusNotFound, http.MethodGet, widgets+"/plain", "")
		must(http.StatusOK, http.MethodGet, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/others.example.com", "")
	})

	// It can be backed up and restored, too.
	backup := filepath.Join(t.TempDir(), "backup.db")
	if m, err := server.Backup(t.Context(), o, server.BackupOptions{Path: backup}); err != nil || m.CRDs != 4 || m.Objects < 4 || m.Semantics != "kubernetes" {
		t.Fatalf("%+v (%v)", m, err)
	}
	o = servertest.EtcdOptions(t)
	o.Semantics = schema.Kubernetes
	if _, err := server.Restore(t.Context(), o, server.RestoreOptions{Path: backup, Bump: snapshot.Bump, Semantics: &o.Semantics}); err != nil {
		t.Fatal(err)
	}
	run(func(must func(code int, method, path, body string) string) {
		contains(must(http.StatusOK, http.MethodGet, crontabs+"/nightly", ""), `"0 4 * * *"`)
		contains(must(http.StatusCreated, http.MethodPost, widgets, `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"newer"}}`), `"resourceVersion":"10000000`)
	})
}
