package crd_test

import (
	"slices"
	"testing"

	"espalier.dev/api"
	"espalier.dev/crd"
	"espalier.dev/schema"
)

func TestKnownFormat(t *testing.T) {
	tests := []struct {
		typ, format string
		want        bool
	}{
		{"string", "date-time", true}, {"string", "datetime", true}, {"", "ipv4", true}, {"string", "int32", false}, {"string", "ip", false},
		{"integer", "int64", true}, {"integer", "int32", true}, {"number", "float", true}, {"number", "", false}, {"boolean", "int64", false}, {"integer", "int16", false}, {"number", "double", true}, {"number", "int32", false}, {"object", "byte", false},
	}
	for _, tt := range tests {
		if got := crd.KnownFormat(tt.typ, tt.format); got != tt.want {
			t.Errorf("%q of %q: got %v", tt.format, tt.typ, got)
		}
	}
}

// TestSchemaWarnings checks all warnings about schemas, in their order, and that an update repeats
// none.
func TestSchemaWarnings(t *testing.T) {
	set := func(typ string) string {
		return `x-kubernetes-list-type: set for items of type "` + typ + `" is not supported by server-side apply or CEL validation rules`
	}
	for text, want := range map[string][]string{
		"a: {type: string, format: uuid}, b: {type: integer, format: int32}":                                                         nil,
		"a: {type: string, format: z}, b: {type: string, format: w}, c: {type: array, items: {type: string, format: z}}":             {`unrecognized format "w"`, `unrecognized format "z"`, `unrecognized format "z"`},
		"a: {type: array, x-kubernetes-list-type: set, items: {type: array, x-kubernetes-list-type: atomic, items: {type: string}}}": {set("array")},
		"a: {type: array, x-kubernetes-list-type: set, items: {type: object, x-kubernetes-map-type: atomic}}, b: {type: array, x-kubernetes-list-type: set, items: {type: array, items: {type: string}, x-kubernetes-list-type: atomic}}": {
			set("array"), set("object")},
		"a: {type: array, x-kubernetes-list-type: set, items: {type: string}}":    nil,
		"a: {type: array, x-kubernetes-list-type: atomic, items: {type: object}}": nil,
		"a: {type: array, items: {type: array, items: {type: string}}}":           nil,
	} {
		c := definition(t, "{type: object, properties: {"+text+"}}")
		r := create(c, schema.Kubernetes)
		if expect(t, r.Errors); !slices.Equal(r.Warnings, want) {
			t.Errorf("%s: got %q, want %q", text, r.Warnings, want)
		}
		if r := update(c.DeepCopy(), c, schema.Kubernetes); len(r.Warnings) > 0 {
			t.Errorf("%s: an update repeats %q", text, r.Warnings)
		}
		if r := update(c.DeepCopy(), definition(t, plain), schema.Kubernetes); !slices.Equal(r.Warnings, want) {
			t.Errorf("%s: an update adds %q, want %q", text, r.Warnings, want)
		}
	}
	// Items that are not one schema have no type.
	tuple := betaDefinition(t, `{properties: {a: {type: array, x-kubernetes-list-type: set, items: [{type: object}]}, b: {type: array, x-kubernetes-list-type: set}}}`, preserving(true))
	if got := createBeta(tuple, schema.Kubernetes).Warnings; len(got) > 0 {
		t.Errorf("got %q", got)
	}
	// Schemas that are looser than the documents require have warnings in their semantics, unless
	// they cannot be converted.
	loose := `{type: object, properties: {a: {x-kubernetes-int-or-string: true, anyOf: [{type: integer}, {type: string}], nullable: true}}}`
	for _, text := range []string{loose, plain} {
		c := definition(t, text)
		var want []string
		for _, f := range schema.Check(compile(t, c, schema.KEP).Versions()[0].Structural(), schema.KEP) {
			if !f.Refused {
				want = append(want, f.String())
			}
		}
		if got := create(c, schema.KEP).Warnings; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		if got := create(c, schema.Kubernetes).Warnings; len(got) > 0 {
			t.Errorf("kubernetes: got %q", got)
		}
	}
	if got := createBeta(betaDefinition(t, `{properties: {a: {id: x}}}`, preserving(true)), schema.KEP).Warnings; len(got) > 0 {
		t.Errorf("not convertible: got %q", got)
	}
	two := definition(t, `{type: object, properties: {a: {type: string, format: z}}}`, func(c *api.CustomResourceDefinition) {
		c.Spec.Versions = append(c.Spec.Versions, api.CustomResourceDefinitionVersion{Name: "v2", Schema: &api.CustomResourceValidation{OpenAPIV3Schema: props(t, `{type: object, properties: {b: {type: string, format: w}}}`)}})
	})
	if got := create(two, schema.Kubernetes).Warnings; !slices.Equal(got, []string{`unrecognized format "z"`, `unrecognized format "w"`}) {
		t.Errorf("two versions: got %q", got)
	}
}
