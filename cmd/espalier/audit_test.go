package main

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/proto"
	"sigs.k8s.io/yaml"

	"espalier.dev/server/encryption"
)

// writeSnapshot writes a snapshot of an etcd with the given values.
func writeSnapshot(t testing.TB, path string, values map[string][]byte) {
	t.Helper()
	db, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bolt.Tx) error {
		keys, err := tx.CreateBucket([]byte("key"))
		if err != nil {
			return err
		}
		if _, err := tx.CreateBucket([]byte("meta")); err != nil {
			return err
		}
		for i, key := range slices.Sorted(maps.Keys(values)) {
			revision := append(binary.BigEndian.AppendUint64(nil, uint64(i+2)), '_')
			revision = binary.BigEndian.AppendUint64(revision, 0)
			message, err := proto.Marshal(&mvccpb.KeyValue{Key: []byte(key), Value: values[key], Version: 1, CreateRevision: int64(i + 2), ModRevision: int64(i + 2)})
			if err != nil {
				return err
			}
			if err := keys.Put(revision, message); err != nil {
				return err
			}
		}
		return nil
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(data)
	if err := os.WriteFile(path, append(data, sum[:]...), 0o600); err != nil {
		t.Fatal(err)
	}
}

// storedManifests returns manifests as etcd stores them. files has the file of each key below
// /registry.
func storedManifests(t testing.TB, dir string, files map[string]string) map[string][]byte {
	t.Helper()
	values := map[string][]byte{}
	for key, file := range files {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err == nil {
			text, err = yaml.YAMLToJSON(text)
		}
		if err != nil {
			t.Fatal(err)
		}
		values["/registry/"+key] = text
	}
	return values
}

// encryptionConfig writes a configuration that encrypts everything with a key of one byte,
// repeated.
func encryptionConfig(t *testing.T, key string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "encryption.yaml")
	writeFile(t, path, fmt.Appendf(nil, `
apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
- resources: ["*.*"]
  providers:
  - aesgcm: {keys: [{name: key, secret: %s}]}
  - identity: {}
`, base64.StdEncoding.EncodeToString([]byte(strings.Repeat(key, 32)))))
	return path
}

// TestAuditEncrypted audits a snapshot whose objects are encrypted.
func TestAuditEncrypted(t *testing.T) {
	t.Parallel()
	config := encryptionConfig(t, "a")
	e, err := encryption.Open(t.Context(), encryption.Config{File: config, Root: "/registry/"})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	const object, definition = "/registry/stable.example.com/crontabs/default/", "/registry/apiextensions.k8s.io/customresourcedefinitions/crontabs.stable.example.com"
	plain := storedManifests(t, "testdata/examples", map[string]string{
		strings.TrimPrefix(definition, "/registry/"): "crontab-crd.yaml", "stable.example.com/crontabs/default/a": "crontab-typo.yaml",
	})
	plain[object+"b"] = plain[object+"a"]
	values := map[string][]byte{}
	for key, value := range plain {
		if values[key], err = e.ToStorage(t.Context(), key, value); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), "snapshot.db")
	writeSnapshot(t, path, values)
	onlyObjects := filepath.Join(t.TempDir(), "snapshot.db")
	values[definition] = plain[definition]
	writeSnapshot(t, onlyObjects, values)
	for _, tc := range []struct {
		name string
		args []string
		code int
		want []string
	}{
		{"with the key", []string{"--snapshot", path, "--encryption-provider-config", config}, 1, []string{"stored-unspecified", `"objects":2`}},
		{"without a key", []string{"--snapshot", path}, 2, []string{ruleEncrypted, definition, "set --encryption-provider-config"}},
		{"objects without a key", []string{"--snapshot", onlyObjects}, 2, []string{ruleEncrypted, object + "a", "and 1 more object", "set --encryption-provider-config"}},
		{"with another key", []string{"--snapshot", onlyObjects, "--encryption-provider-config", encryptionConfig(t, "b")}, 2, []string{ruleEncrypted, object + "a"}},
	} {
		code, text, _ := runAudit(t, tc.args...)
		for _, want := range tc.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s: the report lacks %q: %s", tc.name, want, text)
			}
		}
		if code != tc.code {
			t.Errorf("%s: exit code %d, want %d", tc.name, code, tc.code)
		}
	}
}

