package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// TestServe sends each type of request once.
func TestServe(t *testing.T) {
	const (
		head   = `{"apiVersion":"apiextensions.k8s.io/v1beta1","kind":"CustomResourceDefinition","metadata":{"name":"foos.example.com","resourceVersion":"1"},"spec":{"group":"example.com","names":{"plural":"foos","kind":"Foo"},"scope":"Namespaced","version":"v1"`
		schema = `{"type":"object","properties":{"a":{"type":"integer","default":1},"b":{"type":"string"}}}`
		kind   = `"group":"example.com","version":"v1","kind":"Foo","namespaced":true`
		object = `{"apiVersion":"example.com/v1","kind":"Foo","metadata":{"name":"x","namespace":"y"}`
	)
	for _, tt := range []struct{ name, request, want string }{
		{"convert", `{"op":"convert","crd":` + head + `}}}`, `"listKind":"FooList"`},
		{"hub", `{"op":"convert","crd":` + head + `}}}`, `"versions":[{"name":"v1","served":true,"storage":true}]`},
		{"create", `{"op":"create","crd":` + head + `}}}`, `"storedVersions":["v1"]`},
		{"rejected", `{"op":"create","crd":` + head + `,"preserveUnknownFields":false}}}`, `because otherwise all fields are pruned`},
		{"update", `{"op":"update","old":` + head + `}},"crd":` + strings.Replace(head, `"group":"example.com"`, `"group":"other.com"`, 1) + `}}}`, `"field":"spec.group","type":"FieldValueInvalid","detail":"field is immutable"`},
		{"structural", `{"op":"structural","schema":` + schema + `}`, `{}`},
		{"not structural", `{"op":"structural","schema":{"properties":{"a":{}}}}`, `{"field":"type","type":"FieldValueRequired","detail":"must not be empty at the root"`},
		{"without form", `{"op":"structural","schema":{"definitions":{"a":{}}}}`, `no structural form`},
		{"objects", `{"op":"objects","schema":` + schema + `,` + kind + `,"objects":[{"object":` + object + `,"b":1,"c":2}}]}`, `"a":1,"apiVersion":"example.com/v1","b":1,"kind"`},
		{"preserve", `{"op":"objects","schema":` + schema + `,` + kind + `,"preserve":true,"objects":[{"object":` + object + `,"b":"1","c":2}}]}`, `"c":2`},
		{"value", `{"op":"objects","schema":` + schema + `,` + kind + `,"objects":[{"object":` + object + `,"b":1}}]}`, `"text":"b: Invalid value: \"integer\": b in body must be of type string: \"integer\"","value":"integer"}`},
		{"unknown", `{"op":"x"}`, `unknown op`},
		{"no JSON", `x`, `"error"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			if err := serve(strings.NewReader(tt.request+"\n"), &out); err != nil {
				t.Fatal(err)
			}
			if !json.Valid(out.Bytes()) || bytes.Count(out.Bytes(), []byte("\n")) != 1 {
				t.Errorf("not one line of JSON: %s", &out)
			}
			if !strings.Contains(out.String(), tt.want) {
				t.Errorf("%s\n has no %s", &out, tt.want)
			}
		})
	}
}
