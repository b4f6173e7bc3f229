package object_test

import (
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
