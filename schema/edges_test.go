package schema_test

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	"espalier.dev/internal/jsonx"
	"espalier.dev/schema"
)

// TestContradictionsElsewhere checks that an update is rejected if the old object has the same
// value at the beginning of the path of a contradiction, but not at its end.
func TestContradictionsElsewhere(t *testing.T) {
	p := compile(t, `{type: object, properties: {any: {type: object, additionalProperties: {type: object, properties: {i: {type: integer}}}}}}`)
	for old, ok := range map[string]bool{
		`{"any":{"a":{"i":"x"}}}`: true, `{"any":{"a":"x"}}`: false, `{"any":"x"}`: false, `{"any":["x"]}`: false, `{}`: false,
	} {
		_, _, err := p.Decode([]byte(`{"any":{"a":{"i":"x"}}}`), schema.DecodeOptions{Old: object(t, old)})
		var bad *schema.ContradictionError
		if errors.As(err, &bad) == ok {
			t.Errorf("old object %s: got %v", old, err)
		}
	}
}

// TestCompareSchemaPaths checks the order of paths in a schema.
func TestCompareSchemaPaths(t *testing.T) {
	plain := schema.SchemaPath{{Keyword: "items"}}
	indexed := func(i int) schema.SchemaPath {
		return schema.SchemaPath{{Keyword: "items", Form: schema.StepIndexed, Index: i}}
	}
	named := func(name string) schema.SchemaPath {
		return schema.SchemaPath{{Keyword: "items", Form: schema.StepNamed, Name: name}}
	}
	sorted := []schema.SchemaPath{nil, {{Keyword: "anyOf"}}, plain, append(slices.Clone(plain), plain...), named("a"), named("b"), indexed(0), indexed(2), {{Keyword: "not"}}}
	for i, a := range sorted {
		for j, b := range sorted {
			if got := a.Compare(b); (got < 0) != (i < j) || (got > 0) != (i > j) {
				t.Errorf("%v and %v: got %d", a, b, got)
			}
		}
	}
}

