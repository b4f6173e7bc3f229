package crd_test

import (
	"testing"

	"espalier.dev/api"
	"espalier.dev/crd"
	"espalier.dev/schema"
)

// TestShared copies a definition unless it may be kept.
func TestShared(t *testing.T) {
	given := &api.CustomResourceDefinition{}
	given.Name = "as.example.com"
	for _, shared := range []bool{false, true} {
		d, err := crd.New(given, crd.Options{Shared: shared})
		if err != nil {
			t.Fatal(err)
		}
		if (d.CRD() == given) != shared {
			t.Errorf("shared %v: the definition is the one given: %v", shared, d.CRD() == given)
		}
	}
}

// TestForget keeps what a definition does when its schemas are forgotten, also with
// other options.
func TestForget(t *testing.T) {
	given := &api.CustomResourceDefinition{}
	given.Spec.Versions = []api.CustomResourceDefinitionVersion{{Name: "v1", Schema: &api.CustomResourceValidation{
		OpenAPIV3Schema: &api.JSONSchemaProps{Type: api.StringOrArray{"object"}, Properties: map[string]api.JSONSchemaProps{"a": {Type: api.StringOrArray{"string"}}}},
	}}}
	d, err := crd.New(given, crd.Options{Shared: true, Forget: true})
	if err != nil {
		t.Fatal(err)
	}
	if d.CRD().Spec.Versions[0].Schema != nil {
		t.Error("the schema is kept")
	}
	other, err := d.With(crd.Options{Semantics: schema.Kubernetes})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []*crd.Definition{d, other} {
		v := d.Version("v1")
		p, err := v.Program()
		if err != nil {
			t.Fatal(err)
		}
		obj, _, err := p.Decode([]byte(`{"a":"x","b":1}`), schema.DecodeOptions{})
		if err != nil || len(obj) != 1 || obj["a"] != any("x") {
			t.Errorf("%s: got %v, %v", d.Semantics(), obj, err)
		}
		if v.Definition() != d {
			t.Errorf("%s: the version is of another definition", d.Semantics())
		}
	}
	if d.Semantics() != schema.KEP || other.Semantics() != schema.Kubernetes {
		t.Errorf("semantics %s and %s", d.Semantics(), other.Semantics())
	}
}
