package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"espalier.dev/espaliertest"
	"espalier.dev/schema"
)

// TestAuditServer audits a server of Espalier through its API. It finds the same groups as the
// audit of its etcd, also what the API hides.
func TestAuditServer(t *testing.T) {
	t.Parallel()
	e := newAuditedServer(t, espaliertest.WithSemantics(schema.KEP))
	e.InstallCRDs(t, []byte(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"jobs.example.com"},"spec":{"group":"example.com",
		"names":{"plural":"jobs","singular":"job","kind":"Job","listKind":"JobList"},"scope":"Namespaced","versions":[
		{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{"steps":{"type":"array","items":{"type":"object","properties":{"n":{"type":"integer"}}}}}}}}}}]}}`))
	jobs := dynamic.NewForConfigOrDie(e.Config()).Resource(runtimeschema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "jobs"}).Namespace("team")
	for i := range 70 {
		name := fmt.Sprintf("job-%d", i)
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Job", "metadata": map[string]any{"name": name}, "spec": map[string]any{"steps": []any{map[string]any{"n": int64(i)}}}}}
		if _, err := jobs.Create(t.Context(), o, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		key := "/registry/example.com/jobs/team/" + name
		resp, err := e.etcd.Get(t.Context(), key)
		if err != nil || len(resp.Kvs) != 1 {
			t.Fatal(resp, err)
		}
		value := string(resp.Kvs[0].Value)
		switch i % 7 {
		case 0:
			value = strings.Replace(value, `{"n":`, `{"hidden":true,"n":`, 1)
		case 1:
			value = strings.Replace(value, "example.com/v1", "example.com/v0", 1)
		case 2:
			value = strings.Replace(value, `{"n":`, `{"n":"text","n":`, 1)
		default:
			continue
		}
		if _, err := e.etcd.Put(t.Context(), key, value); err != nil {
			t.Fatal(err)
		}
	}
	groups := func(r auditReport) (lines string) {
		for _, f := range r.Findings {
			if f.Affected != nil {
				lines += fmt.Sprintln(f.Rule, f.Path, f.Affected.Objects, f.Affected.Examples[0].Name)
			}
		}
		return lines
	}
	_, _, want := runAudit(t, "--etcd-servers", e.endpoint)
	if len(want.Findings) != 3 || want.Summary.Objects != 70 || want.Summary.NonCompliant != 30 {
		t.Fatalf("etcd: got %+v", want)
	}
	// The server takes in what others write to etcd after a moment.
	var got auditReport
	text := ""
	for range 100 {
		if _, text, got = runAudit(t, "--kubeconfig", e.Kubeconfig()); got.Summary == want.Summary {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	if got.Summary != want.Summary || groups(got) != groups(want) {
		t.Errorf("got\n%s\nwant\n%s\n%s", groups(got), groups(want), text)
	}
}
