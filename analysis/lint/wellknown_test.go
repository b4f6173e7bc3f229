package lint_test

import (
	"encoding/json"
	"strings"
	"testing"

	"espalier.dev/analysis/lint"
	"espalier.dev/kinds/schemas"
	"espalier.dev/schema"
)

// embedded returns a CRD whose field pod has the schema of a part of the built-in kind that a name
// names, without list types, as CRDs of older versions have it.
func embedded(t *testing.T, kind string, path ...string) string {
	t.Helper()
	d, err := schemas.Called(kind)[0].Definition()
	if err != nil {
		t.Fatal(err)
	}
	part := d.CRD().Spec.Versions[0].Schema.OpenAPIV3Schema
	for _, name := range path {
		p := part.Properties[name]
		part = &p
	}
	text, err := json.Marshal(part)
	if err != nil {
		t.Fatal(err)
	}
	var tree any
	if err := json.Unmarshal(text, &tree); err != nil {
		t.Fatal(err)
	}
	strip(tree)
	if text, err = json.Marshal(tree); err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// strip removes the keywords of list types and enums, and formats that are not those of CRDs.
func strip(v any) {
	switch v := v.(type) {
	case map[string]any:
		for _, name := range []string{"x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type", "enum", "default"} {
			delete(v, name)
		}
		if v["format"] == "quantity" {
			delete(v, "format")
		}
		for _, x := range v {
			strip(x)
		}
	case []any:
		for _, x := range v {
			strip(x)
		}
	}
}

// TestConventionsOfKnownTypes checks that the conventions leave types of the Kubernetes API alone,
// which authors of CRDs cannot change, and nothing else.
func TestConventionsOfKnownTypes(t *testing.T) {
	within := func(field string) string {
		return `{type: object, properties: {spec: {type: object, properties: {a: ` + field + `}}}}`
	}
	const a = ".properties[spec].properties[a]"
	for _, c := range []struct {
		name, schema string
		want         []string
	}{
		{"a pod template", within(embedded(t, "deployments", "spec", "template")), nil},
		{"a pod spec", within(embedded(t, "pods", "spec")), nil},
		{"a volume claim template", within(embedded(t, "pvc")), nil},
		{"a service", within(embedded(t, "services", "spec")), nil},
		{"affinity", within(embedded(t, "pods", "spec", "affinity")), nil},
		{"a pod spec of an own version", within(strings.Replace(embedded(t, "pods", "spec"), `"hostNetwork":`, `"host_network":`, 1)),
			[]string{"warning " + a + ".properties[host_network]", "warning " + a + ".properties[host_network].type"}},
		{"a list of environment variables", within(`{type: array, x-kubernetes-list-type: atomic, items: {type: object, required: [name], properties: {name: {type: string}, value: {type: string},
			valueFrom: {type: object, properties: {secretKeyRef: {type: object, properties: {key: {type: string}, name: {type: string}, optional: {type: boolean}}},
			configMapKeyRef: {type: object, properties: {key: {type: string}, name: {type: string}, optional: {type: boolean}}},
			fieldRef: {type: object, properties: {apiVersion: {type: string}, fieldPath: {type: string}}}}}}}}`), nil},
		{"resources of an older version", within(`{type: object, properties: {limits: {type: object, additionalProperties: {x-kubernetes-int-or-string: true}}, requests: {type: object, additionalProperties: {x-kubernetes-int-or-string: true}}}}`), nil},
		{"a label selector", within(`{type: object, properties: {matchLabels: {type: object, additionalProperties: {type: string}}, matchExpressions: {type: array,
			items: {type: object, properties: {key: {type: string}, operator: {type: string}, values: {type: array, items: {type: string}}}}}}}`), nil},
		{"an own type with the names of a secret key", within(`{type: object, properties: {key: {type: string}, name: {type: string}, optional: {type: boolean}, force: {type: boolean}}}`),
			[]string{"warning " + a + ".properties[force].type", "warning " + a + ".properties[optional].type"}},
		{"a field of another type", within(`{type: object, properties: {key: {type: boolean}, name: {type: string}, optional: {type: boolean}}}`),
			[]string{"warning " + a + ".properties[key].type", "warning " + a + ".properties[optional].type"}},
		{"an own template", within(`{type: object, properties: {metadata: {type: object}, spec: {type: object, properties: {prune: {type: boolean}}}}}`),
			[]string{"warning " + a + ".properties[spec].properties[prune].type"}},
		{"an own enum in a known type", within(`{type: object, properties: {key: {type: string, enum: [a]}, name: {type: string}, optional: {type: boolean}}}`),
			[]string{"warning " + a + ".properties[key].enum[0]"}},
		{"the spec of the resource", `{type: object, properties: {spec: {type: object, properties: {key: {type: string}, name: {type: string}, optional: {type: boolean}}}}}`,
			[]string{"warning .properties[spec].properties[optional].type"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var config lint.Config
			config.Disable, config.Enable = []string{lint.All}, []string{lint.Conventions}
			expect(t, lintAll(t, schema.Kubernetes, config, v1(c.schema))[0], c.want...)
		})
	}
}
