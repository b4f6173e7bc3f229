package rules

import (
	"fmt"
	"math"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/parser"
)

// texts has expressions as text: the same text for the same expression. It is not CEL, and
// not for users: sourceOf is.
type texts map[ast.Expr]string

// of returns the text of an expression.
func (t texts) of(e ast.Expr) string {
	text, ok := t[e]
	if !ok {
		text = t.format(e)
		t[e] = text
	}
	return text
}

func (t texts) format(e ast.Expr) string {
	switch e.Kind() {
	case ast.IdentKind:
		return e.AsIdent()
	case ast.SelectKind:
		if e.AsSelect().IsTestOnly() {
			return t.has(e.AsSelect())
		}
		return t.of(e.AsSelect().Operand()) + "." + e.AsSelect().FieldName()
	case ast.LiteralKind:
		return fmt.Sprintf("%T(%v)", e.AsLiteral().Value(), e.AsLiteral().Value())
	case ast.ListKind:
		return "[" + t.list(e.AsList().Elements()) + "]"
	case ast.CallKind:
		c := e.AsCall()
		target := ""
		switch {
		case c.FunctionName() == operators.Index && c.Args()[1].Kind() == ast.LiteralKind:
			return fmt.Sprintf("%s[%v]", t.of(c.Args()[0]), c.Args()[1].AsLiteral().Value())
		case c.FunctionName() == operators.Index:
			return fmt.Sprintf("%s[%s]", t.of(c.Args()[0]), t.of(c.Args()[1]))
		case c.IsMemberFunction():
			target = t.of(c.Target()) + "."
		}
		return target + c.FunctionName() + "(" + t.list(c.Args()) + ")"
	case ast.ComprehensionKind:
		c := e.AsComprehension()
		return "#(" + strings.Join([]string{c.IterVar(), c.IterVar2(), c.AccuVar(),
			t.list([]ast.Expr{c.IterRange(), c.AccuInit(), c.LoopCondition(), c.LoopStep(), c.Result()})}, ",") + ")"
	}
	return fmt.Sprintf("#%d", e.ID())
}

// list returns the texts of expressions, separated by commas.
func (t texts) list(list []ast.Expr) string {
	var all []string
	for _, e := range list {
		all = append(all, t.of(e))
	}
	return strings.Join(all, ",")
}

// has returns the text of the test for a field.
func (t texts) has(s ast.SelectExpr) string {
	return "has(" + t.of(s.Operand()) + "." + s.FieldName() + ")"
}

// sourceOf returns an expression of the rule in CEL, or "" if it cannot be written.
func (g *guardSearch) sourceOf(e ast.Expr) string {
	info := g.rule.ast.NativeRep().SourceInfo()
	if hasComprehension(e) {
		if g.macros == nil {
			g.macros = g.rule.parseMacros()
		}
		info = g.macros
	}
	text, err := parser.Unparse(e, info, parser.WrapOnColumn(math.MaxInt))
	if err != nil {
		return ""
	}
	return text
}

// parseMacros parses an expression again to record the macros that its comprehensions come
// from, or returns nil. Subexpressions have the same IDs as before.
func (x *expression) parseMacros() *ast.SourceInfo {
	env, err := x.env.Extend(cel.EnableMacroCallTracking())
	if err != nil {
		return nil
	}
	parsed, issues := env.Parse(x.ast.Source().Content())
	if issues.Err() != nil {
		return nil
	}
	return parsed.NativeRep().SourceInfo()
}

func hasComprehension(e ast.Expr) (has bool) {
	ast.PostOrderVisit(e, ast.NewExprVisitor(func(sub ast.Expr) {
		has = has || sub.Kind() == ast.ComprehensionKind
	}))
	return has
}
