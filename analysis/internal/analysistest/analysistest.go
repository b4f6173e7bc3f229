// Package analysistest has what the tests of the packages below analysis share.
package analysistest

import (
	"testing"

	"sigs.k8s.io/yaml"

	"espalier.dev/api"
	"espalier.dev/api/codec"
	"espalier.dev/crd"
)

// JSON converts YAML to JSON.
func JSON(t testing.TB, text string) []byte {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return data
}

// CRD decodes a CRD in YAML.
func CRD(t testing.TB, text string) *api.CustomResourceDefinition {
	t.Helper()
	c, err := codec.DecodeLenient(JSON(t, text))
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return c
}

// Define compiles a CRD in YAML.
func Define(t testing.TB, text string, o crd.Options) *crd.Definition {
	t.Helper()
	d, err := crd.New(CRD(t, text), o)
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return d
}