// TestMessagesOfSizes checks the messages about the sizes of lists and objects.
func TestMessagesOfSizes(t *testing.T) {
	p := compile(t, `{type: object, properties: {a: {type: array, maxItems: 1, items: {type: integer}}, b: {type: array, minItems: 3, items: {type: integer}},
  c: {type: object, maxProperties: 1, additionalProperties: {type: integer}}, d: {type: object, minProperties: 3, additionalProperties: {type: integer}},
  e: {type: string, maxLength: 1}, f: {type: string, minLength: 3}}}`)
	got := p.Validate(t.Context(), object(t, `{"a":[1,2],"b":[1,2],"c":{"x":1,"y":2},"d":{"x":1,"y":2},"e":"xy","f":"xy"}`), nil).Messages()
	slices.Sort(got)
	want := []string{
		"a in body should have at most 1 items", "b in body should have at least 3 items",
		"c in body should have at most 1 properties", "d in body should have at least 3 properties",
		"e in body should be at most 1 chars long", "f in body should be at least 3 chars long",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestTruncated checks that violations in branches count.
func TestTruncated(t *testing.T) {
	list := func(n int) schema.Violations { return make(schema.Violations, n) }
	with := func(n, branches int) schema.Violations {
		vs := list(n)
		vs[0].Branches = []schema.Violations{list(branches / 2), list(branches - branches/2)}
		return vs
	}
	for name, tt := range map[string]struct {
		vs   schema.Violations
		want bool
	}{
		"fewer": {list(schema.MaxViolations - 1), false}, "as many": {list(schema.MaxViolations), true}, "more": {list(schema.MaxViolations + 1), true},
		"fewer with branches": {with(1, schema.MaxViolations-2), false}, "as many with branches": {with(1, schema.MaxViolations-1), true},
		"in one branch": {with(1, 2*schema.MaxViolations), true}, "none": {nil, false},
		"a long value": {schema.Violations{{Want: schema.Operand{Allowed: []any{strings.Repeat("v", 1000*schema.MaxViolations)}}}}, true},
	} {
		if got := tt.vs.Truncated(); got != tt.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
	if got, want := schema.MoreErrors().Error(), "<nil>: Invalid value: null: there may be more errors: correct the existing errors to complete validation"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestDepth checks that values are decoded up to the depth that the reader allows.
func TestDepth(t *testing.T) {
	p := compile(t, `{type: object, properties: {a: {type: array}}}`)
	for depth, ok := range map[int]bool{jsonx.MaxDepth - 1: true, jsonx.MaxDepth: false} {
		for _, last := range []string{"[]", "{}"} {
			text := `{"a":` + strings.Repeat("[", depth-1) + last + strings.Repeat("]", depth-1) + "}"
			_, _, err := p.Decode([]byte(text), schema.DecodeOptions{})
			if (err == nil) != ok || err != nil && !strings.Contains(err.Error(), "exceeded max depth") {
				t.Errorf("%d levels of %s: got %v", depth, last, err)
			}
			if got := p.IsNormal([]byte(text)); got != ok {
				t.Errorf("%d levels of %s: normal is %v", depth, last, got)
			}
		}
	}
}

// TestJSONSchemaLimit checks that a jsonSchema, too, stops after enough violations: in fields, items
// and tuples.
func TestJSONSchemaLimit(t *testing.T) {
	p, err := schema.CompileJSONSchema(props(t, `{properties: {map: {additionalProperties: {type: string}}, list: {items: {type: string}}, tuple: {items: [{type: string}], additionalItems: {type: string}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	const n = schema.MaxViolations + 10
	items, fields := make([]any, n), map[string]any{}
	for i := range n {
		items[i], fields[strconv.Itoa(i)] = int64(i), int64(i)
	}
	for name, v := range map[string]any{"map": fields, "list": items, "tuple": items} {
		obj := schema.Object{name: v}
		if got := len(p.Validate(t.Context(), obj, nil)); got != schema.MaxViolations {
			t.Errorf("%s: got %d violations, want %d", name, got, schema.MaxViolations)
		}
		if got := len(p.Validate(schema.Exhaustive(t.Context()), obj, nil)); got != n {
			t.Errorf("%s: got %d violations, want all of %d", name, got, n)
		}
	}
}

// TestIntOrStringForms checks which branches of an anyOf express int-or-string: those without
// anything but the type, or with values that kube-apiserver reads as absent.
func TestIntOrStringForms(t *testing.T) {
	null, one := &schema.JSON{}, &schema.JSON{Value: int64(1)}
	for name, tt := range map[string]struct {
		change func(*schema.NestedValueValidation)
		ok     bool
	}{
		"nothing":            {func(*schema.NestedValueValidation) {}, true},
		"a default of null":  {func(v *schema.NestedValueValidation) { v.ForbiddenGenerics.Default = null }, true},
		"a default":          {func(v *schema.NestedValueValidation) { v.ForbiddenGenerics.Default = one }, false},
		"an example of null": {func(v *schema.NestedValueValidation) { v.ForbiddenGenerics.Example = null }, true},
		"an example":         {func(v *schema.NestedValueValidation) { v.ForbiddenGenerics.Example = one }, false},
		"no other fields":    {func(v *schema.NestedValueValidation) { v.AdditionalProperties = &schema.NestedOrBool{} }, true},
		"all other fields":   {func(v *schema.NestedValueValidation) { v.AdditionalProperties = &schema.NestedOrBool{Bool: true} }, false},
		"a title":            {func(v *schema.NestedValueValidation) { v.ForbiddenGenerics.Title = "t" }, false},
		"a minimum":          {func(v *schema.NestedValueValidation) { one := 1.0; v.Minimum = &one }, false},
		"another type":       {func(v *schema.NestedValueValidation) { v.ForbiddenGenerics.Type = "number" }, false},
		"a schema of no value": {func(v *schema.NestedValueValidation) {
			v.AdditionalProperties = &schema.NestedOrBool{Nested: &schema.NestedValueValidation{}}
		}, false},
	} {
		s := parseStructural(t, `{type: object, properties: {v: {x-kubernetes-int-or-string: true, anyOf: [{type: integer}, {type: string}]}}}`)
		tt.change(&s.Properties["v"].ValueValidation.AnyOf[0])
		rejected := slices.ContainsFunc(schema.Check(s, schema.Kubernetes), func(f schema.Finding) bool {
			return f.Path.String() == ".properties[v].anyOf[1].type"
		})
		if rejected == tt.ok {
			t.Errorf("%s: the type of the other branch is rejected: %t", name, rejected)
		}
	}
}

// TestStructuralForms checks which schemas are structural where the two semantics look at unions,
// types and metadata.
func TestStructuralForms(t *testing.T) {
	const union = `x-kubernetes-unions: [{discriminator: t, fields: {a: A, b: B}}]`
	for text, want := range map[string][2]int{ // the numbers of findings
		`{type: object, properties: {v: {x-kubernetes-int-or-string: true, anyOf: [{type: integer}, {type: string}]}}}`:                                                                                       {0, 0},
		`{type: object, properties: {v: {x-kubernetes-int-or-string: true, anyOf: [{type: integer}, {type: string, title: x}]}}}`:                                                                             {3, 3},
		`{type: object, properties: {v: {x-kubernetes-int-or-string: true, allOf: [{anyOf: [{type: integer}, {type: string}]}]}}}`:                                                                            {0, 0},
		`{type: object, properties: {v: {x-kubernetes-int-or-string: true, allOf: [{anyOf: [{type: integer}, {type: number}]}]}}}`:                                                                            {2, 2},
		`{type: object, properties: {v: {x-kubernetes-int-or-string: true, oneOf: [{type: integer}, {type: string}]}}}`:                                                                                       {0, 2},
		`{type: object, properties: {v: {x-kubernetes-int-or-string: true, oneOf: [{type: integer}, {type: number}]}}}`:                                                                                       {2, 2},
		`{type: object, anyOf: [{properties: {a: {properties: {kind: {minLength: 1}}}}}], properties: {a: {type: object}}}`:                                                                                   {1, 1},
		`{type: object, anyOf: [{properties: {a: {properties: {kind: {minLength: 1}}}}}], properties: {a: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}}}`: {0, 1},
		`{type: object, properties: {metadata: {type: object, ` + union + `}}}`:                                                                                                                               {4, 0},
		`{type: object, ` + union + `, properties: {t: {type: string}, a: {type: object}, b: {type: object}}}`:                                                                                                {0, 0},
		`{type: object, ` + union + `, properties: {t: {type: string, minLength: 1}, a: {type: object}, b: {type: object}}}`:                                                                                  {0, 0},
		`{type: object, ` + union + `, properties: {t: {type: string, enum: [A, B]}, a: {type: object}, b: {type: object}}}`:                                                                                  {0, 0},
		`{type: object, ` + union + `, properties: {t: {type: string, enum: [A]}, a: {type: object}, b: {type: object}}}`:                                                                                     {1, 0},
		`{type: object, ` + union + `, properties: {t: {type: integer}, a: {type: object}, b: {type: object}}}`:                                                                                               {1, 0},
		`{type: object, ` + union + `, properties: {a: {type: object}, b: {type: object}}}`:                                                                                                                   {1, 0},
	} {
		for i, sem := range both {
			if got := schema.Check(parseStructural(t, text), sem); len(got) != want[i] {
				t.Errorf("%v: %s: got %v, want %d", sem, text, got, want[i])
			}
		}
	}
}

// TestMetadataExample checks that the schema of metadata may have an example of null, which
// kube-apiserver reads as absent.
func TestMetadataExample(t *testing.T) {
	for _, sem := range both {
		for value, ok := range map[any]bool{nil: true, "x": false} {
			s := parseStructural(t, `{type: object, properties: {metadata: {type: object}}}`)
			s.Properties["metadata"].Example = &schema.JSON{Value: value}
			if got := schema.Check(s, sem); len(got) == 0 != ok {
				t.Errorf("%v: %v: got %v", sem, value, got)
			}
		}
	}
}

// TestCheckLimit checks that findings about fields that are not in the core are bounded: each has a
// path, and they may be far down.
func TestCheckLimit(t *testing.T) {
	const levels = 2000
	s, v := &schema.Structural{Generic: schema.Generic{Type: "object"}}, &schema.NestedValueValidation{}
	for range levels {
		s = &schema.Structural{Generic: schema.Generic{Type: "object"}, Properties: map[string]*schema.Structural{"a": s}}
		v = &schema.NestedValueValidation{Properties: map[string]*schema.NestedValueValidation{"a": v, "b": {}}}
	}
	s.ValueValidation = &schema.ValueValidation{Not: v}
	if got := len(schema.Check(s, schema.KEP)); got < 100 || got >= levels {
		t.Errorf("got %d findings", got)
	}
}

// TestManyOwners checks the number of owner references that an object may have.
func TestManyOwners(t *testing.T) {
	p := compile(t, `{type: object}`, schema.WithIdentity(schema.Identity{APIVersion: "example.com/v1", Kind: "Thing", Namespaced: true}))
	owners := make([]any, schema.MaxOwnerReferences+1)
	for i := range owners {
		owners[i] = map[string]any{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}
	}
	for n, want := range map[int]int{schema.MaxOwnerReferences: 0, schema.MaxOwnerReferences + 1: 1} {
		got := errorsOf(p, schema.Object{"apiVersion": "example.com/v1", "kind": "Thing",
			"metadata": map[string]any{"name": "a", "namespace": "b", "ownerReferences": owners[:n]}}, nil)
		if len(got) != want || want > 0 && got[0] != "metadata.ownerReferences: Too many: 65537: must have at most 65536 items" {
			t.Errorf("%d: got %.300q", n, got)
		}
	}
}

// TestEmbeddedInMetadata checks that a malformed resource in metadata, where a schema has one, is
// rejected like any other.
func TestEmbeddedInMetadata(t *testing.T) {
	p := compile(t, `{type: object, properties: {r: {type: object, x-kubernetes-embedded-resource: true, properties: {metadata: {type: object, properties: {
  managedFields: {type: array, items: {type: object, properties: {fieldsV1: {type: object, x-kubernetes-embedded-resource: true}}}}}}}}}}`)
	for kind, ok := range map[string]bool{`"Pod"`: true, `1`: false} {
		obj := object(t, `{"r":{"apiVersion":"v1","kind":"Pod","metadata":{"managedFields":[{"fieldsV1":{"apiVersion":"v1","kind":`+kind+`}}]}}}`)
		_, err := p.Normalize(obj, schema.DecodeOptions{})
		if (err == nil) != ok || err != nil && !strings.HasPrefix(err.Error(), "r.metadata.managedFields[0].fieldsV1.kind: ") {
			t.Errorf("%s: got %v", kind, err)
		}
	}
}

// TestPrunedDefault checks that a default in metadata that metadata cannot have is not filled in.
func TestPrunedDefault(t *testing.T) {
	p := compile(t, `{type: object, properties: {r: {type: object, x-kubernetes-embedded-resource: true, properties: {metadata: {type: object, properties: {
  labels: {type: object, properties: {"x": {type: object, default: {}}}}}}}}}}`)
	const text = `{"r":{"apiVersion":"v1","kind":"Pod","metadata":{"labels":{"a":"b"}}}}`
	obj, _, err := p.Decode([]byte(text), schema.DecodeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	sameJSON(t, obj, text)
}
