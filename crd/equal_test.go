package crd

import (
	"testing"

	"espalier.dev/api"
)

// TestEqual checks that parts of CRDs are compared by their meaning.
func TestEqual(t *testing.T) {
	schema := func(value string) *api.CustomResourceValidation {
		return &api.CustomResourceValidation{OpenAPIV3Schema: &api.JSONSchemaProps{Default: &api.JSON{Raw: []byte(value)}}}
	}
	for _, tt := range []struct {
		a, b any
		want bool
	}{
		{schema(`{"a":1,"b":2}`), schema(`{"b": 2, "a": 1}`), true}, {schema(`{"a":1}`), schema(`{"a":2}`), false}, {schema(`1`), schema(`1.0`), false},
		{schema(`[1,2]`), schema(`[2,1]`), false}, {schema(``), schema(`null`), true}, {schema(`null`), schema(``), true}, {schema(``), schema(`1`), false},
		{schema(`{`), schema(`{}`), false}, {schema(`{}`), schema(`{`), false}, {schema(`{`), schema(`[`), false},
		{schema(`[`), schema(``), false}, {schema(``), schema(`[`), false},
		{schema(`1`), &api.CustomResourceValidation{OpenAPIV3Schema: &api.JSONSchemaProps{}}, false},
		{&api.JSONSchemaProps{Required: []string{}}, &api.JSONSchemaProps{}, true}, {&api.JSONSchemaProps{Required: []string{"a"}}, &api.JSONSchemaProps{}, false},
		{(*api.JSONSchemaProps)(nil), (*api.JSONSchemaProps)(nil), true}, {(*api.JSONSchemaProps)(nil), &api.JSONSchemaProps{}, false},
	} {
		if got := equal(tt.a, tt.b); got != tt.want {
			t.Errorf("%+v, %+v: got %t", tt.a, tt.b, got)
		}
	}
}
