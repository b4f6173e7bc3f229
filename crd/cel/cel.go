// Package cel lets package crd check x-kubernetes-validations. It is a package of its
// own so that package crd does without a CEL runtime.
package cel

import (
	"context"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/crd"
	"espalier.dev/schema"
	"espalier.dev/schema/rules"
)

// Checker checks rules with package schema/rules, for crd.Options. The zero value is
// ready for use.
type Checker struct{}

var _ crd.RuleChecker = Checker{}

// CheckRules returns what is wrong with the rules of a schema.
func (Checker) CheckRules(_ context.Context, c crd.RuleCheck) field.ErrorList {
	report := rules.Check(c.Root, rules.CheckOptions{
		StoredRule:    c.StoredRule,
		StoredMessage: c.StoredMessage,
		Skip:          c.Skip,
	})
	return append(report.FieldErrors(c.Path, c.Unchanged), report.TotalErrors(c.Path)...)
}

// Compile compiles the rules of a schema. One that does not compile is an error of
// each value that it would have been evaluated on: that it must not be stored is
// for CheckRules to say.
func (Checker) Compile(s *schema.Structural) (schema.Rules, error) {
	return rules.Compiler(rules.WithBrokenRules())(s)
}
