package object_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"espalier.dev/analysis/object"
	"espalier.dev/schema"
)

// TestTruncatedViolations checks that an object with very many violations has a finding that says
// that there may be more.
func TestTruncatedViolations(t *testing.T) {
	const document = `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: things.example.com},
spec: {group: example.com, scope: Cluster, names: {plural: things, kind: Thing}, versions: [{name: v1, served: true, storage: true,
schema: {openAPIV3Schema: {type: object, properties: {a: {type: array, items: {type: string, maxLength: 1}}}}}}]}}`
	for _, n := range []int{schema.MaxViolations - 1, 2 * schema.MaxViolations} {
		source := `{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a"},"a":["zz"` + strings.Repeat(`,"zz"`, n-1) + `]}`
		findings := checker(t, document, schema.Kubernetes, nil).Check(t.Context(), []byte(source), nil, object.Warn)
		more := 0
		for _, f := range findings {
			if strings.Contains(f.Message, "there may be more errors") {
				more++
			}
		}
		if want := min(n/schema.MaxViolations, 1); more != want || len(findings) < min(n, schema.MaxViolations) {
			t.Errorf("%d violations: %d findings, %d of them say that there are more", n, len(findings), more)
		}
	}
}

// TestTooLargeDefaults checks that an object whose defaults are too large has one finding: without its defaults, it
// would violate its schema.
func TestTooLargeDefaults(t *testing.T) {
	document := `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: things.example.com},
spec: {group: example.com, scope: Cluster, names: {plural: things, kind: Thing}, versions: [{name: v1, served: true, storage: true,
schema: {openAPIV3Schema: {type: object, properties: {a: {type: array, items: {type: object, required: [b], properties: {b: {type: string, default: ` +
		strings.Repeat("x", 40_000) + `}}}}}}}}]}}`
	source := `{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a"},"a":[{}` + strings.Repeat(`,{}`, 99) + `]}`
	findings := checker(t, document, schema.Kubernetes, nil).Check(t.Context(), []byte(source), nil, object.Warn)
	if len(findings) != 1 || findings[0].Rule != object.RuleDecode || !strings.HasPrefix(findings[0].Message, "a[*].b: the defaults of the object have more than") {
		t.Errorf("%d findings: %.300v", len(findings), findings)
	}
}

// TestTruncatedChanges checks that an object with very many unknown fields has a finding that says
// that there are more.
func TestTruncatedChanges(t *testing.T) {
	// The total length of the paths is limited, so deep ones make it quick.
	const depth = 100
	c := checker(t, thingsWith(strings.Repeat(`{type: object, properties: {a: `, depth)+`{type: object}`+strings.Repeat(`}}`, depth)), schema.Kubernetes, nil)
	var fields []string
	for i := range 3000 {
		fields = append(fields, fmt.Sprintf(`"a%d": 1`, i))
	}
	deep := func(fields string) []byte {
		return thing(`"a": ` + strings.Repeat(`{"a": `, depth-1) + `{` + fields + `}` + strings.Repeat(`}`, depth-1))
	}
	few, many := deep(fields[0]), deep(strings.Join(fields, ", "))
	for severity, fields := range map[string]object.FieldValidation{"warning": object.Warn, "error": object.Strict} {
		want := severity + ` unknown-field : there are more unknown fields than listed here`
		if got := lines(c.Check(t.Context(), many, nil, fields)); !slices.Contains(got, want) {
			t.Errorf("%s: %d lines", severity, len(got))
		}
		if got := lines(c.Check(t.Context(), few, nil, fields)); slices.Contains(got, want) {
			t.Errorf("%s: %q", severity, got)
		}
	}
	expect(t, c.Check(t.Context(), many, nil, object.Ignore))
	const more = `info unknown-field : there are more changes than listed here`
	if got := lines(c.Prune(many).Reasons()); !slices.Contains(got, more) {
		t.Errorf("%d lines", len(got))
	}
	if got := lines(c.Prune(few).Reasons()); slices.Contains(got, more) {
		t.Errorf("%q", got)
	}
}
