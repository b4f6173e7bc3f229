package server_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"espalier.dev/server"
	"espalier.dev/server/servertest"
	"espalier.dev/server/snapshot"
)

// writeRelease writes the fixture of a release, which must not exist.
var writeRelease = flag.String("write-release", "", "with -run TestReleases: write the data of this release, such as v1.0.0")

// The directory of a release in testdata/releases has these files:
//
//	data.tar.gz        the data directory of a server that has stopped
//	backup.db.gz       a backup of it
//	encryption.json    the encryption configuration
//	token              the token of a service account
//	answers.json       the answers of the server that has written the data, see [answer]
const (
	dataFile, backupFile, encryptionFile, tokenFile, answersFile = "data.tar.gz", "backup.db.gz", "encryption.json", "token", "answers.json"

	team     = "/api/v1/namespaces/team"
	crontabs = "/namespaces/team/crontabs"
)

// answer is a recorded answer.
type answer struct {
	Path string `json:"path"`
	// Converts is set if the answer needs the conversion webhook.
	Converts bool `json:"converts,omitempty"`
	Code     int  `json:"code"`
	Body     any  `json:"body"`
}

// TestReleases opens the data directories that releases have written, and restores their backups.
// All objects must be served as the release has served them, in all versions, and can be written.
//
// A fixture is never changed. To add that of a new release:
//
//	go test ./server -run TestReleases -write-release v1.1.0
func TestReleases(t *testing.T) {
	t.Parallel()
	root := filepath.Join("testdata", "releases")
	if *writeRelease != "" {
		writeFixture(t, filepath.Join(root, *writeRelease), *writeRelease)
	}
	dirs, err := filepath.Glob(filepath.Join(root, "v*"))
	if err != nil || len(dirs) == 0 {
		t.Fatal("no releases", err)
	}
	for _, dir := range dirs {
		t.Run(filepath.Base(dir)+"/data", func(t *testing.T) {
			t.Parallel()
			o := releaseOptions(t, filepath.Join(dir, encryptionFile))
			unpack(t, filepath.Join(dir, dataFile), o.DataDir)
			checkRelease(t, dir, o)
		})
		t.Run(filepath.Base(dir)+"/backup", func(t *testing.T) {
			t.Parallel()
			o := releaseOptions(t, filepath.Join(dir, encryptionFile))
			unpack(t, filepath.Join(dir, dataFile), o.DataDir)
			// The directory pki is not part of a backup.
			if err := os.RemoveAll(filepath.Join(o.DataDir, "etcd")); err != nil {
				t.Fatal(err)
			}
			backup := filepath.Join(t.TempDir(), "backup.db")
			if err := os.WriteFile(backup, gunzip(t, filepath.Join(dir, backupFile)), 0o600); err != nil {
				t.Fatal(err)
			}
			restored, err := server.Restore(t.Context(), o, server.RestoreOptions{Path: backup, Bump: snapshot.Bump})
			if err != nil {
				t.Fatal(err)
			}
			if m := restored.Manifest; m.Espalier != filepath.Base(dir) || m.CRDs != 3 || m.Encrypted != 3 {
				t.Errorf("the manifest is %+v", m)
			}
			checkRelease(t, dir, o)
		})
	}
}

// releaseOptions returns the options of a server for the data of a release.
func releaseOptions(t *testing.T, encryption string) *server.Options {
	t.Helper()
	o := servertest.EtcdOptions(t)
	o.DisableAdmissionPlugins = nil
	o.EncryptionProviderConfig = encryption
	o.Controllers = []string{"*", "-validatingadmissionpolicy-status-controller"} // releases without it have left policies without a status
	return o
}

