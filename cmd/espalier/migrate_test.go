package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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

// preservingCRD returns the CRD before it prunes.
func preservingCRD() []byte {
	return bytes.Replace(migrationCRD("v1"), []byte(`"spec":{"type":"object"`), []byte(`"spec":{"type":"object","x-kubernetes-preserve-unknown-fields":true`), 1)
}

// runMigrate runs migrate against a server.
func runMigrate(t *testing.T, s *espaliertest.Server, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, err bytes.Buffer
	a := newApp(strings.NewReader(""), &out, &err)
	code = a.run(t.Context(), append([]string{"migrate", "--kubeconfig", s.Kubeconfig(), "--rate", "0"}, args...))
	return out.String(), err.String(), code
}

// TestMigrate switches pruning on for a CRD with stored objects, and migrates them.
func TestMigrate(t *testing.T) {
	t.Parallel()
	t.Run("P-21", func(t *testing.T) {
		c := newStoredCluster(t, preservingCRD())
		for i := range 5 {
			spec := map[string]any{"n": int64(i)}
			if i%2 == 0 {
				spec["privileged"] = true
			}
			if err := c.create(t.Context(), fmt.Sprintf("job-%d", i), spec); err != nil {
				t.Fatal(err)
			}
		}
		pruning := migrationCRD("v1")
		c.InstallCRDs(t, pruning)
		privileged := func() (n int) {
			stored, err := c.etcd.Get(t.Context(), "/registry/example.com/jobs/", clientv3.WithPrefix())
			if err != nil || len(stored.Kvs) != 5 {
				t.Fatalf("%v, %v", stored, err)
			}
			for _, kv := range stored.Kvs {
				if bytes.Contains(kv.Value, []byte(`"privileged":true`)) {
					n++
				}
			}
			return n
		}
		if n := privileged(); n != 3 {
			t.Fatalf("%d objects are stored with the field before the migration", n)
		}

		// The dry run says what would be dropped.
		backup := filepath.Join(t.TempDir(), "backup.jsonl")
		stdout, stderr, code := runMigrate(t, c.Server, "jobs.example.com", "--etcd-servers", c.endpoint)
		if code != 0 || strings.Count(stdout, "\n-  privileged: true\n") != 3 || !strings.Contains(stdout, "--- stored/jobs.example.com/default/job-2\n") ||
			!strings.HasSuffix(stdout, "jobs.example.com: 5 objects: 3 to be rewritten, 2 unchanged; 3 fields to be dropped from 3 objects\n") || stderr != "nothing was written: add --write to migrate\n" || privileged() != 3 {
			t.Errorf("the dry run exits with %d: %s%s", code, stdout, stderr)
		}

		// The migration is killed, and continues where it was.
		writes := c.etcd.Watch(t.Context(), "/registry/example.com/jobs/", clientv3.WithPrefix())
		p := startProcess(t, nil, "migrate", "jobs.example.com", "--kubeconfig", c.Kubeconfig(), "--etcd-servers", c.endpoint, "--write", "--backup", backup, "--rate", "1", "--concurrency", "1")
		select {
		case <-writes:
		case <-p.exited:
			t.Fatalf("the migration ends with %s", &p.stderr)
		case <-time.After(time.Minute):
			t.Fatal("nothing is migrated")
		}
		if err := p.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		p.exit(t)
		if n := privileged(); n == 0 || n == 3 {
			t.Fatalf("the killed migration has left %d objects", n)
		}
		stdout, stderr, code = runMigrate(t, c.Server, "jobs.example.com", "--etcd-servers", c.endpoint, "--write", "--backup", backup)
		if code != 0 || stderr != "" || !strings.HasSuffix(stdout, "; 3 fields dropped from 3 objects; all are stored in version v1\n") || privileged() != 0 {
			t.Errorf("the migration exits with %d: %s%s", code, stdout, stderr)
		}

		// Programs can read the output.
		stdout, _, code = runMigrate(t, c.Server, "jobs.example.com", "-o", "yaml")
		var report struct {
			Objects []migratedObject `json:"objects"`
			CRDs    []migratedCRD    `json:"crds"`
		}
		if err := yaml.UnmarshalStrict([]byte(stdout), &report); err != nil || code != 0 || len(report.CRDs) != 1 || report.CRDs[0].Objects != 5 {
			t.Errorf("%v in %s\nexit code %d", err, stdout, code)
		}

		// An undo cannot put the fields back yet.
		stdout, stderr, code = runMigrate(t, c.Server, "--undo", backup, "--write")
		if code != 1 || stderr != "" || !strings.Contains(stdout, "the CRD does not specify them: spec.privileged\n") || !strings.Contains(stdout, "not all fields of 3 objects") || privileged() != 0 {
			t.Errorf("the undo with the pruning CRD exits with %d: %s%s", code, stdout, stderr)
		}

		// Nothing comes back when the schema specifies the field.
		c.InstallCRDs(t, bytes.ReplaceAll(pruning, []byte(`"n":`), []byte(`"privileged":{"type":"boolean"},"n":`)))
		list, err := c.jobs.Namespace("default").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range list.Items {
			if _, found, _ := unstructured.NestedBool(o.Object, "spec", "privileged"); found {
				t.Errorf("%s has the field again", o.GetName())
			}
		}

		// Unless it is put back on request: without --write, the undo is a dry run.
		stdout, stderr, code = runMigrate(t, c.Server, "--undo", backup)
		if code != 0 || stdout != "3 would be put back\n" || stderr != "nothing was written: add --write to put the objects back\n" || privileged() != 0 {
			t.Errorf("the dry run of the undo exits with %d: %s%s", code, stdout, stderr)
		}
		stdout, stderr, code = runMigrate(t, c.Server, "--undo", backup, "--write")
		if code != 0 || stdout != "3 put back\n" || stderr != "" || privileged() != 3 {
			t.Errorf("the undo exits with %d: %s%s", code, stdout, stderr)
		}
		stdout, _, code = runMigrate(t, c.Server, "--undo", backup, "--write", "-o", "json")
		if code != 0 || !json.Valid([]byte(stdout)) || !strings.Contains(stdout, `"objects": []`) {
			t.Errorf("the second undo exits with %d: %s", code, stdout)
		}
	})
}
