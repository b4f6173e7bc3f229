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
			if _, err := codec.Decode(api.DropForeign([]byte(text))); err != nil {
				t.Error(err)
			}
		})
	}
	for name, schema := range map[string]string{
		"what fits":           `{"type":"object","x-kubernetes-unions":[{"fields":{"a":"A"}}],"readOnly":true,"default":1.50}`,
		"fields of that name": `{"properties":{"readOnly":{"type":"string"},"x-kubernetes-unions":{"type":"array"}},"default":{"readOnly":"yes"}}`,
		"what others know":    `{"type":"object","nullable":"yes","readOnly":true}`,
		"what is no JSON":     `{"readOnly":"yes"`,
	} {
		t.Run(name, func(t *testing.T) {
			text := fmt.Sprintf(v1, schema)
			if got := string(api.DropForeign([]byte(text))); got != text {
				t.Errorf("got %s", got)
			}
		})
	}
	t.Run("the rest stays", func(t *testing.T) {
		got := string(api.DropForeign([]byte(fmt.Sprintf(v1, `{"default":1.50,"maximum":12345678901234567890,"readOnly":"yes"}`))))
		if !strings.Contains(got, `{"openAPIV3Schema":{"default":1.50,"maximum":12345678901234567890}}`) {
			t.Errorf("got %s", got)
		}
	})
}
