package rules

import (
	"maps"
	"slices"
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
)

// truth is the value of a condition, as far as it is known.
type truth uint8

const (
	isUnknown truth = iota
	isTrue
	isFalse
)

func truthOf(b bool) truth {
	if b {
		return isTrue
	}
	return isFalse
}

func (t truth) not() truth {
	switch t {
	case isTrue:
		return isFalse
	case isFalse:
		return isTrue
	}
	return isUnknown
}

// facts are conditions whose value is known, by their text, and what follows from others.
type facts struct {
	texts texts
	known map[string]truth
	// implications are used once their condition is known.
	implications []implication
}

// implication is the statement: if the condition has one value, the conclusion has another.
type implication struct {
	condition, conclusion ast.Expr
	when, then            bool
}

func (f *facts) clone() *facts {
	out := &facts{texts: f.texts, known: map[string]truth{}, implications: slices.Clone(f.implications)}
	maps.Copy(out.known, f.known)
	return out
}

// with returns the facts and those that follow from the value of a condition.
func (f *facts) with(e ast.Expr, value bool) *facts {
	out := f.clone()
	out.learn(e, value)
	return out
}

// without returns the facts that do not mention variables.
func (f *facts) without(vars ...string) *facts {
	out := &facts{texts: f.texts, known: map[string]truth{}}
	mentions := func(text string) bool {
		return slices.ContainsFunc(vars, func(v string) bool {
			return v != "" && slices.Contains(strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune("().,[]!", r) }), v)
		})
	}
	for text, value := range f.known {
		if !mentions(text) {
			out.known[text] = value
		}
	}
	for _, i := range f.implications {
		if !mentions(f.texts.of(i.condition)) && !mentions(f.texts.of(i.conclusion)) {
			out.implications = append(out.implications, i)
		}
	}
	return out
}

// alias adds what is known about one variable for another that has its value.
func (f *facts) alias(from, variable string) {
	for known, value := range maps.Clone(f.known) {
		if rest, ok := strings.CutPrefix(known, "has("+from+"."); ok {
			f.known["has("+variable+"."+rest] = value
		}
	}
}

// maxRounds bounds the number of conclusions from conclusions.
const maxRounds = 8

// learn adds what follows from the value of a condition.
func (f *facts) learn(e ast.Expr, value bool) {
	f.add(e, value)
	for range maxRounds {
		waiting := f.implications
		f.implications = nil
		var open []implication
		for _, next := range waiting {
			if f.value(next.condition) == truthOf(next.when) {
				f.add(next.conclusion, next.then)
			} else {
				open = append(open, next)
			}
		}
		concluded := len(open) < len(waiting)
		f.implications = append(open, f.implications...)
		if !concluded {
			return
		}
	}
}

func (f *facts) add(e ast.Expr, value bool) {
	if e.Kind() == ast.SelectKind && e.AsSelect().IsTestOnly() && value {
		// Whatever is around a field that is present is present too.
		for around := e.AsSelect().Operand(); around.Kind() == ast.SelectKind &&
			!around.AsSelect().IsTestOnly(); around = around.AsSelect().Operand() {
			f.known[f.texts.has(around.AsSelect())] = isTrue
		}
	}
	f.known[f.texts.of(e)] = truthOf(value)
	if e.Kind() != ast.CallKind {
		return
	}
	args := e.AsCall().Args()
	imply := func(condition ast.Expr, when bool, conclusion ast.Expr, then bool) {
		f.implications = append(f.implications, implication{condition, conclusion, when, then})
	}
	switch name := e.AsCall().FunctionName(); name {
	case operators.LogicalNot:
		f.add(args[0], !value)
	case operators.LogicalAnd, operators.LogicalOr:
		if value == (name == operators.LogicalAnd) {
			f.add(args[0], value)
			f.add(args[1], value)
			return
		}
		imply(args[0], !value, args[1], value)
		imply(args[1], !value, args[0], value)
	case operators.Conditional:
		imply(args[0], true, args[1], value)
		imply(args[0], false, args[2], value)
	case operators.Equals, operators.NotEquals:
		same := value == (name == operators.Equals)
		f.known[operators.Equals+"("+f.texts.list(args)+")"] = truthOf(same)
		if !isCondition(args[0]) || !isCondition(args[1]) {
			f.addOptional(e)
			return
		}
		for _, b := range [...]bool{true, false} {
			imply(args[0], b, args[1], b == same)
			imply(args[1], b, args[0], b == same)
		}
	default:
		f.addOptional(e)
	}
}

// isCondition reports whether an expression is a condition, as far as its syntax tells.
func isCondition(e ast.Expr) bool {
	switch e.Kind() {
	case ast.LiteralKind:
		_, ok := e.AsLiteral().Value().(bool)
		return ok
	case ast.SelectKind:
		return e.AsSelect().IsTestOnly()
	case ast.CallKind:
		switch e.AsCall().FunctionName() {
		case operators.LogicalNot, operators.LogicalAnd, operators.LogicalOr, operators.Equals, operators.NotEquals:
			return true
		}
	}
	return false
}

// addOptional assumes that a condition on an optional value, such as
// self.?a.orValue("") != "", decides whether the field is present.
func (f *facts) addOptional(e ast.Expr) {
	ast.PostOrderVisit(e, ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.CallKind || e.AsCall().FunctionName() != operators.OptSelect {
			return
		}
		if args := e.AsCall().Args(); args[1].Kind() == ast.LiteralKind {
			if name, ok := args[1].AsLiteral().Value().(string); ok {
				f.known["has("+f.texts.of(args[0])+"."+name+")"] = isTrue
			}
		}
	}))
}

// value returns the value of a condition, as far as it is known.
func (f *facts) value(e ast.Expr) truth {
	if t, ok := f.known[f.texts.of(e)]; ok {
		return t
	}
	switch e.Kind() {
	case ast.LiteralKind:
		if b, ok := e.AsLiteral().Value().(bool); ok {
			return truthOf(b)
		}
	case ast.CallKind:
		args := e.AsCall().Args()
		switch e.AsCall().FunctionName() {
		case operators.LogicalNot:
			return f.value(args[0]).not()
		case operators.LogicalAnd:
			return f.value(args[0]).and(f.value(args[1]))
		case operators.LogicalOr:
			return f.value(args[0]).not().and(f.value(args[1]).not()).not()
		case operators.NotEquals:
			return f.known[operators.Equals+"("+f.texts.list(args)+")"].not()
		}
	}
	return isUnknown
}

func (t truth) and(u truth) truth {
	switch {
	case t == isFalse || u == isFalse:
		return isFalse
	case t == isTrue && u == isTrue:
		return isTrue
	}
	return isUnknown
}
