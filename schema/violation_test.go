package schema_test

import (
	"context"
	"reflect"
	"slices"
	"testing"

	"espalier.dev/schema"
)

// TestOperands shows that what a keyword asks for is data, and the operand of each kind
// stands in a field of its own.
func TestOperands(t *testing.T) {
	tests := []struct {
		schema, value string
		kind          schema.ViolationKind
		want          schema.Operand
	}{
		{`{type: string}`, `1`, schema.WrongType, schema.Operand{Types: []string{"string"}}},
		{`{type: string, format: date}`, `"x"`, schema.WrongFormat, schema.Operand{Format: "date"}},
		{`{type: string, enum: [a, b]}`, `"c"`, schema.Enum, schema.Operand{Allowed: []any{"a", "b"}}},
		{`{type: string, maxLength: 1}`, `"ab"`, schema.MaxLength, schema.Operand{Limit: 1}},
		{`{type: string, minLength: 3}`, `"ab"`, schema.MinLength, schema.Operand{Limit: 3}},
		{`{type: string, pattern: "^a$"}`, `"b"`, schema.Pattern, schema.Operand{Pattern: "^a$"}},
		{`{type: integer, maximum: 3, exclusiveMaximum: true}`, `3`, schema.Maximum, schema.Operand{Bound: 3, Exclusive: true}},
		{`{type: number, minimum: 1.5}`, `1.25`, schema.Minimum, schema.Operand{Bound: 1.5}},
		{`{type: integer, multipleOf: 2}`, `3`, schema.MultipleOf, schema.Operand{Bound: 2}},
		{`{type: array, maxItems: 1, items: {type: string}}`, `["a","b"]`, schema.MaxItems, schema.Operand{Limit: 1}},
		{`{type: object, minProperties: 1}`, `{}`, schema.MinProperties, schema.Operand{Limit: 1}},
	}
	for _, tt := range tests {
		p := compile(t, "{type: object, properties: {v: "+tt.schema+"}}")
		vs := p.Validate(context.Background(), object(t, `{"v":`+tt.value+`}`), nil)
		if len(vs) != 1 || vs[0].Kind != tt.kind || !reflect.DeepEqual(vs[0].Want, tt.want) {
			t.Errorf("%s: %s: got %+v, want %s %+v", tt.schema, tt.value, vs, tt.kind, tt.want)
		}
	}
}

// TestMetadataPaths shows that violations of metadata have a path of their own and the
// value at it, although Kubernetes' errors hold the path as text. The errors are those
// of k8s.io/apimachinery itself.
func TestMetadataPaths(t *testing.T) {
	tests := []struct {
		metadata string
		path     string
		value    any
	}{
		{`{"name":"a/b"}`, "name", "a/b"},
		{`{}`, "name", nil},
		{`{"name":"a","namespace":"-"}`, "namespace", "-"},
		{`{"name":"a","generation":-1}`, "generation", int64(-1)},
		{`{"name":"a","labels":{"a.b/c":"-"}}`, "labels", map[string]any{"a.b/c": "-"}},
		{`{"name":"a","annotations":{"-":""}}`, "annotations", map[string]any{"-": ""}},
		{`{"name":"a","finalizers":["-"]}`, "finalizers", []any{"-"}},
		{`{"name":"a","ownerReferences":[{"apiVersion":"v1","kind":"K","name":"n","uid":"u"},{"apiVersion":"v1","kind":"","name":"n","uid":"u"}]}`, "ownerReferences[1].kind", ""},
		{`{"name":"a","managedFields":[{"operation":"Nope","fieldsType":"FieldsV1"}]}`, "managedFields[0].operation", "Nope"},
	}
	id := schema.WithIdentity(schema.Identity{APIVersion: "example.com/v1", Kind: "K", Namespaced: true})
	for _, tt := range tests {
		t.Run(tt.path, func(t *testing.T) {
			root := object(t, `{"apiVersion":"example.com/v1","kind":"K","metadata":`+tt.metadata+`}`)
			if meta := root["metadata"].(map[string]any); meta["namespace"] == nil {
				meta["namespace"] = "default"
			}
			checkMetadataPath(t, compile(t, "{type: object}", id).Validate(context.Background(), root, nil), "metadata."+tt.path, tt.value)
			if tt.metadata == `{}` {
				return // an embedded resource needs no name
			}
			// Names that look like parts of a path stand around an embedded resource.
			p := compile(t, `{type: object, properties: {"a.b": {type: object, additionalProperties: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}}}}`)
			outer := object(t, `{"a.b":{"[0].metadata":{"apiVersion":"v1","kind":"K","metadata":`+tt.metadata+`}}}`)
			checkMetadataPath(t, p.Validate(context.Background(), outer, nil), `a.b.[0].metadata.metadata.`+tt.path, tt.value)
		})
	}
}

func checkMetadataPath(t *testing.T, vs schema.Violations, path string, value any) {
	t.Helper()
	if !slices.ContainsFunc(vs, func(v schema.Violation) bool {
		return v.Kind == schema.Metadata && v.Path.String() == path && reflect.DeepEqual(v.Value, value)
	}) {
		t.Errorf("no violation of %s with the value %#v", path, value)
		for _, v := range vs {
			t.Logf("%s: %#v", v.Path, v.Value)
		}
	}
}
