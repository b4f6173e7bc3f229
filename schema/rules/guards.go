package rules

import (
	"fmt"
	"maps"
	"slices"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"

	apiservercel "k8s.io/apiserver/pkg/cel"

	"espalier.dev/schema"
)

// maxGuardNodes bounds the size of the expressions that are searched for unguarded fields,
// because the search takes quadratic time.
const maxGuardNodes = 500

// findUnguarded sets the unguarded fields of the rules of one schema: the optional fields
// that a rule reads although they can be absent, so that its evaluation fails. Whatever
// the other rules of the schema require is known to hold: without it the value is rejected
// anyway.
func findUnguarded(s *scope, rules []schema.CheckedRule, compiled []*compiled) {
	sizes, total := make([]int, len(rules)), 0
	for i := range rules {
		sizes[i] = sizeOf(compiled[i])
		total += sizes[i]
	}
	for i := range rules {
		if rules[i].Err != nil || sizes[i] == 0 || sizes[i] > maxGuardNodes {
			continue
		}
		known := facts{texts: texts{}, known: map[string]truth{}}
		for j, other := range compiled {
			if j != i && total <= maxGuardNodes && rules[j].Err == nil && sizes[j] > 0 && !rules[j].UsesOldSelf {
				known.learn(other.rule.ast.NativeRep().Expr(), true)
			}
		}
		g := guardSearch{rule: &compiled[i].rule, texts: known.texts, seen: map[string]bool{}}
		vars := map[string]*value{selfName: {s.view.s, s.isResource}}
		if !compiled[i].optional {
			vars[oldSelfName] = vars[selfName]
		}
		g.search(compiled[i].rule.ast.NativeRep().Expr(), &known, vars)
		rules[i].Unguarded = g.found
	}
}

// sizeOf returns the number of nodes of a rule, or 0 if it has not been compiled.
func sizeOf(c *compiled) (n int) {
	if c.rule.ast != nil {
		ast.PostOrderVisit(c.rule.ast.NativeRep().Expr(), ast.NewExprVisitor(func(ast.Expr) { n++ }))
	}
	return n
}

// value is the schema of the value of an expression.
type value struct {
	s          *schema.Structural
	isResource bool
}

// guardSearch is the search for unguarded fields in one rule.
type guardSearch struct {
	rule *expression
	// macros has the macros of the rule, once they are needed.
	macros *ast.SourceInfo
	texts  texts
	seen   map[string]bool
	found  []string
}

// search reports the unguarded fields in an expression. known is what holds where it is
// evaluated, vars has the schemas of variables.
//
// The operators && and || ignore an error of one operand if the other decides the result.
// So each operand is guarded by the other, whatever their order.
func (g *guardSearch) search(e ast.Expr, known *facts, vars map[string]*value) {
	switch e.Kind() {
	case ast.SelectKind:
		sel := e.AsSelect()
		g.search(sel.Operand(), known, vars)
		if sel.IsTestOnly() {
			return
		}
		if of := g.valueOf(sel.Operand(), vars); of != nil && of.isOptional(sel.FieldName()) && known.known[g.texts.has(sel)] != isTrue {
			if text := g.texts.of(e); !g.seen[text] {
				g.seen[text] = true
				if source := g.sourceOf(e); source != "" {
					g.found = append(g.found, source)
				}
			}
		}
	case ast.CallKind:
		g.call(e.AsCall(), known, vars)
	case ast.ComprehensionKind:
		g.comprehension(e.AsComprehension(), known, vars)
	case ast.ListKind:
		for _, sub := range e.AsList().Elements() {
			g.search(sub, known, vars)
		}
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			g.search(entry.AsMapEntry().Key(), known, vars)
			g.search(entry.AsMapEntry().Value(), known, vars)
		}
	}
}

func (g *guardSearch) call(c ast.CallExpr, known *facts, vars map[string]*value) {
	args := c.Args()
	switch c.FunctionName() {
	case operators.LogicalAnd, operators.LogicalOr:
		decides := c.FunctionName() == operators.LogicalAnd
		g.search(args[0], known.with(args[1], decides), vars)
		g.search(args[1], known.with(args[0], decides), vars)
		return
	case operators.Conditional:
		g.search(args[0], known, vars)
		g.search(args[1], known.with(args[0], true), vars)
		g.search(args[2], known.with(args[0], false), vars)
		return
	}
	if c.IsMemberFunction() {
		g.search(c.Target(), known, vars)
	}
	for _, arg := range args {
		g.search(arg, known, vars)
	}
}

