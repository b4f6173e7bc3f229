package schema

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Rules are the compiled x-kubernetes-validations of a schema. Package schema/rules
// implements them. They are injected, so that programs without rules do not link a CEL
// runtime.
type Rules interface {
	// Validate evaluates the rules that apply. old is nil on create.
	Validate(ctx context.Context, obj, old Object) Violations
}

// RuleCompiler compiles the rules of a schema. It returns nil if there are none.
type RuleCompiler func(*Structural) (Rules, error)

// ErrRules is returned by Compile for a schema with rules if neither WithRules nor
// WithoutRules is given.
var ErrRules = errors.New("the schema has x-kubernetes-validations: compile them with WithRules (see package schema/rules), or leave them out with WithoutRules")

// WithRules makes Compile compile the schema's rules. A schema with rules requires this
// option or WithoutRules.
func WithRules(c RuleCompiler) Option {
	return func(o *options) { o.rules = c }
}

// WithoutRules makes Compile ignore the schema's rules.
func WithoutRules() Option {
	return func(o *options) { o.rules = func(*Structural) (Rules, error) { return nil, nil } }
}

// compileRules compiles the rules of s, if it has any.
func (c *compiler) compileRules(s *Structural, with RuleCompiler) (err error) {
	if !c.hasRules {
		return nil
	}
	if with == nil {
		return ErrRules
	}
	if c.p.rules, err = with(s); err != nil {
		return fmt.Errorf("compiling x-kubernetes-validations: %w", err)
	}
	return nil
}

// rulesOn evaluates the rules, unless a violation makes that unsafe: rules are not
// evaluated on values that are missing, of the wrong type or too large.
func (p *Program) rulesOn(ctx context.Context, obj, old Object, found Violations) Violations {
	if p.rules == nil {
		return nil
	}
	for _, err := range found.FieldErrors() {
		switch err.Type {
		case field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong,
			field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid:
			return Violations{{Kind: RulesSkipped, Closest: -1}}
		}
	}
	return p.rules.Validate(ctx, obj, old)
}
