package schema_test

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"

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

// TestNames compares the validation of names, namespaces, labels and annotations with that of Kubernetes: most are
// valid at a glance.
func TestNames(t *testing.T) {
	var texts []string
	for c := range 256 {
		for _, form := range []string{"%s", "%sa", "a%s", "a%sa", "a%s%[1]sa", "1%s", "a%sa/x", "a/%sx"} {
			texts = append(texts, fmt.Sprintf(form, string([]byte{byte(c)})))
		}
	}
	for _, n := range []int{0, 1, 62, 63, 64, 65, 200, 201, 202, 252, 253, 254} {
		long := strings.Repeat("a", n)
		texts = append(texts, long, long+".b", long+"/x", strings.Repeat("a.", n)+"b", strings.Repeat("a.", n/2)+"b/x")
	}
	p := compile(t, `{type: object}`, schema.WithIdentity(schema.Identity{APIVersion: "example.com/v1", Kind: "Thing", Namespaced: true}))
	for apiVersion, kind := range map[string]string{"example.com/v1": "Other", "example.com/v2": "Thing"} {
		obj := schema.Object{"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"name": "a", "namespace": "b"}}
		if vs := p.Validate(t.Context(), obj, nil); len(vs) != 1 {
			t.Errorf("%s %s: got %q", apiVersion, kind, vs.Messages())
		}
	}
	embedded := compile(t, `{type: object, properties: {r: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}}}`)
	for _, s := range texts {
		vs := embedded.Validate(t.Context(), schema.Object{"r": map[string]any{"apiVersion": "v1", "kind": s}}, nil)
		if valid := len(validation.IsDNS1035Label(strings.ToLower(s))) == 0; len(vs) == 0 != valid {
			t.Errorf("kind %q: got %q", s, vs.Messages())
		}
		for field, c := range map[string]struct {
			value any
			valid bool
		}{
			"name":        {s, len(validation.IsDNS1123Subdomain(s)) == 0},
			"namespace":   {s, len(validation.IsDNS1123Label(s)) == 0},
			"labels":      {map[string]any{"k": s}, len(validation.IsValidLabelValue(s)) == 0},
			"annotations": {map[string]any{s: s}, len(validation.IsQualifiedName(strings.ToLower(s))) == 0},
		} {
			meta := map[string]any{"name": "a", "namespace": "b"}
			meta[field] = c.value
			vs := p.Validate(t.Context(), schema.Object{"apiVersion": "example.com/v1", "kind": "Thing", "metadata": meta}, nil)
			if len(vs) == 0 != c.valid {
				t.Errorf("%s %q: got %q", field, s, vs.Messages())
			}
		}
		keyed := map[string]any{"name": "a", "namespace": "b", "labels": map[string]any{s: "v"}}
		vs = p.Validate(t.Context(), schema.Object{"apiVersion": "example.com/v1", "kind": "Thing", "metadata": keyed}, nil)
		if valid := len(validation.IsQualifiedName(s)) == 0; len(vs) == 0 != valid {
			t.Errorf("label with the key %q: got %q", s, vs.Messages())
		}
	}
	// All annotations together have a limit.
	for n, valid := range map[int]bool{64: true, 66: false} {
		annotations := map[string]any{}
		for i := range n {
			annotations[fmt.Sprint("a", i)] = strings.Repeat("x", 4000)
		}
		vs := p.Validate(t.Context(), schema.Object{"apiVersion": "example.com/v1", "kind": "Thing", "metadata": map[string]any{"name": "a", "namespace": "b", "annotations": annotations}}, nil)
		if len(vs) == 0 != valid {
			t.Errorf("%d annotations: got %q", n, vs.Messages())
		}
	}
}

// TestListLengths checks lists around the lengths at which the way of comparing their items changes.
func TestListLengths(t *testing.T) {
	const text = `{type: object, properties: {
  set: {type: array, x-kubernetes-list-type: set, items: {x-kubernetes-preserve-unknown-fields: true}},
  unique: {type: array, uniqueItems: true, items: {x-kubernetes-preserve-unknown-fields: true}},
  lists: {type: array, x-kubernetes-list-type: set, items: {type: array, x-kubernetes-list-type: atomic, items: {type: integer}}},
  map: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k], items: {type: object, properties: {k: {type: string}}}},
  pairs: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [a, b], items: {type: object, properties: {a: {type: integer}, b: {type: boolean}}}},
  triples: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [a, b, c], items: {type: object, properties: {a: {type: integer}, b: {type: boolean}, c: {type: string}}}}}}`
	p := compile(t, text)
	for n := range 300 {
		if n > 40 && n < 250 {
			continue
		}
		lists := map[string][]any{}
		for i := range n {
			lists["set"] = append(lists["set"], int64(i))
			lists["lists"] = append(lists["lists"], []any{int64(i)})
			lists["unique"] = append(lists["unique"], map[string]any{"a": []any{fmt.Sprint(i)}})
			lists["map"] = append(lists["map"], map[string]any{"k": fmt.Sprint(i)})
			pair := map[string]any{"a": int64(i / 2), "b": i%2 == 0, "c": "c"}
			lists["pairs"], lists["triples"] = append(lists["pairs"], pair), append(lists["triples"], pair)
		}
		for name, list := range lists {
			if vs := p.Validate(t.Context(), schema.Object{name: list}, nil); len(vs) > 0 {
				t.Errorf("%s of %d: got %q", name, n, vs.Messages())
			}
			// The first item again, twice: the first of them is reported.
			again := append(slices.Clone(list), list[0], list[0])
			vs := p.Validate(t.Context(), schema.Object{name: again}, nil)
			if at := fmt.Sprintf("%s[%d]", name, n); len(vs) != 1 || name != "unique" && vs[0].Path.String() != at {
				t.Errorf("%s of %d: got %q, want a duplicate at %s", name, n, vs.Messages(), at)
			}
		}
	}
	notObject := func(v schema.Violation) bool { return v.Kind == schema.NotAnObject }
	if vs := p.Validate(t.Context(), schema.Object{"map": []any{map[string]any{"k": "a"}, "x"}}, nil); !slices.ContainsFunc(vs, notObject) {
		t.Errorf("got %q", vs.Messages())
	}
}

// TestUnknownKinds checks the texts of kinds that are not known.
func TestUnknownKinds(t *testing.T) {
	for got, want := range map[string]string{
		schema.MetadataDropped.String(): "metadata dropped", (schema.MetadataDropped + 1).String(): "unknown",
		schema.Builtin.String(): "built-in", (schema.Builtin + 1).String(): "unknown",
		schema.UnionDiscriminator.String(): "UnionDiscriminator", (schema.UnionDiscriminator + 1).String(): "unknown",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
