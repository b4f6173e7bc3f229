package definitions_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"espalier.dev/server/servertest"
)

// TestUnreadableSchema replaces a CRD in etcd with one whose schema cannot be decoded, as a
// newer server may write it. Its objects answer 503, and nothing overwrites its spec.
func TestUnreadableSchema(t *testing.T) {
	t.Parallel()
	const (
		crds   = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
		name   = "bads.unreadable.example.com"
		key    = "/registry/apiextensions.k8s.io/customresourcedefinitions/" + name
		object = "/apis/unreadable.example.com/v1/bads/a"
	)
	o := servertest.Options(t)
	s := servertest.Start(t, o)
	c, db := servertest.Client(t, s, nil), servertest.Etcd(t, o)
	must := func(code int, method, path, body string) string {
		t.Helper()
		got, text := servertest.Exchange(t, c, method, s.URL()+path, body)
		if got != code {
			t.Errorf("%s %s: %d instead of %d: %s", method, path, got, code, text)
		}
		return text
	}
	stored := func() map[string]any {
		t.Helper()
		found, err := db.Get(t.Context(), key)
		if err != nil || len(found.Kvs) != 1 {
			t.Fatal(found, err)
		}
		value := map[string]any{}
		if err := json.Unmarshal(found.Kvs[0].Value, &value); err != nil {
			t.Fatal(err)
		}
		return value
	}
	put := func(value map[string]any) {
		t.Helper()
		data, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.Put(t.Context(), key, string(data)); err != nil {
			t.Fatal(err)
		}
	}
	become := func(code int, path string) {
		t.Helper()
		servertest.Eventually(t, func() error {
			if got, text := servertest.Exchange(t, c, http.MethodGet, s.URL()+path, ""); got != code {
				return fmt.Errorf("GET %s: %d instead of %d: %s", path, got, code, text)
			}
			return nil
		})
	}
	unavailable := func() {
		t.Helper()
		become(http.StatusServiceUnavailable, object)
		var status metav1.Status
		if err := json.Unmarshal([]byte(must(http.StatusServiceUnavailable, http.MethodGet, object, "")), &status); err != nil {
			t.Fatal(err)
		}
		if status.Reason != metav1.StatusReasonServiceUnavailable || !strings.Contains(status.Message, key) {
			t.Errorf("the answer does not name the CRD: %+v", status)
		}
	}
	must(http.StatusCreated, http.MethodPost, crds, `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"`+name+`"},"spec":{"group":"unreadable.example.com","scope":"Cluster",
"names":{"plural":"bads","kind":"Bad"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`)
	must(http.StatusCreated, http.MethodPost, "/apis/unreadable.example.com/v1/bads", `{"apiVersion":"unreadable.example.com/v1","kind":"Bad","metadata":{"name":"a"}}`)
	readable := must(http.StatusOK, http.MethodGet, crds+"/"+name, "")
	good := stored()

	// The generation is the same, but the status is outdated.
	bad := stored()
	spec := bad["spec"].(map[string]any)
	spec["validation"].(map[string]any)["openAPIV3Schema"].(map[string]any)["description"] = 5
	delete(bad["status"].(map[string]any), "acceptedNames")
	put(bad)
	kept := func(after string) {
		t.Helper()
		want, _ := json.Marshal(spec)
		if got, _ := json.Marshal(stored()["spec"]); string(got) != string(want) {
			t.Errorf("the spec has changed after %s: %s\ninstead of %s", after, got, want)
		}
	}
	unavailable()
	kept("the reconciliation")
	for path, body := range map[string]string{"": `{"metadata":{"labels":{"a":"b"}}}`, "/status": `{"status":{"storedVersions":["v1"]}}`} {
		must(http.StatusServiceUnavailable, http.MethodPut, crds+"/"+name+path, withVersion(t, readable, must(http.StatusOK, http.MethodGet, crds+"/"+name, "")))
		kept("PUT " + path)
		must(http.StatusServiceUnavailable, http.MethodPatch, crds+"/"+name+path, body)
		kept("PATCH " + path)
	}
	bad["metadata"].(map[string]any)["finalizers"] = []string{"example.com/wait"}
	put(bad)
	servertest.Eventually(t, func() error { // a conflict until the server has the new value
		if got, text := servertest.Exchange(t, c, http.MethodDelete, s.URL()+crds+"/"+name, ""); got != http.StatusServiceUnavailable {
			return fmt.Errorf("DELETE: %d: %s", got, text)
		}
		return nil
	})
	kept("DELETE")

	// The generation is a new one.
	bad["metadata"].(map[string]any)["generation"] = 2
	put(bad)
	unavailable()
	kept("a new generation")

	// It can be repaired.
	put(good)
	become(http.StatusOK, object)
	if again := stored(); !reflect.DeepEqual(again["spec"], good["spec"]) {
		t.Errorf("the spec is %v after the repair", again["spec"])
	}

	// Its deletion deletes its objects.
	delete(bad["metadata"].(map[string]any), "finalizers")
	bad["metadata"].(map[string]any)["generation"] = 1
	put(bad)
	unavailable()
	must(http.StatusConflict, http.MethodDelete, crds+"/"+name, `{"preconditions":{"uid":"another"}}`)
	must(http.StatusOK, http.MethodDelete, crds+"/"+name+"?dryRun=All", "")
	if m := stored()["metadata"].(map[string]any); m["deletionTimestamp"] != nil {
		t.Errorf("deleted in spite of dryRun or preconditions: %v", m)
	}
	// It waits for an object with a finalizer, and its spec stays as it is.
	const waiting = "/registry/unreadable.example.com/bads/b"
	if _, err := db.Put(t.Context(), waiting, `{"apiVersion":"unreadable.example.com/v1","kind":"Bad","metadata":{"name":"b","uid":"1","finalizers":["example.com/wait"]}}`); err != nil {
		t.Fatal(err)
	}
	must(http.StatusOK, http.MethodDelete, crds+"/"+name, "")
	servertest.Eventually(t, func() error {
		if found, err := db.Get(t.Context(), waiting); err != nil || len(found.Kvs) != 1 || !strings.Contains(string(found.Kvs[0].Value), "deletionTimestamp") {
			return fmt.Errorf("the object is not marked as deleted: %v, %w", found, err)
		}
		return nil
	})
	must(http.StatusOK, http.MethodDelete, crds+"/"+name, "")
	kept("the deletion")
	if _, err := db.Delete(t.Context(), waiting); err != nil {
		t.Fatal(err)
	}
	become(http.StatusNotFound, crds+"/"+name)
	left, err := db.Get(t.Context(), "/registry/unreadable.example.com/bads/a")
	if err != nil || len(left.Kvs) != 0 {
		t.Error("the object is not deleted:", left, err)
	}
}

// withVersion returns an object with the resourceVersion of another.
func withVersion(t *testing.T, object, of string) string {
	t.Helper()
	var from metav1.PartialObjectMetadata
	into := map[string]any{}
	if err := json.Unmarshal([]byte(of), &from); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(object), &into); err != nil {
		t.Fatal(err)
	}
	into["metadata"].(map[string]any)["resourceVersion"] = from.ResourceVersion
	data, err := json.Marshal(into)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
