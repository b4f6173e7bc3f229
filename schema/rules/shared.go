package rules

import (
	"crypto/sha256"
	"maps"
	"slices"
	"strconv"

	"github.com/google/cel-go/cel"

	apiservercel "k8s.io/apiserver/pkg/cel"

	"espalier.dev/schema/rules/bounds"
)

// maxEnvironments and maxExpressions are the numbers that are kept to be used again: they need
// much memory.
const (
	maxEnvironments = 50
	maxExpressions  = 1000
)

// shared has what schemas of the same type share when the rules of a CRD are compiled. To make
// an environment takes longer than to compile most rules, and a CRD often has the same rules for
// several fields.
type shared struct {
	perCallLimit uint64
	// onlyPrograms leaves out what only the estimates of expressions need.
	onlyPrograms bool
	types        map[*apiservercel.DeclType]typeID
	environments map[typeID]*environments
	// expressions is the number of those that the environments keep.
	expressions int
	// allowance is what all of them may take, and sizes has the largest types in types.
	allowance bounds.Allowance
	sizes     bounds.TypeSizes
}

func newShared(perCallLimit uint64) *shared {
	return &shared{perCallLimit: perCallLimit, types: map[*apiservercel.DeclType]typeID{}, environments: map[typeID]*environments{},
		sizes: bounds.TypeSizes{}}
}

// of returns the environments for a type.
func (s *shared) of(decl *apiservercel.DeclType) *environments {
	id := s.id(decl)
	e := s.environments[id]
	if e == nil {
		if len(s.environments) >= maxEnvironments || s.expressions >= maxExpressions {
			clear(s.environments)
			s.expressions = 0
		}
		e = newEnvironments(decl, s.perCallLimit)
		e.shared = s
		s.environments[id] = e
	}
	return e
}

// typeID is the same for types that expressions cannot distinguish. The sizes of their values, of
// which only the cost depends, may differ.
type typeID [sha256.Size]byte

func (s *shared) id(t *apiservercel.DeclType) typeID {
	if t == nil {
		return typeID{}
	}
	if id, ok := s.types[t]; ok {
		return id
	}
	text := strconv.AppendQuote(nil, t.TypeName())
	text = strconv.AppendQuote(text, t.CelType().String())
	add := func(t *apiservercel.DeclType) {
		id := s.id(t)
		text = append(text, id[:]...)
	}
	add(t.KeyType)
	add(t.ElemType)
	for _, name := range slices.Sorted(maps.Keys(t.Fields)) {
		text = strconv.AppendQuote(text, name)
		add(t.Fields[name].Type)
	}
	id := typeID(sha256.Sum256(text))
	s.types[t] = id
	return id
}

// expressionKey identifies an expression.
type expressionKey struct {
	env  *cel.Env
	want *cel.Type
	text string
}

// compiledExpression is the result of a compilation.
type compiledExpression struct {
	expression
	problem *problem
}

// check returns an error if an expression must not be compiled.
func (e *environments) check(text string) error {
	if e.shared == nil {
		return bounds.Check(text, bounds.TypeSizes{}.Of(e.decl))
	}
	return e.shared.allowance.Check(text, e.shared.sizes.Of(e.decl))
}

// compileOnce is compile, if the expression may be compiled. It returns the result of a previous compilation if there is one.
func (e *environments) compileOnce(env *cel.Env, again func() (*cel.Env, error), text string, want *cel.Type,
	words wording) (expression, *problem) {
	key := expressionKey{env, want, text}
	if c, ok := e.expressions[key]; ok {
		return c.expression, c.problem
	}
	if err := e.check(text); err != nil {
		p := problemf(apiservercel.ErrorTypeInvalid, "%s %v", words.compilation, err)
		p.Cause = err
		return expression{}, p
	}
	x, p := e.compile(env, again, text, want, words)
	if e.shared != nil && e.shared.onlyPrograms {
		x.env, x.ast = nil, nil
	}
	if e.shared != nil && e.shared.expressions < maxExpressions {
		if e.expressions == nil {
			e.expressions = map[expressionKey]compiledExpression{}
		}
		e.expressions[key] = compiledExpression{x, p}
		e.shared.expressions++
	}
	return x, p
}
