package object_test

import (
	"slices"
	"testing"

	"espalier.dev/analysis"
	"espalier.dev/analysis/object"
	"espalier.dev/kinds/cel"
	"espalier.dev/schema"
)

// TestServerWarnings checks that warnings of the API server have the severity of their rule, for
// objects of CRDs and of built-in kinds.
func TestServerWarnings(t *testing.T) {
	rules := object.CheckRules()
	rule := rules[slices.IndexFunc(rules, func(r analysis.Rule) bool { return r.ID == object.RuleServerWarning })]
	for name, findings := range map[string][]analysis.Finding{
		"CRD": checker(t, widgets, schema.Kubernetes, nil).Check(t.Context(),
			[]byte(`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a","finalizers":["cleanup"]}}`), nil, object.Warn),
		"built-in kind": object.ForKinds(cel.New()).Check(t.Context(),
			[]byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"nodeSelector":{"beta.kubernetes.io/os":"linux"},"containers":[{"name":"a","image":"a"}]}}`),
			nil, object.Warn),
	} {
		i := slices.IndexFunc(findings, func(f analysis.Finding) bool { return f.Rule == object.RuleServerWarning })
		if i < 0 || findings[i].Severity != rule.Severity || rule.Severity != analysis.Warning {
			t.Errorf("%s: %v", name, findings)
		}
	}
}
