package cel

import (
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/cel/environment"

	"espalier.dev/schema/rules/bounds"
)

// Bounded compiles expressions for admission plugins. One that would take too long has an error instead.
type Bounded struct {
	compiler plugincel.Compiler
	// allowance is that of the policy with the variables, or nil, and largest bounds the types of its variables.
	allowance *bounds.Allowance
	largest   bounds.TypeSize
}

var (
	_ plugincel.Compiler          = &Bounded{}
	_ plugincel.ConditionCompiler = &Bounded{}
	_ plugincel.MutatingCompiler  = &Bounded{}
)

// NewCompiler returns a compiler for expressions without variables of their own.
func NewCompiler(set *environment.EnvSet) *Bounded {
	return &Bounded{compiler: plugincel.NewCompiler(set)}
}

// NewComposition returns a compiler for the expressions of one policy, which use its variables.
func NewComposition(set *environment.EnvSet) (*plugincel.CompositedCompiler, error) {
	c, err := plugincel.NewCompositedCompiler(set)
	if err != nil {
		return nil, err
	}
	b := &Bounded{compiler: c.Compiler}
	b.begin()
	c.Compiler, c.ConditionCompiler, c.MutatingCompiler = b, b, b
	return c, nil
}

// begin prepares the compiler for the expressions of another policy.
func (b *Bounded) begin() { b.allowance, b.largest = &bounds.Allowance{}, bounds.TypeSize{} }

// check returns an error if an expression must not be compiled.
func (b *Bounded) check(text string) error {
	if b.allowance == nil {
		return bounds.Check(text, b.largest)
	}
	return b.allowance.Check(text, b.largest)
}

// CompileCELExpression implements [plugincel.Compiler].
func (b *Bounded) CompileCELExpression(e plugincel.ExpressionAccessor, known plugincel.OptionalVariableDeclarations,
	mode environment.Type) (result plugincel.CompilationResult) {
	failed := func(err error) plugincel.CompilationResult {
		return plugincel.CompilationResult{ExpressionAccessor: e, Error: bounds.Error(err)}
	}
	defer bounds.Recover(func(err error) { result = failed(err) })
	if err := b.check(e.GetExpression()); err != nil {
		return failed(err)
	}
	result = b.compiler.CompileCELExpression(e, known, mode)
	if _, ok := e.(plugincel.NamedExpressionAccessor); ok && result.OutputType != nil {
		b.largest = b.largest.Or(bounds.SizeOf(result.OutputType))
	}
	return result
}

// CompileCondition implements [plugincel.ConditionCompiler].
func (b *Bounded) CompileCondition(expressions []plugincel.ExpressionAccessor, known plugincel.OptionalVariableDeclarations,
	mode environment.Type) plugincel.ConditionEvaluator {
	results := make([]plugincel.CompilationResult, len(expressions))
	for i, e := range expressions {
		if e != nil {
			results[i] = b.CompileCELExpression(e, known, mode)
		}
	}
	return plugincel.NewCondition(results)
}

// CompileMutatingEvaluator implements [plugincel.MutatingCompiler].
func (b *Bounded) CompileMutatingEvaluator(e plugincel.ExpressionAccessor, known plugincel.OptionalVariableDeclarations,
	mode environment.Type) plugincel.MutatingEvaluator {
	return plugincel.NewMutatingEvaluator(b.CompileCELExpression(e, known, mode))
}
