package golang_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"espalier.dev/analysis/generate"
	"espalier.dev/analysis/generate/golang"
	"espalier.dev/api"
	"espalier.dev/crd"
	"espalier.dev/schema"
)

// TestLarge generates the types of a CRD with thousands of schemas, twice: the files are the same.
func TestLarge(t *testing.T) {
	typed := func(name string) api.JSONSchemaProps { return api.JSONSchemaProps{Type: api.StringOrArray{name}} }
	spec := typed("object")
	spec.Properties = map[string]api.JSONSchemaProps{}
	sections, fields := 140, 100
	if testing.Short() {
		sections = 30
	}
	for i := range sections {
		section := typed("object")
		section.Properties = map[string]api.JSONSchemaProps{}
		for j := range fields {
			section.Properties[fmt.Sprintf("field%dOf%d", j, i)] = typed("string")
		}
		spec.Properties[fmt.Sprintf("section%d", i)] = section
	}
	root := typed("object")
	root.Properties = map[string]api.JSONSchemaProps{"spec": spec}
	var files [2]generate.Files
	for i := range files {
		d, err := crd.New(&api.CustomResourceDefinition{Spec: api.CustomResourceDefinitionSpec{
			Group: "example.com", Names: api.CustomResourceDefinitionNames{Plural: "bigs", Kind: "Big"}, Scope: api.NamespaceScoped,
			Versions: []api.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true, Schema: &api.CustomResourceValidation{OpenAPIV3Schema: &root}}},
		}}, crd.Options{Semantics: schema.KEP, IgnoreRules: true})
		if err != nil {
			t.Fatal(err)
		}
		packages, problems := generate.Build([]generate.Input{{Definition: d}})
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		if files[i], problems, err = golang.Generate(packages); err != nil || len(problems) > 0 {
			t.Fatal(problems, err)
		}
	}
	for name, text := range files[0] {
		if !bytes.Equal(text, files[1][name]) {
			t.Errorf("%s is not the same in the second run", name)
		}
		if !strings.HasPrefix(string(text), "// "+generate.Marker+"\n") {
			t.Errorf("%s does not start with the marker", name)
		}
	}
	if n := strings.Count(string(files[0]["example.com/v1/zz_generated.types.go"]), "json:\"field"); n != sections*fields {
		t.Errorf("got %d fields, want %d", n, sections*fields)
	}
}
