package crd

import (
	"context"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/schema"
)

// Options say how definitions are judged.
type Options struct {
	// Semantics is the schema semantics that applies.
	Semantics schema.Semantics
	// Rules checks x-kubernetes-validations. Without it, a definition with rules is
	// an error unless IgnoreRules is set.
	Rules RuleChecker
	// IgnoreRules leaves x-kubernetes-validations out.
	IgnoreRules bool
	// Shared lets New keep the definition that it is given instead of a copy: nobody
	// may change it any more. Several Definitions may share one.
	Shared bool
	// Forget lets New drop the schemas of the definition that it keeps: what is needed
	// of them is in the structural ones, and they are most of what a Definition holds
	// in memory. CRD and Spec are without them then.
	Forget bool
}

// RuleChecker checks and compiles the x-kubernetes-validations of a schema. Package
// crd/cel has the one that evaluates CEL; packages that take a RuleChecker do not
// depend on a CEL runtime.
type RuleChecker interface {
	// CheckRules compiles the rules of a schema and reports what is wrong with them
	// and what they can cost.
	CheckRules(context.Context, RuleCheck) *schema.RuleReport
	// Compile compiles the rules of a schema so that they can be evaluated on
	// values of it: a schema.RuleCompiler.
	Compile(*schema.Structural) (schema.Rules, error)
}

// RuleCheck is the work of a RuleChecker: the rules of a schema that is structural
// and has valid defaults.
type RuleCheck struct {
	// Root is the schema, and Path its place in the definition.
	Root *schema.Structural
	Path *field.Path
	// Skip reports whether to skip a schema: those that have other errors, at them or
	// below. Compiling their rules would give misleading errors.
	Skip func(schema.SchemaPath) bool
	// StoredRule and StoredMessage report whether an expression is part of the
	// definition that an update replaces. Stored expressions may use what only later
	// versions allow in new ones.
	StoredRule, StoredMessage func(expression string) bool
	// Remedies asks for the remedies of rules that are too expensive.
	Remedies bool
}

// Result is what there is to say about a definition.
type Result struct {
	// Errors are the reasons to reject it.
	Errors field.ErrorList
	// Warnings are for its author.
	Warnings []string
}
