package schema_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/schema"
)

// TestMessages checks the messages of keywords that few schemas have, in both semantics.
func TestMessages(t *testing.T) {
	for _, tt := range []struct {
		schema, value string
		want          []string // as kube-apiserver reports them
	}{
		{`{type: array, uniqueItems: true, items: {type: string}}`, `["a","a"]`, []string{`v: Invalid value: "": v in body shouldn't contain duplicates`}},
		{`{type: integer, format: int32, maximum: -1e10}`, `1`, []string{
			`<nil>: Invalid value: "": Maximum boundary value must be of type integer with format int32 in v`,
			`v: Invalid value: 1: v in body should be less than or equal to -1e+10`}},
		{`{type: integer, format: int32, minimum: 1e10}`, `1`, []string{
			`<nil>: Invalid value: "": Minimum boundary value must be of type integer with format int32 in v`,
			`v: Invalid value: 1: v in body should be greater than or equal to 1e+10`}},
		{`{type: integer, format: int32, multipleOf: 1e10}`, `1`, []string{
			`<nil>: Invalid value: "": MultipleOf value must be of type integer with format int32 in v`,
			`v: Invalid value: 1: v in body should be a multiple of 1e+10`}},
		{`{type: integer, multipleOf: 0.5}`, `1`, []string{
			`<nil>: Invalid value: "": MultipleOf value must be of type integer (default format) in v`}},
		{`{type: integer, maximum: 3}`, `4`, []string{`v: Invalid value: 4: v in body should be less than or equal to 3`}},
		{`{type: string, pattern: "^(a*b?){1000}$"}`, `"` + strings.Repeat("a", 200_000) + `"`, []string{
			"v in body should match '^(a*b?){1000}$', but a text of 200000 bytes is too long for a regular expression of "}},
	} {
		for _, sem := range both {
			if testing.Short() && sem == schema.KEP && len(tt.value) > 1000 {
				continue // takes seconds
			}
			p := compile(t, `{type: object, properties: {v: `+tt.schema+`}}`, schema.WithSemantics(sem))
			vs := p.Validate(t.Context(), object(t, `{"v":`+tt.value+`}`), nil)
			got := make([]string, len(vs))
			for i, err := range vs.FieldErrorsIn(sem) {
				got[i] = err.Error()
			}
			if !slices.EqualFunc(got, tt.want, strings.Contains) {
				t.Errorf("%v: %s: got %.500q, want %q", sem, tt.schema, got, tt.want)
			}
			for i, message := range vs.Messages() {
				if !strings.HasSuffix(got[i], message) {
					t.Errorf("%v: %s: got the message %.500q, want the end of %.500q", sem, tt.schema, message, got[i])
				}
			}
		}
	}
}

// TestEqualMessages checks that violations of a schema with equal messages are reported once, and all
// others each.
func TestEqualMessages(t *testing.T) {
	p := compile(t, `{type: object, properties: {v: {type: integer, maximum: 3, not: {enum: [9]}, allOf: [{maximum: 3}, {maximum: 3}]}}}`)
	vs := p.Validate(t.Context(), object(t, `{"v":4}`), nil)
	const want = "v in body should be less than or equal to 3"
	for _, sem := range both {
		count := 0
		for _, err := range vs.FieldErrorsIn(sem) {
			if err.Detail == want {
				count++
			}
		}
		if count != 1 {
			t.Errorf("%v: got %d errors in %v", sem, count, vs.FieldErrorsIn(sem))
		}
	}
	cause := field.Invalid(field.NewPath("a"), 1, "why")
	for _, kind := range []schema.ViolationKind{schema.Rule, schema.Metadata, schema.Scale, schema.Builtin} {
		twice := schema.Violations{{Kind: kind, Cause: cause}, {Kind: kind, Cause: cause}}
		if got := twice.FieldErrors(); len(got) != 2 || got[0] != cause {
			t.Errorf("%v: got %v", kind, got)
		}
		if got := twice.Messages(); !slices.Equal(got, []string{"a: Invalid value: 1: why"}) || twice[0].String() != got[0] {
			t.Errorf("%v: got the messages %q", kind, got)
		}
	}
}

