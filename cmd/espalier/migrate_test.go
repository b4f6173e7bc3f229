package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"espalier.dev/espaliertest"
)

// migrationCRD returns a CRD whose storage version is v1 or v2.
func migrationCRD(storage string) []byte {
	version := func(name string) string {
		return fmt.Sprintf(`{"name":%q,"served":true,"storage":%t,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{"n":{"type":"integer"}}}}}}}`, name, name == storage)
	}
	return []byte(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"jobs.example.com"},"spec":{"group":"example.com",
		"names":{"kind":"Job","plural":"jobs"},"scope":"Namespaced","versions":[` + version("v1") + "," + version("v2") + `]}}`)
}

// runMigrate runs migrate against a server.
func runMigrate(t *testing.T, s *espaliertest.Server, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, err bytes.Buffer
	a := &app{program: "espalier", stdin: strings.NewReader(""), stdout: &out, stderr: &err, environ: func(string) (string, bool) { return "", false }}
	code = a.run(t.Context(), append([]string{"migrate", "--kubeconfig", s.Kubeconfig(), "--rate", "0"}, args...))
	return out.String(), err.String(), code
}

func TestMigrateOutput(t *testing.T) {
	t.Parallel()
	s := espaliertest.Start(t, espaliertest.WithCRDs(migrationCRD("v1")))
	client, err := dynamic.NewForConfig(s.Config())
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		job := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Job",
			"metadata": map[string]any{"name": fmt.Sprintf("job-%d", i)}, "spec": map[string]any{"n": int64(i)}}}
		if _, err := client.Resource(runtimeschema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "jobs"}).Namespace("default").Create(t.Context(), job, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	s.InstallCRDs(t, migrationCRD("v2"))

	stdout, stderr, code := runMigrate(t, s, "jobs.example.com")
	if stdout != "jobs.example.com: 3 objects: 3 would be accepted\n" || !strings.Contains(stderr, "nothing was written") || !strings.Contains(stderr, "not visible") || code != 0 {
		t.Errorf("a dry run prints %q and %q, and exits with %d", stdout, stderr, code)
	}
	backup := filepath.Join(t.TempDir(), "backup.jsonl")
	stdout, stderr, code = runMigrate(t, s, "jobs.example.com", "--write", "--backup", backup, "-o", "json")
	var report struct {
		Objects []migratedObject `json:"objects"`
		CRDs    []migratedCRD    `json:"crds"`
	}
	if err := json.Unmarshal([]byte(stdout), &report); err != nil || code != 0 || stderr != "" {
		t.Fatalf("%v in %s\nstderr: %s\nexit code %d", err, stdout, stderr, code)
	}
	if len(report.Objects) != 3 || report.Objects[1].Name != "job-1" || report.Objects[1].Result != "rewritten" || len(report.CRDs) != 1 || !report.CRDs[0].Complete {
		t.Errorf("the report is %s", stdout)
	}
	stdout, stderr, code = runMigrate(t, s, "--all", "--write", "--backup", backup)
	if stdout != "jobs.example.com: 3 objects: 3 written before; all are stored in version v2\n" || stderr != "" || code != 0 {
		t.Errorf("a second migration prints %q and %q, and exits with %d", stdout, stderr, code)
	}
	stdout, _, code = runMigrate(t, s, "--all", "--write", "-o", "yaml")
	if err := yaml.UnmarshalStrict([]byte(stdout), &report); err != nil || code != 0 || report.CRDs[0].Results["unchanged"] != 3 {
		t.Errorf("%v in %s\nexit code %d", err, stdout, code)
	}
	for _, c := range []struct{ args, want string }{
		{"", "migrate needs the name of a CRD"},
		{"jobs.example.com --all", "exclude each other"},
		{"jobs.example.com --backup f", "--backup needs --write"},
		{"jobs.example.com --rate -1", "must not be negative"},
		{"jobs.example.com --concurrency 0", "must be at least 1"},
		{"jobs.example.com -o xml", "must be text, json or yaml"},
		{"crontabs.example.com", "cannot read the CRD crontabs.example.com"},
		{"jobs.example.com --context other", "cannot read the kubeconfig"},
	} {
		if stdout, stderr, code := runMigrate(t, s, strings.Fields(c.args)...); code != 2 || !strings.Contains(stderr, c.want) {
			t.Errorf("migrate %s prints %q and %q, and exits with %d, want %q", c.args, stdout, stderr, code, c.want)
		}
	}
}
