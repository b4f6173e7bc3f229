package lint_test

import (
	"fmt"
	"strings"
	"testing"

	"espalier.dev/analysis/lint"
	"espalier.dev/kinds"
)

// TestShortNames lints a CRD with each short name of the built-in resources: lint warns that
// kubectl prefers the built-in one. Lint has its own table, so that it does not link
// the rules of all kinds.
func TestShortNames(t *testing.T) {
	seen := 0
	for _, r := range kinds.Resources() {
		for _, name := range r.ShortNames {
			seen++
			source := fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"things.example.com"},
				"spec":{"group":"example.com","scope":"Cluster","names":{"kind":"Thing","plural":"things","shortNames":[%q]},
				"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`, name)
			findings, err := lint.Run(t.Context(), [][]byte{[]byte(source)}, lint.Options{})
			if err != nil {
				t.Fatal(err)
			}
			known := false
			for _, f := range findings[0] {
				known = known || strings.Contains(f.Message, fmt.Sprintf("%q is also the short name of the built-in resource %s", name, r.Plural))
			}
			if !known {
				t.Errorf("lint does not know the short name %s of %s", name, r.Plural)
			}
		}
	}
	if seen < 20 {
		t.Errorf("found only %d short names", seen)
	}
}
