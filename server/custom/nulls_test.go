package custom_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"espalier.dev/schema"
	"espalier.dev/server/servertest"
)

// TestNulls writes null to fields that are not nullable, in each way to write.
func TestNulls(t *testing.T) {
	t.Parallel()
	for _, sem := range []schema.Semantics{schema.KEP, schema.Kubernetes} {
		t.Run("P-13-null "+sem.String(), func(t *testing.T) {
			t.Parallel()
			testNulls(servertest.NewScript(t, servertest.Serve(t, sem)), sem)
		})
	}
}

func testNulls(s *servertest.Script, sem schema.Semantics) {
	if err := s.Write("create", []byte(`{
	"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "nulls.example.com"},
	"spec": {"group": "example.com", "scope": "Cluster", "names": {"plural": "nulls", "kind": "Null"},
		"versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "properties": {
			"spec": {"type": "object", "properties": {
				"plain": {"type": "string"}, "nullable": {"type": "string", "nullable": true}, "defaulted": {"type": "string", "default": "x"},
				"deep": {"type": "object", "additionalProperties": {"type": "object", "properties": {"plain": {"type": "string"}}}}}}}}}}]}}`), ""); err != nil {
		s.Fatal(err)
	}
	const path, apply = "/apis/example.com/v1/nulls", "application/apply-patch+yaml"
	body := func(name, spec string) string {
		return fmt.Sprintf(`{"apiVersion": "example.com/v1", "kind": "Null", "metadata": {"name": %q}, "spec": %s}`, name, spec)
	}
	const sent = `{"plain": null, "nullable": null, "defaulted": null, "deep": {"a": {"plain": null}}}`
	check := func(how string, a servertest.Answer, want string) {
		s.Helper()
		spec, err := json.Marshal(a.Object["spec"])
		if err != nil {
			s.Fatal(err)
		}
		if a.Code >= 300 || string(spec) != want {
			s.Errorf("%s: %d, %s, want %s: %s", how, a.Code, spec, want, a.Body)
		}
	}
	const want = `{"deep":{"a":{}},"defaulted":"x","nullable":null}`
	check("create", s.Do(http.MethodPost, path, []byte(body("posted", sent)), "application/json"), want)
	check("apply without nulls", s.Do(http.MethodPatch, path+"/applied?fieldManager=b", []byte(body("applied", `{"plain": "b"}`)), apply), `{"defaulted":"x","plain":"b"}`)
	for _, name := range []string{"new", "applied"} {
		a := s.Do(http.MethodPatch, path+"/"+name+"?fieldManager=a", []byte(body(name, sent)), apply)
		if !sem.DropsAppliedNulls() {
			// As in kube-apiserver.
			if a.Code != http.StatusUnprocessableEntity && a.Code != http.StatusConflict {
				s.Errorf("%s: %d %s", name, a.Code, a.Body)
			}
			continue
		}
		if name == "new" {
			check("apply", a, want)
		} else {
			// A null that is dropped neither changes nor owns the field.
			check("apply", a, strings.Replace(want, `:null}`, `:null,"plain":"b"}`, 1))
		}
		found := false
		for i := range 2 { // the one of b is there, too
			entry := fmt.Sprintf("metadata.managedFields.%d.", i)
			if manager, _ := servertest.Field(a.Object, entry+"manager"); manager != "a" {
				continue
			}
			found = true
			if managed, _ := servertest.Field(a.Object, entry+"fieldsV1.f:spec.f:plain"); managed != nil {
				s.Errorf("the applier owns what is dropped: %s", a.Body)
			}
		}
		if !found {
			s.Errorf("the applier owns nothing: %s", a.Body)
		}
	}
}
