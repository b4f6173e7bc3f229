package rules

import (
	"slices"
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"

	"espalier.dev/schema/rules/bounds"
)

// Fields returns the fields that an expression reads of each of its variables, as paths such as
// spec.replicas, sorted and without those that others begin with. A variable that is used as a whole
// has an empty list. It returns nil if the expression cannot be parsed, or is
// too complex.
func Fields(expression string) map[string][]string {
	env, err := parseEnv()
	if err != nil {
		return nil
	}
	if bounds.Check(expression, bounds.TypeSize{}) != nil {
		return nil
	}
	parsed, issues := env.Parse(expression)
	if issues.Err() != nil {
		return nil
	}
	found := map[string][]string{}
	inside := map[int64]bool{} // the operands of fields
	ast.PreOrderVisit(parsed.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if inside[e.ID()] {
			return
		}
		var names []string
		at := e
		for {
			name, operand, ok := selected(at)
			if !ok {
				break
			}
			names = append(names, name)
			at = operand
			inside[at.ID()] = true
		}
		if at.Kind() != ast.IdentKind {
			return
		}
		slices.Reverse(names)
		found[at.AsIdent()] = append(found[at.AsIdent()], strings.Join(names, "."))
	}))
	for name, paths := range found {
		slices.Sort(paths)
		paths = slices.Compact(paths)
		found[name] = slices.DeleteFunc(slices.Clone(paths), func(path string) bool {
			return path == "" || slices.ContainsFunc(paths, func(other string) bool { return strings.HasPrefix(other, path+".") })
		})
	}
	return found
}

// selected returns the name of the field that an expression selects, also if it is optional, and of
// what it selects it.
func selected(e ast.Expr) (name string, of ast.Expr, ok bool) {
	switch e.Kind() {
	case ast.SelectKind:
		return e.AsSelect().FieldName(), e.AsSelect().Operand(), true
	case ast.CallKind:
		call := e.AsCall()
		if call.FunctionName() != operators.OptSelect || len(call.Args()) != 2 || call.Args()[1].Kind() != ast.LiteralKind {
			return "", nil, false
		}
		name, ok = call.Args()[1].AsLiteral().Value().(string)
		return name, call.Args()[0], ok
	}
	return "", nil, false
}
