package definitions_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"espalier.dev/schema"
	"espalier.dev/server/servertest"
)

// plainDefinition is a CRD, and betaDefinition the same in v1beta1.
const (
	betaDefinition = `{
	"apiVersion": "apiextensions.k8s.io/v1beta1", "kind": "CustomResourceDefinition", "metadata": {"name": "examples.mygroup.example.com"},
	"spec": {"group": "mygroup.example.com", "version": "v1alpha1", "scope": "Namespaced", "names": {"plural": "examples", "kind": %q}, "validation": {"openAPIV3Schema": %s}}}`
	plainDefinition = `{
	"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "examples.mygroup.example.com"},
	"spec": {"group": "mygroup.example.com", "scope": "Namespaced", "names": {"plural": "examples", "kind": %q},
		"versions": [{"name": "v1alpha1", "served": true, "storage": true, "schema": {"openAPIV3Schema": %s}}]}}`
)

// TestDefinitionBodies checks what kube-apiserver does with the apiVersion of CRDs.
func TestDefinitionBodies(t *testing.T) {
	t.Parallel()
	const path = "/apis/apiextensions.k8s.io/"
	s := servertest.NewScript(t, servertest.Serve(t, schema.Kubernetes))
	crd := fmt.Sprintf(plainDefinition, "Example", `{"type": "object"}`)
	beta := fmt.Sprintf(betaDefinition, "Example", "{}")

	t.Run("version of the body", func(t *testing.T) {
		for version, body := range map[string]string{"v1": beta, "v1beta1": crd} {
			got := s.Do(http.MethodPost, path+version+"/customresourcedefinitions", []byte(body), "application/json")
			if got.Code != http.StatusBadRequest || !strings.Contains(string(got.Body), "does not match the expected API version (apiextensions.k8s.io/"+version+")") {
				t.Errorf("create in %s: %d %s", version, got.Code, got.Body)
			}
		}
		if err := s.Write("create", []byte(crd), ""); err != nil || s.Last.Code != http.StatusCreated {
			t.Fatal(err, string(s.Last.Body))
		}
		beta := strings.Replace(beta, `"name": "examples`, fmt.Sprintf(`"resourceVersion": %q, "name": "examples`, s.Last.Object["metadata"].(map[string]any)["resourceVersion"]), 1)
		got := s.Do(http.MethodPut, path+"v1/customresourcedefinitions/examples.mygroup.example.com", []byte(beta), "application/json")
		if got.Code != http.StatusBadRequest {
			t.Errorf("update: %d %s", got.Code, got.Body)
		}
	})
	t.Run("items of lists", func(t *testing.T) {
		for _, version := range []string{"v1", "v1beta1"} {
			got := s.Do(http.MethodGet, path+version+"/customresourcedefinitions", nil, "")
			if kind := got.Object["kind"]; kind != any("CustomResourceDefinitionList") {
				t.Errorf("the kind of the list is %v", kind)
			}
			items, _ := got.Object["items"].([]any)
			if len(items) == 0 {
				t.Fatalf("no items: %s", got.Body)
			}
			for _, name := range []string{"apiVersion", "kind"} {
				if v, found := items[0].(map[string]any)[name]; found {
					t.Errorf("an item has the %s %v", name, v)
				}
			}
			if kind := s.Do(http.MethodGet, path+version+"/customresourcedefinitions/examples.mygroup.example.com", nil, "").Object["kind"]; kind != any("CustomResourceDefinition") {
				t.Errorf("the kind is %v", kind)
			}
		}
	})
}

// TestLargeDefinition writes CRDs that are almost too large for etcd. There must be space for
// the status, and for the deletion.
func TestLargeDefinition(t *testing.T) {
	t.Parallel()
	s := servertest.NewScript(t, servertest.Serve(t, schema.Kubernetes))
	const (
		name  = "examples.mygroup.example.com"
		path  = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
		limit = 1536 << 10
	)
	crd := func(size int) []byte {
		description, err := json.Marshal(strings.Repeat("a", size))
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Appendf(nil, plainDefinition, "Example", fmt.Sprintf(`{"type": "object", "description": %s}`, description))
	}
	for _, size := range []int{limit, limit - 2<<10, limit - 16<<10} {
		got := s.Do(http.MethodPost, path, crd(size), "application/json")
		if got.Code != http.StatusRequestEntityTooLarge {
			t.Errorf("%d: %d %.300s", size, got.Code, got.Body)
		}
		if got = s.Do(http.MethodGet, path+"/"+name, nil, ""); got.Code != http.StatusNotFound {
			t.Fatalf("%d: it is stored", size)
		}
	}
	if err := s.Write("create", crd(limit-70<<10), ""); err != nil || s.Last.Code != http.StatusCreated {
		t.Fatalf("%v %d %.300s", err, s.Last.Code, s.Last.Body)
	}
	s.Await("it is established", func() bool { return s.HasCondition(name, "Established", "True", "") })
	larger := s.Do(http.MethodPatch, path+"/"+name, fmt.Appendf(nil, `{"metadata": {"annotations": {"a": %q}}}`, strings.Repeat("a", 10<<10)), "application/merge-patch+json")
	if larger.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("patch: %d %.300s", larger.Code, larger.Body)
	}
	if got := s.Do(http.MethodDelete, path+"/"+name, nil, ""); got.Code != http.StatusOK {
		t.Errorf("delete: %d %.300s", got.Code, got.Body)
	}
	s.AwaitGone(path + "/" + name)
}
