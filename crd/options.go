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
}

// RuleChecker checks the x-kubernetes-validations of one schema.
type RuleChecker interface {
	// CheckRules compiles the rules of the given sites and returns what is wrong
	// with them, their cost included.
	CheckRules(context.Context, RuleCheck) field.ErrorList
	// Compile compiles the rules of a schema so that they can be evaluated on
	// values of it: a schema.RuleCompiler.
	Compile(*schema.Structural) (schema.Rules, error)
}

// RuleCheck is what a RuleChecker has to check: the rules of a schema that is
// structural and has valid defaults.
type RuleCheck struct {
	// Root is the whole schema, which stands at Path.
	Root *schema.Structural
	Path *field.Path
	// Sites are the schemas with rules, parents after what is below them. Schemas
	// with other errors, at them or below, are not listed.
	Sites []RuleSite
	// Stored says whether a rule, or a message expression, is part of the
	// definition that an update replaces. Stored expressions may use what only
	// later versions allow in new ones.
	Stored func(expression string) bool
	// Unchanged says that an update leaves the schema as it is: no rule is refused
	// then for what it alone costs.
	Unchanged bool
}

// RuleSite is one schema with rules.
type RuleSite struct {
	*SchemaNode
	// Path is where the schema stands in the definition.
	Path *field.Path
	// Uncorrelatable is the closest to the root of the schemas around whose old and
	// new values cannot be matched, if there is one: oldSelf is of no use then.
	Uncorrelatable *field.Path
}

// SchemaNode is a schema and how one gets there from the root.
type SchemaNode struct {
	Schema *schema.Structural
	// Parent is the schema around, nil for the root.
	Parent *SchemaNode
	// Step leads from Parent to Schema.
	Step schema.SchemaStep
}

func (n *SchemaNode) below(s *schema.Structural, step schema.SchemaStep) *SchemaNode {
	if s == nil {
		return nil
	}
	return &SchemaNode{s, n, step}
}

func (n *SchemaNode) items() *SchemaNode {
	if n == nil {
		return nil
	}
	return n.below(n.Schema.Items, schema.SchemaStep{Keyword: "items"})
}

func (n *SchemaNode) property(name string) *SchemaNode {
	if n == nil {
		return nil
	}
	return n.below(n.Schema.Properties[name], schema.SchemaStep{Keyword: "properties", Form: schema.StepNamed, Name: name})
}

func (n *SchemaNode) additional() *SchemaNode {
	if n == nil || n.Schema.AdditionalProperties == nil {
		return nil
	}
	return n.below(n.Schema.AdditionalProperties.Structural, schema.SchemaStep{Keyword: "additionalProperties"})
}

// Result is what there is to say about a definition.
type Result struct {
	// Errors are the reasons to refuse it.
	Errors field.ErrorList
	// Warnings are for its author.
	Warnings []string
}
