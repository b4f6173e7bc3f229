// Package cel checks and compiles x-kubernetes-validations for package crd. It is a
// separate package so that package crd does not depend on a CEL runtime.
package cel

import (
	"context"

	"espalier.dev/crd"
	"espalier.dev/schema"
	"espalier.dev/schema/rules"
)

// Checker is the crd.RuleChecker that uses package schema/rules. The zero value is
// ready for use.
type Checker struct {
	// Minor is the minor version of Kubernetes 1 that checks rules. Zero is the latest.
	Minor uint
}

var _ crd.RuleChecker = Checker{}

// CheckRules returns the errors in the rules of a schema, and their estimated cost. It stops when
// ctx ends.
func (k Checker) CheckRules(ctx context.Context, c crd.RuleCheck) *schema.RuleReport {
	return rules.Check(c.Root, rules.CheckOptions{
		StoredRule:    c.StoredRule,
		StoredMessage: c.StoredMessage,
		Skip:          c.Skip,
		Remedies:      c.Remedies,
		Unguarded:     c.Unguarded,
		Minor:         k.Minor,
		Stop:          func() bool { return ctx.Err() != nil },
	})
}

// Compile compiles the rules of a schema. A rule that does not compile is a violation
// of each value on which it would have been evaluated. CheckRules reports such rules,
// so that they are not stored. The schema must not be changed afterwards.
func (Checker) Compile(s *schema.Structural) (schema.Rules, error) {
	return rules.Compiler(rules.WithBrokenRules(), rules.WithConstantSchema())(s)
}

// ParseRule parses a rule.
func (Checker) ParseRule(rule string) (schema.ParsedRule, error) { return rules.Parse(rule) }

// Holds reports whether a rule holds in a case, whatever the unknown fields are.
func (Checker) Holds(c schema.RuleCase) bool { return rules.Holds(c) }