// TestNamesBelow checks that messages omit the first fields of paths if they are told to, and that
// the paths of the errors stay as they are.
func TestNamesBelow(t *testing.T) {
	const text = `{type: object, properties: {status: {type: object, properties: {size: {type: integer, maximum: 1}}}}}`
	for below, want := range map[int]string{
		0: "status.size: Invalid value: 2: status.size in body should be less than or equal to 1",
		1: "status.size: Invalid value: 2: size in body should be less than or equal to 1",
	} {
		p := compile(t, text, schema.WithNamesBelow(below))
		if got := errorsOf(p, object(t, `{"status":{"size":2}}`), nil); !slices.Equal(got, []string{want}) {
			t.Errorf("%d: got %q, want %q", below, got, want)
		}
	}
}

// TestSharedPatterns checks that programs with shared patterns apply their own.
func TestSharedPatterns(t *testing.T) {
	var shared schema.Patterns
	for range 2 {
		for pattern, want := range map[string]bool{"^a$": true, "^b$": false} {
			p := compile(t, `{type: object, properties: {v: {type: string, pattern: "`+pattern+`"}}}`, schema.WithPatterns(&shared))
			if got := errorsOf(p, object(t, `{"v":"a"}`), nil); len(got) == 0 != want {
				t.Errorf("%s: got %q", pattern, got)
			}
		}
	}
}

// failingRule is a rule that every object violates.
type failingRule struct{}

func (failingRule) Validate(context.Context, schema.Object, schema.Object) schema.Violations {
	return schema.Violations{{Kind: schema.UnionMembers, Closest: -1}}
}

// TestRulesAfterViolations checks that rules are evaluated beside violations that leave the types and
// sizes of values as the schema requires, and skipped with an error beside all others.
func TestRulesAfterViolations(t *testing.T) {
	p := compile(t, `{type: object, required: [v], x-kubernetes-validations: [{rule: "false"}], properties: {v: {type: string, maxLength: 5, pattern: "^a", enum: [a, aa, aaaaaa, b]}, size: {type: integer},
  list: {type: array, maxItems: 1, items: {type: string}}, map: {type: object, maxProperties: 1, additionalProperties: {type: string}}}}`,
		schema.WithSemantics(schema.Kubernetes), schema.WithRules(func(*schema.Structural) (schema.Rules, error) { return failingRule{}, nil }))
	const skipped = "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"
	for input, evaluated := range map[string]bool{
		`{"v":"a"}`: true, `{"v":"b"}`: true,
		`{}`: false, `{"v":"a","size":"x"}`: false, `{"v":"aaaaaa"}`: false, `{"v":"ac"}`: false, `{"v":"a","list":["x","y"]}`: false, `{"v":"a","map":{"x":"","y":""}}`: false,
	} {
		vs := p.Validate(t.Context(), object(t, input), nil)
		last := vs[len(vs)-1]
		if got := errorsOf(p, object(t, input), nil); evaluated != (last.Kind == schema.UnionMembers) || evaluated == slices.Contains(got, skipped) {
			t.Errorf("%s: got %q", input, got)
		}
		if !evaluated && (last.Kind != schema.RulesSkipped || last.Closest != -1) {
			t.Errorf("%s: the last violation is %+v", input, last)
		}
	}
}

// TestSemanticsDiffer checks in which semantics each difference that only servers and tools use
// applies.
func TestSemanticsDiffer(t *testing.T) {
	kep, kubernetes := schema.KEP, schema.Kubernetes
	for name, differs := range map[string]func(schema.Semantics) bool{
		"foreign fields of CRDs": schema.Semantics.KnowsForeignFields, "jsonSchema": schema.Semantics.KnowsJSONSchema,
		"pruning of owned fields": schema.Semantics.PrunesOwnedFields, "nulls of apply": schema.Semantics.DropsAppliedNulls,
		"normalization after admission": schema.Semantics.NormalizesMutations, "reports of other pruning": schema.Semantics.ReportsOtherPruning,
		"checks of stored objects": schema.Semantics.ChecksStoredObjects, "warnings": schema.Semantics.WarnsOfDifferences,
	} {
		if !differs(kep) || differs(kubernetes) {
			t.Errorf("%s: got %t and %t", name, differs(kep), differs(kubernetes))
		}
	}
	for _, sem := range both {
		if got, err := schema.ParseSemantics(sem.String()); got != sem || err != nil || sem.Other() == sem || sem.Other().Other() != sem {
			t.Errorf("%v: got %v, %v, and %v as the other", sem, got, err, sem.Other())
		}
	}
	if _, err := schema.ParseSemantics("KEP"); err == nil || !strings.Contains(err.Error(), `"KEP": use kep or kubernetes`) {
		t.Errorf("got %v", err)
	}
}
