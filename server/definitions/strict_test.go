package definitions

import (
	"reflect"
	"testing"

	"sigs.k8s.io/yaml"

	"espalier.dev/api"
)

func TestUnknownFields(t *testing.T) {
	var obj map[string]any
	if err := yaml.Unmarshal([]byte(`
metadata: {name: a, bogus: 1, labels: {anything: goes}, creationTimestamp: {anything: goes}, managedFields: [{fieldsV1: {anything: goes}, bogus: 1}]}
spec:
  gruop: x
  versions:
  - name: v1
    schema:
      openAPIV3Schema:
        typ: object
        default: {anything: goes}
        properties:
          a: {descripton: x}
          b: {items: {maxlength: 1}, additionalProperties: {Type: x}}
          c: {items: [{}, {maxlength: 1}], additionalProperties: true, type: {anything: goes}}
          d: {readOnly: true}
          e: {x-kubernetes-unions: []}
`), &obj); err != nil {
		t.Fatal(err)
	}
	root := "spec.versions[0].schema.openAPIV3Schema."
	shallow := []string{"metadata.bogus", "metadata.managedFields[0].bogus", "spec.gruop", root + "properties.a.descripton",
		root + "properties.d.readOnly", root + "properties.e.x-kubernetes-unions", root + "typ"}
	for deep, want := range map[bool][]string{
		false: shallow,
		true: {"metadata.bogus", "metadata.managedFields[0].bogus", "spec.gruop", root + "properties.a.descripton",
			root + "properties.b.additionalProperties.Type", root + "properties.b.items.maxlength",
			root + "properties.c.items[1].maxlength", root + "typ"},
	} {
		if got := unknownFields(obj, reflect.TypeFor[api.CustomResourceDefinition](), deep); !reflect.DeepEqual(got, want) {
			t.Errorf("deep %v: got %q", deep, got)
		}
	}
}
