package rules

import (
	"math"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/parser"

	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/cel/environment"

	"espalier.dev/schema"
	"espalier.dev/schema/rules/bounds"
)

// parseEnv is the environment that parses expressions. It records macros, because an
// expanded macro cannot be written as CEL.
var parseEnv = sync.OnceValues(func() (*cel.Env, error) {
	return environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()).StoredExpressionsEnv().Extend(cel.EnableMacroCallTracking())
})

// Parse parses a rule. It returns an error if the rule has a syntax error, or is too complex.
func Parse(rule string) (schema.ParsedRule, error) {
	out := schema.ParsedRule{Canonical: rule}
	env, err := parseEnv()
	if err != nil {
		return out, err
	}
	if err := bounds.Check(rule, bounds.TypeSize{}); err != nil {
		return out, err
	}
	parsed, issues := env.Parse(rule)
	if issues.Err() != nil {
		return out, issues.Err()
	}
	root := parsed.NativeRep().Expr()
	text, err := parser.Unparse(root, parsed.NativeRep().SourceInfo(), parser.WrapOnColumn(math.MaxInt))
	if err == nil && !strings.Contains(rule, "`") { // Unparse does not quote names
		out.Canonical = text
	}
	reads, declares := false, false
	ast.PostOrderVisit(root, ast.NewExprVisitor(func(e ast.Expr) {
		switch e.Kind() {
		case ast.IdentKind:
			reads = reads || e.AsIdent() == oldSelfName
		case ast.ComprehensionKind:
			c := e.AsComprehension()
			declares = declares || c.IterVar() == oldSelfName || c.IterVar2() == oldSelfName || c.AccuVar() == oldSelfName
		}
	}))
	out.UsesOldSelf = reads && !declares
	return out, nil
}

// Holds reports whether a rule holds in a case, whatever the unknown fields are. It may
// return false although the answer is yes.
func Holds(c schema.RuleCase) bool {
	v := newView(c.Schema.DeepCopy(), c.IsResource)
	decl := declOf(v, c.IsResource)
	if decl == nil {
		return false
	}
	base := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()).StoredExpressionsEnv()
	rule := c.Rule
	rule.MessageExpression = ""
	stored := func(string) *cel.Env { return base }
	r, err := newEnvironments(decl, PerCallLimit).compileRule(c.Schema, &rule, bases{stored, stored}, nil)
	if err != nil || r.err != nil || r.empty() || r.rule.usesOldSelf {
		return false
	}
	program, err := r.rule.env.Program(r.rule.ast, cel.EvalOptions(cel.OptPartialEval), cel.CostLimit(PerCallLimit), bounds.Option())
	if err != nil {
		return false
	}
	if c.IsResource {
		v = v.resource
	}
	self, unknown, ok := partial(v, c)
	if !ok {
		return false
	}
	vars, err := cel.PartialVars(map[string]any{selfName: common.UnstructuredToVal(self, v)}, unknown...)
	if err != nil {
		return false
	}
	result, _, err := program.Eval(vars)
	return err == nil && result == types.True
}

// partial returns the object of a case, as far as it is known, and patterns for the rest.
func partial(v *view, c schema.RuleCase) (self map[string]any, unknown []*cel.AttributePatternType, ok bool) {
	self = map[string]any{}
	at, around := self, []string(nil)
	pattern := func(name string) {
		p := cel.AttributePattern(selfName)
		for _, step := range around {
			p = p.QualString(step)
		}
		unknown = append(unknown, p.QualString(name))
	}
	// forget makes all fields of the object unknown but those that isKnown.
	forget := func(isKnown func(name string) bool) {
		for other := range v.props {
			if isKnown(other) {
				continue
			}
			// A rule can also quote the name.
			pattern(other)
			if escaped, ok := apiservercel.Escape(other); ok && escaped != other {
				pattern(escaped)
			}
		}
		// The object as a whole is not known either. No field has this name.
		pattern("")
	}
	for name, value := range c.Fields {
		if v.prop(name) == nil || v.additional != nil {
			return nil, nil, false
		}
		if value != nil {
			self[name] = value
		}
	}
	if len(c.Path) == 0 {
		forget(func(name string) bool { _, ok := c.Fields[name]; return ok })
		return self, unknown, len(c.Fields) > 0
	}
	for i, name := range c.Path {
		if v.prop(name) == nil || v.additional != nil {
			return nil, nil, false
		}
		forget(func(other string) bool {
			_, ok := c.Fields[other]
			return other == name || ok && i == 0
		})
		if i == len(c.Path)-1 {
			if !c.Absent {
				at[name] = c.Value
			}
			break
		}
		escaped, ok := apiservercel.Escape(name)
		if !ok || escaped != name {
			return nil, nil, false
		}
		next := map[string]any{}
		at[name] = next
		at, v, around = next, v.prop(name), append(around, name)
		if v.s.XEmbeddedResource {
			return nil, nil, false
		}
	}
	return self, unknown, true
}
