package main

import (
	"testing"

	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/policies"
)

// TestAssumedNamespace checks that the findings about an object do not depend on the objects that were
// validated before: with several workers, these are other ones in every run.
func TestAssumedNamespace(t *testing.T) {
	t.Parallel()
	s := &policySet{}
	for range 2 {
		findings := s.findings(&input.Item{}, &policies.Result{AssumedNamespace: "elsewhere"})
		if len(findings) != 1 || findings[0].Rule != rulePolicyNamespace {
			t.Error(findings)
		}
	}
}
