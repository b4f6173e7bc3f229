package jsonschema_test

import (
	"encoding/json"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"

	"espalier.dev/analysis/jsonschema"
	"espalier.dev/api"
	"espalier.dev/crd"
	"espalier.dev/schema"
)

// version returns a version whose spec has the given schema.
func version(t *testing.T, spec string) *crd.Version {
	t.Helper()
	var s api.JSONSchemaProps
	if err := json.Unmarshal([]byte(`{"type": "object", "properties": {"spec": `+spec+`}}`), &s); err != nil {
		t.Fatal(err)
	}
	d, err := crd.New(&api.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "things.example.com"},
		Spec: api.CustomResourceDefinitionSpec{
			Group: "example.com", Scope: api.NamespaceScoped, Names: api.CustomResourceDefinitionNames{Plural: "things", Kind: "Thing"},
			Versions: []api.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true, Schema: &api.CustomResourceValidation{OpenAPIV3Schema: &s}}},
		},
	}, crd.Options{Semantics: schema.Kubernetes, IgnoreRules: true})
	if err != nil {
		t.Fatal(err)
	}
	return d.Versions()[0]
}

// TestKeywords checks how the keywords of CRDs are written. Whether the documents accept what the
// API server accepts is checked in test/oracle.
func TestKeywords(t *testing.T) {
	for _, c := range []struct {
		name, spec, want string
		options          jsonschema.Options
	}{
		{name: "optional", spec: `{"type": "string"}`, want: `{"type":["string","null"]}`},
		{name: "enum", spec: `{"type": "string", "enum": ["a", "b", "a"]}`, want: `{"enum":["a","b",null],"type":["string","null"]}`},
		{name: "equal values", spec: `{"x-kubernetes-preserve-unknown-fields": true, "enum": [1, 1.0, 2, 1e0, [1], [1.0], {"a": 1, "b": [2]}, {"b": [2.0], "a": 1.0}, "1"]}`,
			want: `{"enum":[1,2,[1],{"a":1,"b":[2]},"1",null],"x-kubernetes-preserve-unknown-fields":true}`},
		{name: "bounds", spec: `{"type": "integer", "minimum": 1, "exclusiveMinimum": true, "maximum": 5}`,
			want: `{"exclusiveMinimum":1,"maximum":5,"type":["integer","null"]}`},
		{name: "exclusive without a bound", spec: `{"type": "integer", "exclusiveMaximum": true}`, want: `{"type":["integer","null"]}`},
		{name: "int or string", spec: `{"x-kubernetes-int-or-string": true}`, want: `{"type":["integer","string","null"],"x-kubernetes-int-or-string":true}`},
		{name: "quantity", spec: `{"x-kubernetes-int-or-string": true, "format": "quantity"}`, options: jsonschema.Options{GoTypes: true},
			want: `{"pattern":"^[+-]?([0-9]+(\\.[0-9]*)?|\\.[0-9]+)(([KMGTPE]i)|[numkMGTPE]|[eE][+-]?[0-9]+)?$","type":["number","string","null"]}`},
		{name: "any", spec: `{"x-kubernetes-preserve-unknown-fields": true}`, want: `{"x-kubernetes-preserve-unknown-fields":true}`},
		{name: "set", spec: `{"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}`,
			want: `{"items":{"type":"string"},"type":["array","null"],"uniqueItems":true,"x-kubernetes-list-type":"set"}`},
		{name: "formats that differ", spec: `{"type": "string", "format": "duration"}`, want: `{"type":["string","null"]}`},
		{name: "formats that do not", spec: `{"type": "string", "format": "date-time"}`, want: `{"format":"date-time","type":["string","null"]}`},
		{name: "patterns of Go", spec: `{"type": "string", "pattern": "(?i)^a$"}`, want: `{"type":["string","null"]}`},
		{name: "a bracket in a set", spec: `{"type": "string", "pattern": "^[]a]$"}`, want: `{"type":["string","null"]}`},
		{name: "a character by its number", spec: `{"type": "string", "pattern": "\\x{41}"}`, want: `{"type":["string","null"]}`},
		{name: "map", spec: `{"type": "object", "additionalProperties": {"type": "string"}}`,
			want: `{"additionalProperties":{"type":["string","null"]},"type":["object","null"]}`},
		{name: "patterns", spec: `{"type": "string", "pattern": "^(?:a|b)$"}`, want: `{"pattern":"^(?:a|b)$","type":["string","null"]}`},
		{name: "required with a default", spec: `{"type": "object", "required": ["a", "b"], "properties": {"a": {"type": "string", "default": "x"}, "b": {"type": "string"}}}`,
			want: `{"properties":{"a":{"default":"x","type":["string","null"]},"b":{"type":"string"}},"required":["b"],"type":["object","null"]}`},
		{name: "strict", spec: `{"type": "object", "properties": {"a": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}`, options: jsonschema.Options{Strict: true},
			want: `{"additionalProperties":false,"properties":{"a":{"type":["object","null"],"x-kubernetes-preserve-unknown-fields":true}},"type":["object","null"]}`},
		{name: "single type", spec: `{"type": "string", "description": "a", "default": "x", "enum": ["x"]}`, options: jsonschema.Options{SingleTypes: true},
			want: `{"anyOf":[{"enum":["x"],"type":"string"},{"type":"null"}],"default":"x","description":"a"}`},
		{name: "single types", spec: `{"x-kubernetes-int-or-string": true}`, options: jsonschema.Options{SingleTypes: true},
			want: `{"anyOf":[{"anyOf":[{"type":"integer"},{"type":"string"}],"x-kubernetes-int-or-string":true},{"type":"null"}]}`},
		{name: "single types under operators", spec: `{"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}], "allOf": [{"maximum": 5}]}`, options: jsonschema.Options{SingleTypes: true},
			want: `{"anyOf":[{"type":"null"},{"allOf":[{"maximum":5},{"anyOf":[{"type":"integer"},{"type":"string"}]}],"anyOf":[{"type":"integer"},{"type":"string"}],"x-kubernetes-int-or-string":true}]}`},
		{name: "single types of items and values", spec: `{"type": "object", "properties": {"type": {"type": "array", "items": {"type": "string"}}}, "required": ["type"]}`,
			options: jsonschema.Options{SingleTypes: true},
			want:    `{"anyOf":[{"properties":{"type":{"items":{"type":"string"},"type":"array"}},"required":["type"],"type":"object"},{"type":"null"}]}`},
		{name: "negative sizes", spec: `{"type": "string", "maxLength": -1}`, want: `{"type":["string","null"]}`},
		// Where a schema must not match, it must not accept more than the API server's.
		{name: "not", spec: `{"type": "string", "not": {"pattern": "\\Ab"}}`, want: `{"type":["string","null"]}`},
		{name: "one of", spec: `{"type": "string", "oneOf": [{"pattern": "\\Ab"}, {"minLength": 1}]}`,
			want: `{"anyOf":[{"type":"null"},{"anyOf":[{},{"minLength":1}],"type":"string"}]}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := jsonschema.New(version(t, c.spec), c.options)
			if err != nil {
				t.Fatal(err)
			}
			got, err := json.Marshal(s["properties"].(jsonschema.Schema)["spec"])
			if err != nil || string(got) != c.want {
				t.Errorf("%v, got\n%s\nwant\n%s", err, got, c.want)
			}
		})
	}
}

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
