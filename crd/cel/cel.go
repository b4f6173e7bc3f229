// Package cel lets package crd check x-kubernetes-validations. It is a package of its
// own so that package crd does without a CEL runtime.
package cel

import (
	"context"

	"espalier.dev/crd"
	"espalier.dev/schema"
	"espalier.dev/schema/rules"
)

// Checker checks rules with package schema/rules, for crd.Options. The zero value is
// ready for use.
type Checker struct{}

var _ crd.RuleChecker = Checker{}

// CheckRules reports what is wrong with the rules of a schema, and what they cost.
func (Checker) CheckRules(_ context.Context, c crd.RuleCheck) *schema.RuleReport {
	return rules.Check(c.Root, rules.CheckOptions{
		StoredRule:    c.StoredRule,
		StoredMessage: c.StoredMessage,
		Skip:          c.Skip,
		Remedies:      c.Remedies,
	})
}

// Compile compiles the rules of a schema. One that does not compile is an error of
// each value that it would have been evaluated on; CheckRules reports that it must
// not be stored.
func (Checker) Compile(s *schema.Structural) (schema.Rules, error) {
	return rules.Compiler(rules.WithBrokenRules())(s)
}
