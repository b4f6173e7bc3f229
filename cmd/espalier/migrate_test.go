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
	if stdout != "jobs.example.com: 3 objects: 3 would be accepted\n" || !strings.Contains(stderr, "nothing was written") || !strings.Contains(stderr, "--etcd-servers") || code != 0 {
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
		{"jobs.example.com --context other", "kubeconfig"},
		{"jobs.example.com --undo f", "--undo takes everything from the backup"},
		{"jobs.example.com --recreate", "--recreate needs --undo"},
		{"jobs.example.com --write --dry-run", "exclude each other"},
		{"jobs.example.com --snapshot f --etcd-servers http://127.0.0.1:1", "exclude each other"},
		{"jobs.example.com --snapshot none.db", "none.db"},
		{"jobs.example.com --snapshot none.db --etcd-prefix /", "--etcd-prefix must not be empty"},
		{"crontabs.example.com --write", "cannot read the CRD crontabs.example.com"},
		{"--undo none.jsonl", "none.jsonl"},
	} {
		if stdout, stderr, code := runMigrate(t, s, strings.Fields(c.args)...); code != 2 || !strings.Contains(stderr, c.want) || stdout != "" || strings.Contains(stderr, "again") {
			t.Errorf("migrate %s prints %q and %q, and exits with %d, want %q", c.args, stdout, stderr, code, c.want)
		}
	}
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
