package codec_test

import (
	"fmt"
	"strings"
	"testing"

	"espalier.dev/api"
	"espalier.dev/api/codec"
)

// TestForeign shows that a definition can be read without what kube-apiserver does not
// know and others cannot read.
func TestForeign(t *testing.T) {
	const v1 = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"things.example.com"},"spec":{
"group":"example.com","scope":"Namespaced","names":{"plural":"things","kind":"Thing"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":%s}}]}}`
	const beta = `{"apiVersion":"apiextensions.k8s.io/v1beta1","kind":"CustomResourceDefinition","metadata":{"name":"things.example.com"},"spec":{
"group":"example.com","version":"v1","scope":"Namespaced","names":{"plural":"things","kind":"Thing"},"validation":%s}}`
	for name, text := range map[string]string{
		"unions":             fmt.Sprintf(v1, `{"type":"object","x-kubernetes-unions":[{"fields":["a"]}]}`),
		"unions of a number": fmt.Sprintf(v1, `{"properties":{"a":{"x-kubernetes-unions":1}}}`),
		"readOnly":           fmt.Sprintf(v1, `{"properties":{"a":{"items":{"anyOf":[{"readOnly":"yes"}]}}}}`),
		"beta readOnly":      fmt.Sprintf(beta, `{"openAPIV3Schema":{"additionalProperties":{"readOnly":[]}}}`),
		"jsonSchema":         fmt.Sprintf(beta, `{"jsonSchema":["a"]}`),
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := codec.Decode([]byte(text)); err == nil {
				t.Error("it is read as it is")
			}
			for _, drop := range []func([]byte) []byte{api.DropForeign, api.DropMalformedForeign} {
				if _, err := codec.Decode(drop([]byte(text))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for name, schema := range map[string]string{
		"fields of that name": `{"properties":{"readOnly":{"type":"string"},"x-kubernetes-unions":{"type":"array"}},"default":{"readOnly":"yes"}}`,
		"what others know":    `{"type":"object","nullable":"yes"}`,
		"what is no schema":   `5`,
		"what is no JSON":     `{"readOnly":"yes"`,
	} {
		t.Run(name, func(t *testing.T) {
			text := fmt.Sprintf(v1, schema)
			for _, drop := range []func([]byte) []byte{api.DropForeign, api.DropMalformedForeign} {
				if got := string(drop([]byte(text))); got != text {
					t.Errorf("got %s", got)
				}
			}
		})
	}
	t.Run("what fits stays for tools", func(t *testing.T) {
		text := fmt.Sprintf(v1, `{"type":"object","x-kubernetes-unions":[{"fields":{"a":"A"}}],"readOnly":true,"default":1.50}`)
		if got := string(api.DropMalformedForeign([]byte(text))); got != text {
			t.Errorf("got %s", got)
		}
	})
	t.Run("the annotation of a jsonSchema", func(t *testing.T) {
		for annotations, want := range map[string]string{
			`{"espalier.dev/json-schema":"{}"}`:          `{"name":"x"}`,
			`{"espalier.dev\/json-schema":"no","a":"b"}`: `{"annotations":{"a":"b"},"name":"x"}`,
		} {
			text := `{"metadata":{"name":"x","annotations":` + annotations + `}}`
			if got := string(api.DropForeign([]byte(text))); got != `{"metadata":`+want+`}` {
				t.Errorf("%s: got %s", annotations, got)
			}
			if got := string(api.DropMalformedForeign([]byte(text))); got != text {
				t.Errorf("for tools: got %s", got)
			}
		}
	})
	for _, foreign := range []string{`"readOnly":"yes"`, `"readOnly":true`, `"x-kubernetes-unions":[{"fields":{"a":"A"}}]`} {
		t.Run("the rest stays without "+foreign, func(t *testing.T) {
			got := string(api.DropForeign([]byte(fmt.Sprintf(v1, `{"default":1.50,"maximum":12345678901234567890,`+foreign+`}`))))
			if !strings.Contains(got, `{"openAPIV3Schema":{"default":1.50,"maximum":12345678901234567890}}`) {
				t.Errorf("got %s", got)
			}
		})
	}
}
