package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"espalier.dev/espaliertest"
	"espalier.dev/schema"
)

// TestDefinitionBodies checks what kube-apiserver does with the apiVersion of CRDs.
func TestDefinitionBodies(t *testing.T) {
	t.Parallel()
	const path = "/apis/apiextensions.k8s.io/"
	s := newScript(t, espaliertest.Start(t, espaliertest.WithSemantics(schema.Kubernetes)), &txtar.Archive{})
	crd := fmt.Sprintf(plainDefinition, "Example", `{"type": "object"}`)
	beta := strings.ReplaceAll(fmt.Sprintf(betaDefinition, "Example", "{}"), "jsonSchema", "openAPIV3Schema")

	t.Run("version of the body", func(t *testing.T) {
		for version, body := range map[string]string{"v1": beta, "v1beta1": crd} {
			got := s.do(http.MethodPost, path+version+"/customresourcedefinitions", []byte(body), "application/json")
			if got.code != http.StatusBadRequest || !strings.Contains(string(got.body), "does not match the expected API version (apiextensions.k8s.io/"+version+")") {
				t.Errorf("create in %s: %d %s", version, got.code, got.body)
			}
		}
		if err := s.write("create", []byte(crd), ""); err != nil || s.last.code != http.StatusCreated {
			t.Fatal(err, string(s.last.body))
		}
		beta := strings.Replace(beta, `"name": "examples`, fmt.Sprintf(`"resourceVersion": %q, "name": "examples`, s.last.object["metadata"].(map[string]any)["resourceVersion"]), 1)
		got := s.do(http.MethodPut, path+"v1/customresourcedefinitions/examples.mygroup.example.com", []byte(beta), "application/json")
		if got.code != http.StatusBadRequest {
			t.Errorf("update: %d %s", got.code, got.body)
		}
	})
	t.Run("items of lists", func(t *testing.T) {
		for _, version := range []string{"v1", "v1beta1"} {
			got := s.do(http.MethodGet, path+version+"/customresourcedefinitions", nil, "")
			if kind := got.object["kind"]; kind != any("CustomResourceDefinitionList") {
				t.Errorf("the kind of the list is %v", kind)
			}
			items, _ := got.object["items"].([]any)
			if len(items) == 0 {
				t.Fatalf("no items: %s", got.body)
			}
			for _, name := range []string{"apiVersion", "kind"} {
				if v, found := items[0].(map[string]any)[name]; found {
					t.Errorf("an item has the %s %v", name, v)
				}
			}
			if kind := s.do(http.MethodGet, path+version+"/customresourcedefinitions/examples.mygroup.example.com", nil, "").object["kind"]; kind != any("CustomResourceDefinition") {
				t.Errorf("the kind is %v", kind)
			}
		}
	})
}

// TestLargeDefinition writes CRDs that are almost too large for etcd. There must be space for
// the status, and for the deletion.
func TestLargeDefinition(t *testing.T) {
	t.Parallel()
	s := newScript(t, espaliertest.Start(t), &txtar.Archive{})
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
		got := s.do(http.MethodPost, path, crd(size), "application/json")
		if got.code != http.StatusRequestEntityTooLarge {
			t.Errorf("%d: %d %.300s", size, got.code, got.body)
		}
		if got = s.do(http.MethodGet, path+"/"+name, nil, ""); got.code != http.StatusNotFound {
			t.Fatalf("%d: it is stored", size)
		}
	}
	if err := s.write("create", crd(limit-70<<10), ""); err != nil || s.last.code != http.StatusCreated {
		t.Fatalf("%v %d %.300s", err, s.last.code, s.last.body)
	}
	s.eventually("it is established", func() bool { return s.hasCondition(name, "Established", "True", "") })
	larger := s.do(http.MethodPatch, path+"/"+name, fmt.Appendf(nil, `{"metadata": {"annotations": {"a": %q}}}`, strings.Repeat("a", 10<<10)), "application/merge-patch+json")
	if larger.code != http.StatusRequestEntityTooLarge {
		t.Errorf("patch: %d %.300s", larger.code, larger.body)
	}
	if got := s.do(http.MethodDelete, path+"/"+name, nil, ""); got.code != http.StatusOK {
		t.Errorf("delete: %d %.300s", got.code, got.body)
	}
	s.awaitGone(path + "/" + name)
}