// checkRelease compares the answers of a server with the recorded ones, and changes objects.
func checkRelease(t *testing.T, dir string, o *server.Options) {
	var recorded []answer
	text, err := os.ReadFile(filepath.Join(dir, answersFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &recorded); err != nil {
		t.Fatal(err)
	}
	if len(recorded) < 30 {
		t.Fatalf("only %d answers are recorded", len(recorded))
	}
	s := servertest.Run(t, o)
	compare := func(converts bool) {
		t.Helper()
		for _, want := range recorded {
			if want.Converts != converts {
				continue
			}
			got := ask(t, s, want.Path)
			exact := strings.HasPrefix(want.Path, "/apis/example.com/")
			if diff := missing(want.Body, got.Body, exact, ""); got.Code != want.Code || diff != "" {
				t.Errorf("%s: got %d, want %d: %s", want.Path, got.Code, want.Code, diff)
			}
		}
	}
	compare(false)
	hook := newReleaseHook(t)
	s.Must(http.StatusOK, http.MethodPatch, servertest.CRDs+"/gadgets.example.com", `{"spec":{"conversion":`+conversionBy(hook)+`}}`)
	compare(true)

	// Roles, bindings and tokens.
	token, err := os.ReadFile(filepath.Join(dir, tokenFile))
	if err != nil {
		t.Fatal(err)
	}
	account := servertest.Anonymous(t, s.Server)
	account.BearerToken = string(token)
	for who, test := range map[string]struct {
		config *rest.Config
		code   int
	}{
		"jane":              {servertest.User(t, s.Server, "jane"), http.StatusOK},
		"john":              {servertest.User(t, s.Server, "john"), http.StatusForbidden},
		"a service account": {account, http.StatusOK},
	} {
		if code, body := servertest.Get(t, s.Server, servertest.Client(t, s.Server, test.config), "/apis/example.com/v1"+crontabs); code != test.code {
			t.Errorf("%s: got %d, want %d: %s", who, code, test.code, body)
		}
	}

	// Writes.
	old := s.Must(http.StatusOK, http.MethodGet, "/apis/example.com/v1"+crontabs+"/old", "")
	s.Must(http.StatusOK, http.MethodPut, "/apis/example.com/v1"+crontabs+"/old", strings.Replace(old, `"@daily"`, `"@hourly"`, 1))
	s.Must(http.StatusConflict, http.MethodPut, "/apis/example.com/v1"+crontabs+"/old", old)
	if got := s.Stored("example.com/crontabs/team/old"); !strings.Contains(got, `"example.com/v1"`) || !strings.Contains(got, `"@hourly"`) {
		t.Errorf("stored: %s", got)
	}
	s.Must(http.StatusCreated, http.MethodPost, "/apis/example.com/v1alpha1"+crontabs,
		`{"apiVersion":"example.com/v1alpha1","kind":"CronTab","metadata":{"name":"added"},"spec":{"schedule":"@weekly"}}`)
	s.Must(http.StatusOK, http.MethodPatch, team+"/secrets/plain", `{"stringData":{"more":"text"}}`)
	if got := s.Stored("secrets/team/plain"); !strings.HasPrefix(got, "k8s:enc:aesgcm:v1:key-b:") {
		t.Errorf("stored: %.40q", got)
	}
	s.Must(http.StatusOK, http.MethodPatch, "/apis/example.com/v1"+crontabs+"/leaving", `{"metadata":{"finalizers":null}}`)
	s.Must(http.StatusNotFound, http.MethodGet, "/apis/example.com/v1"+crontabs+"/leaving", "")
	s.Must(http.StatusOK, http.MethodPut, "/apis/example.com/v2/gadgets/big",
		strings.Replace(s.Must(http.StatusOK, http.MethodGet, "/apis/example.com/v2/gadgets/big", ""), `"size":7`, `"size":8`, 1))
	if got := s.Must(http.StatusOK, http.MethodGet, "/apis/example.com/v1/gadgets/big", ""); !strings.Contains(got, `"size":8`) {
		t.Errorf("got %s", got)
	}
}

// ask sends a request and removes from the answer what differs each time.
func ask(t *testing.T, s *servertest.Running, path string) answer {
	t.Helper()
	code, text := servertest.Get(t, s.Server, s.Client, path)
	a := answer{Path: path, Code: code}
	if err := json.Unmarshal([]byte(text), &a.Body); err != nil {
		t.Fatalf("%s: %v: %s", path, err, text)
	}
	if list, ok := a.Body.(map[string]any); ok && list["items"] != nil {
		// The revision of etcd.
		delete(list["metadata"].(map[string]any), "resourceVersion")
	}
	if strings.Contains(path, "/customresourcedefinitions/") {
		withoutScan(a.Body.(map[string]any))
	}
	return a
}

// withoutScan removes from a CRD what the scans of its objects change.
func withoutScan(crd map[string]any) {
	meta, status := crd["metadata"].(map[string]any), crd["status"].(map[string]any)
	delete(meta, "resourceVersion")
	delete(meta, "managedFields")
	conditions, _ := status["conditions"].([]any)
	status["conditions"] = slices.DeleteFunc(conditions, func(c any) bool { return c.(map[string]any)["type"] == "Compliant" })
}

// missing describes what of a recorded value an answer does not have. Unless exact is set, the answer
// may have more fields, because newer versions of Kubernetes add some.
func missing(want, got any, exact bool, at string) string {
	fields, ok := want.(map[string]any)
	more, isMap := got.(map[string]any)
	if !ok || !isMap {
		items, isList := want.([]any)
		others, _ := got.([]any)
		if !isList || len(items) != len(others) {
			if !reflect.DeepEqual(want, got) {
				return fmt.Sprintf("%s: got %v, want %v", at, got, want)
			}
			return ""
		}
		for i := range items {
			if diff := missing(items[i], others[i], exact, fmt.Sprintf("%s[%d]", at, i)); diff != "" {
				return diff
			}
		}
		return ""
	}
	for name, value := range fields {
		if diff := missing(value, more[name], exact, at+"."+name); diff != "" {
			return diff
		}
	}
	for name, value := range more {
		if _, ok := fields[name]; !ok && exact {
			return fmt.Sprintf("%s.%s: got %v, want none", at, name, value)
		}
	}
	return ""
}

// newReleaseHook starts the conversion webhook of gadgets: spec.size of v1 is spec.dimension.size
// in v2.
func newReleaseHook(t *testing.T) *httptest.Server {
	t.Helper()
	hook := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review struct {
			APIVersion string `json:"apiVersion"`
			Kind       string `json:"kind"`
			Request    struct {
				UID     string           `json:"uid"`
				Desired string           `json:"desiredAPIVersion"`
				Objects []map[string]any `json:"objects"`
			} `json:"request"`
		}
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		for _, o := range review.Request.Objects {
			spec, _ := o["spec"].(map[string]any)
			if o["apiVersion"] = review.Request.Desired; strings.HasSuffix(review.Request.Desired, "/v2") {
				o["spec"] = map[string]any{"dimension": map[string]any{"size": spec["size"]}}
			} else {
				dimension, _ := spec["dimension"].(map[string]any)
				o["spec"] = map[string]any{"size": dimension["size"]}
			}
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(map[string]any{"apiVersion": review.APIVersion, "kind": review.Kind, "response": map[string]any{
			"uid": review.Request.UID, "convertedObjects": review.Request.Objects, "result": map[string]any{"status": "Success"},
		}}); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(hook.Close)
	return hook
}

// conversionBy returns the conversion of a CRD by a webhook.
func conversionBy(hook *httptest.Server) string {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hook.Certificate().Raw})
	return fmt.Sprintf(`{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],"clientConfig":{"url":%q,"caBundle":%q}}}`,
		hook.URL+"/convert", base64.StdEncoding.EncodeToString(ca))
}

// pack packs a directory as tar.gz.
func pack(t *testing.T, dir string) []byte {
	t.Helper()
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(z)
	err = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || path == dir || !d.IsDir() && !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		h := &tar.Header{Name: filepath.ToSlash(name), Mode: int64(info.Mode().Perm()), Typeflag: tar.TypeDir}
		if d.IsDir() {
			return w.WriteHeader(h)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		h.Typeflag, h.Size = tar.TypeReg, int64(len(text))
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		_, err = w.Write(text)
		return err
	})
	for _, err := range []error{err, w.Close(), z.Close()} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes()
}

// gunzip returns the content of a gzip file.
func gunzip(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if text, err = io.ReadAll(z); err != nil {
		t.Fatal(err)
	}
	return text
}