// TestAuditFailingCluster audits a cluster whose API fails for some resources, or altogether.
func TestAuditFailingCluster(t *testing.T) {
	t.Parallel()
	crd := func(plural string) string {
		return fmt.Sprintf(`{"metadata":{"name":"%[1]s.example.com"},"spec":{"group":"example.com","names":{"plural":%[1]q,"singular":"x","kind":%[1]q,"listKind":"XList"},"scope":"Cluster",
			"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"integer"}}}}}]}}`, plural)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fail := func(code int, reason string) {
			w.WriteHeader(code)
			fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d,"reason":%q,"message":"a test"}`, code, reason)
		}
		switch {
		case strings.HasSuffix(r.URL.Path, "/customresourcedefinitions"):
			fmt.Fprintf(w, `{"items":[%s,%s,%s,%s]}`, crd("vanished"), crd("forbidden"), crd("failing"), crd("good"))
		case strings.HasSuffix(r.URL.Path, "/vanished"), strings.HasPrefix(r.URL.Path, "/apis/inspect.espalier.dev/"):
			fail(404, "NotFound")
		case strings.HasSuffix(r.URL.Path, "/forbidden"):
			fail(403, "Forbidden")
		case strings.HasSuffix(r.URL.Path, "/failing"):
			fail(500, "InternalError")
		default:
			fmt.Fprint(w, `{"items":[{"apiVersion":"example.com/v1","kind":"good","metadata":{"name":"a"},"spec":"text"}]}`)
		}
	}))
	defer server.Close()
	kubeconfig := writeKubeconfig(t, server.URL)
	code, text, r := runAudit(t, "--kubeconfig", kubeconfig)
	if code != 2 || r.Summary.Failures != 3 || r.Summary.Objects != 1 {
		t.Errorf("exit code %d: %s", code, text)
	}
	for _, rule := range []string{ruleNotServed, ruleForbidden, ruleNotListed, "stored-contradiction", ruleServed} {
		if !strings.Contains(text, `"rule":"`+rule+`"`) {
			t.Errorf("the report lacks %s: %s", rule, text)
		}
	}
	server.Close()
	code, text, r = runAudit(t, "--kubeconfig", kubeconfig)
	if code != 2 || r.Summary.Failures != 1 || !strings.Contains(text, "list the CRDs") {
		t.Errorf("closed: exit code %d: %s", code, text)
	}
}

// TestAuditInspectedCluster audits a server that tells what it has found in its stored objects.
func TestAuditInspectedCluster(t *testing.T) {
	t.Parallel()
	const definition = `{"metadata":{"name":"jobs.example.com"},"spec":{"group":"example.com","names":{"plural":"jobs","singular":"job","kind":"Job","listKind":"JobList"},"scope":"Namespaced",
		"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{"steps":{"type":"array","items":{"type":"object"}}}}}}}}]}}`
	item := func(name, path string) string {
		return fmt.Sprintf(`{"metadata":{"name":"jobs.example.com:%[1]s","namespace":"team"},"crd":"jobs.example.com","object":{"kind":"Job","namespace":"team","name":%[1]q},
			"problems":[{"reason":"Unspecified","path":%[2]q,"version":"v1","message":"version v1 does not specify this field"},{"reason":"OtherVersion","version":"v1","message":"stored in v0"}]}`, name, path)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/customresourcedefinitions"):
			fmt.Fprintf(w, `{"items":[%s]}`, definition)
		case strings.HasSuffix(r.URL.Path, "/noncompliantobjects") && r.URL.Query().Get("continue") == "":
			if r.URL.Query().Get("fieldSelector") != "crd=jobs.example.com" {
				t.Errorf("got %s", r.URL)
			}
			fmt.Fprintf(w, `{"metadata":{"continue":"x"},"items":[%s]}`, item("b", "spec.steps[3].x"))
		case strings.HasSuffix(r.URL.Path, "/noncompliantobjects"):
			fmt.Fprintf(w, `{"items":[%s]}`, item("a", "spec.steps[0].x"))
		default:
			if r.URL.Query().Get("continue") != "" {
				fmt.Fprint(w, `{"items":[]}`)
				return
			}
			fmt.Fprint(w, `{"metadata":{"remainingItemCount":41,"continue":"x"},"items":[{"apiVersion":"example.com/v1","kind":"Job","metadata":{"name":"a","namespace":"team"}}]}`)
		}
	}))
	defer server.Close()
	code, text, r := runAudit(t, "--kubeconfig", writeKubeconfig(t, server.URL))
	if code != 0 || len(r.Findings) != 2 || r.Summary.Objects != 42 || r.Summary.NonCompliant != 2 || r.Summary.Unspecified != 2 {
		t.Fatalf("exit code %d: %s", code, text)
	}
	f := r.Findings[0]
	if f.Path != "spec.steps[*].x" || f.Rule != "stored-unspecified" || f.Affected.Objects != 2 || f.Affected.Examples[0].Where != "/apis/example.com/v1/namespaces/team/jobs/a" {
		t.Errorf("got %s", text)
	}
	// With other CRDs, the objects themselves are inspected.
	crd := filepath.Join(t.TempDir(), "crd.yaml")
	writeFile(t, crd, []byte(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",`+definition[1:]))
	if code, text, _ := runAudit(t, "--kubeconfig", writeKubeconfig(t, server.URL), "--crd", crd); !strings.Contains(text, ruleServed) {
		t.Errorf("exit code %d: %s", code, text)
	}
}

// writeKubeconfig writes a kubeconfig for a server.
func writeKubeconfig(t *testing.T, url string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	writeFile(t, path, fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Config","clusters":[{"name":"c","cluster":{"server":%q}}],"contexts":[{"name":"x","context":{"cluster":"c"}}],"current-context":"x"}`, url))
	return path
}
