package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"espalier.dev/espaliertest"
)

// counterCRD has rules that compare with the object before an update.
const counterCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: counters.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: counters, singular: counter, kind: Counter, listKind: CounterList}
  versions:
  - name: v1
    served: true
    storage: true
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              count: {type: integer, x-kubernetes-validations: [{rule: self >= oldSelf}]}
              replicas: {type: integer, x-kubernetes-validations: [{rule: self >= oldSelf}]}
          status:
            type: object
            properties:
              seen: {type: integer, x-kubernetes-validations: [{rule: self >= oldSelf}]}
              replicas: {type: integer}
`

// TestRecordServer replays the audit log of a server with the CRD that the server has: the
// answers are the same, whatever the audit policy leaves out of the log.
func TestRecordServer(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, rules string
		// unknown is the number of updates without the object before them, or -1.
		unknown int
	}{
		{"RequestResponse", "- level: RequestResponse\n", 2}, // those after the scale subresource
		{"Request", "- level: Request\n", -1},
		{"without status", "- {level: None, resources: [{group: example.com, resources: [counters/status, counters/scale]}]}\n- level: RequestResponse\n", -1},
		{"without patches", "- {level: None, verbs: [patch]}\n- level: RequestResponse\n", -1},
		{"without deletions", "- {level: None, verbs: [delete, deletecollection]}\n- level: RequestResponse\n", -1},
		{"without creations", "- {level: Metadata, verbs: [create]}\n- level: RequestResponse\n", -1},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			policy, log, crd := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "audit.log"), filepath.Join(dir, "crd.yaml")
			writeFile(t, policy, []byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules:\n"+test.rules))
			writeFile(t, crd, []byte(counterCRD))
			s := espaliertest.Start(t, espaliertest.WithCRDs([]byte(counterCRD)), espaliertest.WithFlags("--audit-policy-file", policy, "--audit-log-path", log))
			writeCounters(t, s)
			if err := s.Stop(); err != nil {
				t.Fatal(err)
			}
			out, code := runApp(t, "record", "--crd", crd, "--semantics", "kubernetes", log)
			if code != 0 || strings.Contains(out, "replay-") || !strings.Contains(out, " requests") {
				t.Errorf("record exits with %d: %s", code, out)
			}
			if test.unknown >= 0 && !strings.Contains(out, fmt.Sprintf("%s: %d\n", skipUnknownOld, test.unknown)) {
				t.Errorf("record prints %s", out)
			}
			// Without a finding here, nothing was tested.
			writeFile(t, crd, []byte(strings.Replace(counterCRD, "count: {type: integer,", "count: {type: integer, maximum: 6,", 1)))
			if out, code = runApp(t, "record", "--crd", crd, "--semantics", "kubernetes", log); code != 1 || !strings.Contains(out, "should be less than or equal to 6") {
				t.Errorf("record with another CRD exits with %d: %s", code, out)
			}
			if t.Failed() {
				text, _ := os.ReadFile(log)
				for i, line := range strings.Split(string(text), "\n") {
					if strings.Contains(line, "example.com/v1/") {
						t.Logf("%d: %s", i+1, line)
					}
				}
			}
		})
	}
}

// writeCounters writes counters in all ways that clients do.
func writeCounters(t *testing.T, s *espaliertest.Server) {
	t.Helper()
	client, err := dynamic.NewForConfig(s.Config())
	if err != nil {
		t.Fatal(err)
	}
	counters := client.Resource(runtimeschema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "counters"}).Namespace("default")
	counter := func(name string, n int) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Counter",
			"metadata": map[string]any{"name": name}, "spec": map[string]any{"count": int64(n), "replicas": int64(n)}}}
	}
	must := func(obj *unstructured.Unstructured, err error) *unstructured.Unstructured {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return obj
	}
	fails := func(code int) func(*unstructured.Unstructured, error) {
		return func(obj *unstructured.Unstructured, err error) {
			t.Helper()
			if status := (apierrors.APIStatus)(nil); err == nil || !asStatus(err, &status) || int(status.Status().Code) != code {
				t.Fatalf("want code %d, got %v", code, err)
			}
		}
	}
	get := func(name string) *unstructured.Unstructured {
		t.Helper()
		return must(counters.Get(t.Context(), name, metav1.GetOptions{}))
	}
	with := func(obj *unstructured.Unstructured, value any, path ...string) *unstructured.Unstructured {
		t.Helper()
		obj = obj.DeepCopy()
		if err := unstructured.SetNestedField(obj.Object, value, path...); err != nil {
			t.Fatal(err)
		}
		return obj
	}
	create := func(obj *unstructured.Unstructured) *unstructured.Unstructured {
		t.Helper()
		return must(counters.Create(t.Context(), obj, metav1.CreateOptions{}))
	}
	update := func(obj *unstructured.Unstructured, n int) (*unstructured.Unstructured, error) {
		t.Helper()
		return counters.Update(t.Context(), with(obj, int64(n), "spec", "count"), metav1.UpdateOptions{})
	}
	patch := func(kind types.PatchType, name, text string, subresources ...string) *unstructured.Unstructured {
		t.Helper()
		return must(counters.Patch(t.Context(), name, kind, []byte(text), metav1.PatchOptions{}, subresources...))
	}
	force := metav1.ApplyOptions{FieldManager: "test", Force: true}

	first := create(counter("a", 1))
	patch(types.MergePatchType, "a", `{"spec":{"count":2}}`)
	must(counters.UpdateStatus(t.Context(), with(get("a"), int64(1), "status", "seen"), metav1.UpdateOptions{}))
	must(update(get("a"), 3))
	patch(types.MergePatchType, "a", `{"status":{"seen":2}}`, "status")
	must(update(get("a"), 4))
	must(counters.Apply(t.Context(), "a", counter("a", 5), force))
	patch(types.JSONPatchType, "a", `[{"op":"replace","path":"/spec/count","value":6}]`)
	must(update(get("a"), 7))
	fails(http.StatusConflict)(update(first, 8))
	fails(http.StatusUnprocessableEntity)(update(get("a"), 1))
	fails(http.StatusUnprocessableEntity)(counters.Update(t.Context(), counter("a", 8), metav1.UpdateOptions{}))
	fails(http.StatusBadRequest)(counters.Create(t.Context(), with(counter("c", 1), int64(1), "spec", "typo"), metav1.CreateOptions{FieldValidation: "Strict"}))

	// A dry run changes nothing.
	must(counters.Update(t.Context(), with(get("a"), int64(100), "spec", "count"), metav1.UpdateOptions{DryRun: []string{"All"}}))
	must(update(get("a"), 8))
	// The scale subresource changes the spec.
	patch(types.MergePatchType, "a", `{"spec":{"replicas":20}}`, "scale")
	fails(http.StatusUnprocessableEntity)(counters.Update(t.Context(), with(get("a"), int64(10), "spec", "replicas"), metav1.UpdateOptions{}))
	// A deleted object that waits for finalizers, and another one of the same name.
	patch(types.MergePatchType, "a", `{"metadata":{"finalizers":["example.com/wait"]}}`)
	if err := counters.Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	patch(types.MergePatchType, "a", `{"metadata":{"finalizers":null}}`)
	must(counters.Apply(t.Context(), "a", counter("a", 1), force))
	must(update(get("a"), 2))
	// Smaller counters of the same name, and one that server-side apply creates.
	if err := counters.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	create(counter("a", 0))
	must(update(get("a"), 1))
	must(counters.Apply(t.Context(), "b", counter("b", 0), force))
	patch(types.MergePatchType, "b", `{"spec":{"count":9}}`)

	named := counter("", 1)
	named.SetGenerateName("c-")
	name := create(named).GetName()
	patch(types.MergePatchType, name, `{"spec":{"count":2}}`)
	for i := range 5 {
		must(update(get(name), i+3))
	}
	create(counter("d", 50))
	patch(types.MergePatchType, "d", `{"spec":{"count":51}}`)
	must(update(get("d"), 52))
	must(update(get("d"), 53))
	if got := get(name).Object["spec"]; fmt.Sprint(got) != "map[count:7 replicas:1]" {
		t.Fatalf("the last counter has %v", got)
	}
}

// asStatus sets status to the status of an API server's error.
func asStatus(err error, status *apierrors.APIStatus) (ok bool) {
	*status, ok = err.(apierrors.APIStatus)
	return ok
}