func (g *guardSearch) comprehension(c ast.ComprehensionExpr, known *facts, vars map[string]*value) {
	g.search(c.IterRange(), known, vars)
	g.search(c.AccuInit(), known, vars)
	inside := maps.Clone(vars)
	inside[c.AccuVar()] = g.valueOf(c.AccuInit(), vars)
	item := c.IterVar()
	if c.HasIterVar2() {
		inside[item] = nil
		item = c.IterVar2()
	}
	inside[item] = nil
	if of := g.valueOf(c.IterRange(), vars); of != nil && (of.s.Items != nil || c.HasIterVar2()) {
		inside[item] = of.element()
	}
	// A variable that is named like one outside is another one.
	known = known.without(c.IterVar(), c.IterVar2(), c.AccuVar())
	if condition, of := g.filterOf(c.IterRange()); condition != nil {
		filtered := facts{texts: g.texts, known: map[string]truth{}}
		filtered.learn(condition, true)
		if of != item {
			filtered.alias(of, item)
		}
		known = known.clone()
		maps.Copy(known.known, filtered.known)
	}
	g.search(c.LoopStep(), known, inside)
	g.search(c.Result(), known, inside)
}

// filterOf returns the condition that all items of a list satisfy, and the variable for the
// item, if the list is the result of filter.
func (g *guardSearch) filterOf(e ast.Expr) (condition ast.Expr, item string) {
	if e.Kind() != ast.ComprehensionKind {
		return nil, ""
	}
	c := e.AsComprehension()
	step := c.LoopStep()
	if c.AccuInit().Kind() != ast.ListKind || step.AsCall().FunctionName() != operators.Conditional {
		return nil, ""
	}
	args := step.AsCall().Args()
	if g.texts.of(args[1]) != fmt.Sprintf("%s(%s,[%s])", operators.Add, c.AccuVar(), c.IterVar()) {
		return nil, ""
	}
	return args[0], c.IterVar()
}

// valueOf returns the schema of the value of an expression, or nil if it is not known.
func (g *guardSearch) valueOf(e ast.Expr, vars map[string]*value) *value {
	switch e.Kind() {
	case ast.IdentKind:
		return vars[e.AsIdent()]
	case ast.SelectKind:
		of := g.valueOf(e.AsSelect().Operand(), vars)
		if of == nil || e.AsSelect().IsTestOnly() {
			return nil
		}
		return of.field(e.AsSelect().FieldName())
	case ast.CallKind:
		if c := e.AsCall(); c.FunctionName() == operators.Index {
			if of := g.valueOf(c.Args()[0], vars); of != nil {
				return of.element()
			}
		}
	case ast.ComprehensionKind:
		if condition, _ := g.filterOf(e); condition != nil {
			return g.valueOf(e.AsComprehension().IterRange(), vars)
		}
	}
	return nil
}

// element returns the schema of the items of a list or of the values of a map, or nil.
func (v *value) element() *value {
	var s *schema.Structural
	if v.s.Items != nil {
		s = v.s.Items
	} else if ap := v.s.AdditionalProperties; ap != nil {
		s = ap.Structural
	}
	if s == nil {
		return nil
	}
	return &value{s, s.XEmbeddedResource}
}

// field returns the schema of a field, or nil. The name is that in CEL.
func (v *value) field(name string) *value {
	name, ok := apiservercel.Unescape(name)
	if !ok || v.isResource && schema.IsMetaField(name) {
		return nil
	}
	if s := v.s.Properties[name]; s != nil {
		return &value{s, s.XEmbeddedResource}
	}
	return v.element()
}

// isOptional reports whether a valid object may lack a field.
func (v *value) isOptional(name string) bool {
	name, ok := apiservercel.Unescape(name)
	if !ok || v.isResource && schema.IsMetaField(name) {
		return false
	}
	s := v.s.Properties[name]
	if s == nil || s.Default != nil && s.Default.Value != nil {
		return false
	}
	checks := v.s.ValueValidation
	if checks == nil {
		return true
	}
	return !slices.Contains(checks.Required, name) && !slices.ContainsFunc(checks.AllOf, func(n schema.NestedValueValidation) bool {
		return slices.Contains(n.ValueValidation.Required, name)
	})
}
