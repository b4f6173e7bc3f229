package crd

import (
	"context"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/schema"
)

// Options say how definitions are judged.
type Options struct {
	// Semantics is the reading of schemas that applies.
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

// RuleChecker checks the x-kubernetes-validations of one schema.
type RuleChecker interface {
	// CheckRules compiles the rules of a schema and returns what is wrong with them,
	// their cost included.
	CheckRules(context.Context, RuleCheck) field.ErrorList
	// Compile compiles the rules of a schema so that they can be evaluated on
	// values of it: a schema.RuleCompiler.
	Compile(*schema.Structural) (schema.Rules, error)
}

// RuleCheck is what a RuleChecker has to check: the rules of a schema that is
// structural and has valid defaults.
type RuleCheck struct {
	// Root is the schema, which stands at Path.
	Root *schema.Structural
	Path *field.Path
	// Skip says which schemas to pass over: those that have other errors, at them or
	// below. Compiling their rules would lead astray.
	Skip func(schema.SchemaPath) bool
	// StoredRule and StoredMessage say whether an expression is part of the
	// definition that an update replaces. Stored expressions may use what only later
	// versions allow in new ones.
	StoredRule, StoredMessage func(expression string) bool
	// Unchanged says that an update leaves the schema as it is: no rule is refused
	// then for what it alone costs.
	Unchanged bool
}

// Result is what there is to say about a definition.
type Result struct {
	// Errors are the reasons to refuse it.
	Errors field.ErrorList
	// Warnings are for its author.
	Warnings []string
}
