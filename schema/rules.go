package schema

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Rules are the compiled x-kubernetes-validations of a schema. Package schema/rules
// makes them; they are injected, so that whoever has no rules does without a CEL
// runtime.
type Rules interface {
	// Validate evaluates the rules that apply: on create old is nil.
	Validate(ctx context.Context, obj, old Object) Violations
}

// RuleCompiler compiles the rules of a schema. It returns nil if there are none.
type RuleCompiler func(*Structural) (Rules, error)

// ErrRules says that a schema has rules and that nothing was said about them.
var ErrRules = errors.New("the schema has x-kubernetes-validations: compile them with WithRules (see package schema/rules), or leave them out with WithoutRules")

// WithRules makes Compile compile the schema's rules too. Without it, or
// WithoutRules, a schema with rules is an error.
func WithRules(c RuleCompiler) Option {
	return func(o *options) { o.rules = c }
}

// WithoutRules leaves the schema's rules out.
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

// rulesOn evaluates the rules, unless something found before makes that unsafe: a
// value that is missing, of the wrong type or too large is not put to a rule.
func (p *Program) rulesOn(ctx context.Context, obj, old Object, found Violations) Violations {
	if p.rules == nil {
		return nil
	}
	for _, err := range found.FieldErrors() {
		switch err.Type {
		case field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid:
			return Violations{{Kind: RulesSkipped, Closest: -1}}
		}
	}
	return p.rules.Validate(ctx, obj, old)
}
