package object_test

import (
	"testing"

	"espalier.dev/analysis/internal/analysistest"
	"espalier.dev/analysis/object"
	"espalier.dev/api"
	"espalier.dev/crd"
	"espalier.dev/schema"
)

// TestOriginalSchema checks which schema is that of a version.
func TestOriginalSchema(t *testing.T) {
	t.Parallel()
	c := definition(t, `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: things.example.com},
spec: {group: example.com, scope: Cluster, names: {plural: things, kind: Thing}, versions: [
{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {description: one}}},
{name: v2, served: true, storage: false, schema: {openAPIV3Schema: {description: two}}},
{name: v3, served: true, storage: false}]}}`, schema.Kubernetes).CRD()
	for version, want := range map[string]string{"v1": "one", "v2": "two", "v3": "", "v4": ""} {
		if s := object.OriginalSchema(c, version); (s == nil) != (want == "") || s != nil && s.Description != want {
			t.Errorf("%s: %v", version, s)
		}
	}
	if err := api.SetLegacySchema(c, &api.JSONSchemaProps{Description: "legacy"}); err != nil {
		t.Fatal(err)
	}
	if s := object.OriginalSchema(c, "v2"); s == nil || s.Description != "legacy" {
		t.Errorf("with a draft-4 schema: %v", s)
	}
	c.Annotations[api.JSONSchemaAnnotation] = "text"
	if s := object.OriginalSchema(c, "v2"); s == nil || s.Description != "two" {
		t.Errorf("with an annotation that is no schema: %v", s)
	}
}

// TestForgotten checks that the preview of a version uses the text of the CRD if the Definition does not keep
// the schemas, even if only a part of the text can be read.
func TestForgotten(t *testing.T) {
	t.Parallel()
	document := func(more string) string {
		return `{apiVersion: apiextensions.k8s.io/v1beta1, kind: CustomResourceDefinition, metadata: {name: things.example.com},
spec: {group: example.com, scope: Cluster, preserveUnknownFields: false, ` + more + `names: {plural: things, kind: Thing}, versions: [{name: v1, served: true, storage: true}],
validation: {openAPIV3Schema: {properties: {a: {type: string}}, anyOf: [{properties: {b: {type: string}}}]}}}}`
	}
	decoded := analysistest.CRD(t, document(""))
	for name, tt := range map[string]struct {
		text, want string
	}{
		"readable":  {document(""), `{"a":"x","b":"y"}`},
		"malformed": {document("prune: text, "), `{"a":"x","b":"y"}`},
		"no CRD":    {`[]`, `{}`},
	} {
		d, err := crd.New(decoded, crd.Options{Semantics: schema.Kubernetes, IgnoreRules: true, Forget: true})
		if err != nil {
			t.Fatal(err)
		}
		p := object.New(d, object.Options{Document: func() []byte { return analysistest.JSON(t, tt.text) }}).Prune(thing(`"a": "x", "b": "y", "c": "z"`))
		if p.Preview == nil {
			t.Fatalf("%s: no preview: %q", name, lines(p.Failures))
		}
		for _, k := range []string{"apiVersion", "kind", "metadata"} {
			delete(p.Object, k)
		}
		if got := text(t, p.Object); got != tt.want {
			t.Errorf("%s: got %s, want %s", name, got, tt.want)
		}
	}
}
