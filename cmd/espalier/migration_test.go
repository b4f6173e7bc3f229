package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"espalier.dev/cmd/espalier/internal/migrate"
	"espalier.dev/cmd/espalier/internal/source"
	"espalier.dev/espaliertest"
	"espalier.dev/schema"
)

// jobsCluster is a server with jobs.
type jobsCluster struct {
	*testing.T
	server *etcdServer
	http   *http.Client
	sem    schema.Semantics
}

func newJobsCluster(t *testing.T, sem schema.Semantics) *jobsCluster {
	t.Helper()
	s := newEtcdServer(t, espaliertest.WithSemantics(sem))
	h, err := rest.HTTPClientFor(s.Config())
	if err != nil {
		t.Fatal(err)
	}
	return &jobsCluster{t, s, h, sem}
}

// request sends a request and returns the answer.
func (c *jobsCluster) request(method, path, body string) (int, string) {
	c.Helper()
	code, text, _, err := request(c.Context(), c.http, method, c.server.URL()+path, []byte(body))
	if err != nil {
		c.Fatal(err)
	}
	return code, string(text)
}

// must sends a request that succeeds.
func (c *jobsCluster) must(method, path, body string) string {
	c.Helper()
	code, text := c.request(method, path, body)
	if code >= 300 {
		c.Fatalf("%s %s: %d: %s", method, path, code, text)
	}
	return text
}

const (
	crdsPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	jobsPath = "/apis/example.com/v1/namespaces/default/jobs"
	jobsName = "jobs.example.com"
)

// versionedJobs returns a CRD with the versions.
func versionedJobs(versions ...string) string {
	return `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"jobs.example.com"},"spec":{"group":"example.com",
		"names":{"kind":"Job","plural":"jobs"},"scope":"Namespaced","versions":[` + strings.Join(versions, ",") + `]}}`
}

// jobsVersion returns a version with the properties of spec and status.
func jobsVersion(name string, storage bool, spec string) string {
	return fmt.Sprintf(`{"name":%q,"served":true,"storage":%t,"subresources":{"status":{}},"schema":{"openAPIV3Schema":{"type":"object","properties":{
		"spec":{"type":"object","properties":{%s}},"status":{"type":"object","properties":{"phase":{"type":"string"}}}}}}}`, name, storage, spec)
}

// apply creates or replaces the CRD, and waits until it is served.
func (c *jobsCluster) apply(crd string) {
	c.Helper()
	c.server.InstallCRDs(c.T, []byte(crd))
}

// jobKey returns the key of a job.
func jobKey(name string) string { return "/registry/example.com/jobs/default/" + name }

// store puts a text into etcd and waits until the server has it.
func (c *jobsCluster) store(name, text string) {
	c.Helper()
	put, err := c.server.etcd.Put(c.Context(), jobKey(name), text)
	if err != nil {
		c.Fatal(err)
	}
	// The server answers when it has read that.
	c.must(http.MethodGet, fmt.Sprintf("%s?limit=1&resourceVersionMatch=NotOlderThan&resourceVersion=%d", jobsPath, put.Header.Revision), "")
}

// stored returns the text in etcd and its revision.
func (c *jobsCluster) stored(name string) (string, int64) {
	c.Helper()
	got, err := c.server.etcd.Get(c.Context(), jobKey(name))
	if err != nil {
		c.Fatal(err)
	}
	if len(got.Kvs) == 0 {
		return "", 0
	}
	return string(got.Kvs[0].Value), got.Kvs[0].ModRevision
}

func (c *jobsCluster) client() *migrate.Client {
	c.Helper()
	client, err := migrate.NewClient(c.server.Config())
	if err != nil {
		c.Fatal(err)
	}
	return client
}

// source returns the objects in etcd.
func (c *jobsCluster) source() source.Source {
	c.Helper()
	s, err := source.OpenEtcd(c.Context(), source.Etcd{Endpoints: source.Endpoints{URLs: c.server.etcd.Endpoints()}, Prefix: "/registry"})
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(func() { _ = s.Close() })
	return s
}

// migrate migrates the jobs and returns the outcomes by name.
func (c *jobsCluster) migrate(m migrate.Migration) (map[string]*migrate.Outcome, *migrate.Counts) {
	c.Helper()
	m.Client, m.Semantics = c.client(), c.sem
	outcomes := map[string]*migrate.Outcome{}
	m.Report = func(o *migrate.Outcome) error {
		outcomes[o.Object.Name] = o
		return nil
	}
	r, err := m.Client.Resource(c.Context(), jobsName)
	if err != nil {
		c.Fatal(err)
	}
	counts, err := m.Run(c.Context(), r)
	if err != nil {
		c.Fatal(err)
	}
	return outcomes, counts
}

// decodeObject returns the tree of a JSON text.
func decodeObject(t testing.TB, text string) map[string]any {
	t.Helper()
	var tree map[string]any
	if err := json.Unmarshal([]byte(text), &tree); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return tree
}
