package crd

import (
	"context"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/schema"
)

// Options configures validation and New.
type Options struct {
	// Semantics is the schema semantics.
	Semantics schema.Semantics
	// Rules checks x-kubernetes-validations. If it is nil, a CRD with rules is an error
	// unless IgnoreRules is set.
	Rules RuleChecker
	// IgnoreRules ignores x-kubernetes-validations.
	IgnoreRules bool
	// Shared lets New keep the CRD instead of a copy. The CRD must not be changed
	// afterwards. Several Definitions may share it.
	Shared bool
	// Forget lets New drop the schemas of the CRD that it keeps. They account for most
	// of the memory of a Definition, and the structural schemas have all that is
	// needed. CRD, Spec and Schema then return values without schemas.
	Forget bool
	// Patterns, if not nil, has the compiled patterns that the Programs of all Definitions
	// share.
	Patterns *schema.Patterns
}

// RuleChecker checks and compiles the x-kubernetes-validations of a schema. Package
// crd/cel implements it with CEL; packages that accept a RuleChecker do not depend on a
// CEL runtime.
type RuleChecker interface {
	// CheckRules compiles the rules of a schema and returns their errors and estimated
	// cost. The report is not complete if the context ends.
	CheckRules(context.Context, RuleCheck) *schema.RuleReport
	// Compile compiles the rules of a schema for evaluation: it is a
	// schema.RuleCompiler.
	Compile(*schema.Structural) (schema.Rules, error)
	// ParseRule parses a rule, without its schema. It returns an error if that is not
	// possible, even for some valid rules.
	ParseRule(rule string) (schema.ParsedRule, error)
	// Holds reports whether a rule holds in a case, whatever the unknown fields are. It may
	// return false although the answer is yes.
	Holds(schema.RuleCase) bool
}

// RuleCheck is the input of a RuleChecker: the rules of a structural schema with valid
// defaults.
type RuleCheck struct {
	// Root is the schema, and Path its path in the CRD.
	Root *schema.Structural
	Path *field.Path
	// Skip reports whether to skip a schema, because it or a schema below it has other
	// errors. Compiling their rules would give misleading errors.
	Skip func(schema.SchemaPath) bool
	// StoredRule and StoredMessage report whether an expression is part of the CRD that
	// an update replaces. Stored expressions may use features that are not yet allowed
	// in new ones.
	StoredRule, StoredMessage func(expression string) bool
	// Remedies requests remedies for rules that are too expensive.
	Remedies bool
	// Unguarded requests the optional fields that rules read without a guard.
	Unguarded bool
}

// Result is the result of validating a CRD.
type Result struct {
	// Errors are the reasons to reject the CRD.
	Errors field.ErrorList
	// Warnings are the warnings for the client.
	Warnings []string
}
