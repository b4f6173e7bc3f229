package jsonschema_test

import (
	"encoding/json"
	"testing"

	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"

	"espalier.dev/analysis/jsonschema"
)

// TestFile checks the names of files.
func TestFile(t *testing.T) {
	for want, gvk := range map[string]runtimeschema.GroupVersionKind{
		"v1/pod_v1.json":          {Version: "v1", Kind: "Pod"},
		"apps/deployment_v1.json": {Group: "apps", Version: "v1", Kind: "Deployment"},
	} {
		if got := jsonschema.File(gvk); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// TestAny checks the document that applies the documents of several kinds.
func TestAny(t *testing.T) {
	got, err := json.Marshal(jsonschema.Any([]runtimeschema.GroupVersionKind{{Version: "v1", Kind: "Pod"}, {Group: "example.com", Version: "v2", Kind: "Thing"}}))
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"$schema":"http://json-schema.org/draft-07/schema#","allOf":[` +
		`{"if":{"properties":{"apiVersion":{"const":"v1"},"kind":{"const":"Pod"}},"required":["apiVersion","kind"]},"then":{"$ref":"v1/pod_v1.json"}},` +
		`{"if":{"properties":{"apiVersion":{"const":"example.com/v2"},"kind":{"const":"Thing"}},"required":["apiVersion","kind"]},"then":{"$ref":"example.com/thing_v2.json"}}],` +
		`"properties":{"apiVersion":{"type":"string"},"kind":{"type":"string"}},"required":["apiVersion","kind"],"type":"object"}`; string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
