package rules

import (
	"fmt"
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
)

// texts has expressions as text: the same text for the same expression.
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
