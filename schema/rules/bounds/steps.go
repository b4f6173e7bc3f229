package bounds

import (
	"math"
	"sync"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/decls"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/parser"
)

const (
	// stepsPerByte are those of reading a text, and stepsPerNode those of a part of an expression whose type has no parts.
	stepsPerByte, stepsPerNode = 2000, 5000
	// stepsPerMinus are those of reading a minus, and stepsPerCopy those of copying a byte of a text.
	stepsPerMinus, stepsPerCopy = 200_000, 1
	// stepsPerVariable are those of copying a type variable.
	stepsPerVariable = 100
	// stepsPerType are those of writing a part of a type, and stepsPerLevel those of copying it for each type around it.
	stepsPerType, stepsPerLevel = 60, 4
	// shortFactor is by how much more the work of a short text is than that of reading it.
	shortFactor = 4
)

// shape is a bound of a type: the number of its parts, and how deep they are nested. The type checker writes each part
// of a type, with all that is in it, as a text.
type shape struct {
	parts, depth float64
	// open is set if the type has variables, which can be replaced by other types later.
	open bool
}

var (
	// scalar is the type of most values.
	scalar = shape{parts: 1, depth: 1}
	// declared is that of most variables and fields.
	declared = shape{parts: 4, depth: 4}
)

// steps returns the work for a type: the checker writes it again for each type that is part of it.
func (s shape) steps() float64 { return s.parts * s.depth * (stepsPerType + s.depth*stepsPerLevel) }

// or returns a bound of both types, and of the type that they have in common.
func (s shape) or(other shape) shape {
	return shape{max(s.parts, other.parts), max(s.depth, other.depth), s.open || other.open}
}

// of returns a type with one or two parameters.
func of(key, value shape) shape {
	return shape{min(key.parts+value.parts+1, most), min(max(key.depth, value.depth)+1, most), key.open || value.open}
}

// work adds up the work of checking the types of an expression.
type work struct {
	steps float64
	// variables is the number of type variables until now.
	variables float64
	// scope has the types of variables that macros declare, and declared bounds those of all others.
	scope     map[string]shape
	declared  shape
	functions map[string]function
	// open is the number of parts of the expression whose type has variables, maps that of types of maps among them, and doubled
	// that of maps that can have the same variable twice.
	open, maps, doubled float64
	// nested is the number of variables of macros around the current part whose type has variables, and most the
	// largest one.
	nested, most float64
	// largest bounds the types as they are written.
	largest shape
}

// total returns all steps. The types that replace type variables can be put together from those of all maps, which alone
// have two parts. A type is deeper than all that are written, or has the same variable twice, only if variables of macros have it.
func (w *work) total() float64 {
	s := shape{depth: w.largest.depth * (w.most + 1)}
	s.parts = s.depth*(w.maps+1) + w.largest.parts
	if w.most > 0 {
		s.parts *= math.Exp2(min(w.doubled, 60))
	}
	return w.steps + w.open*s.steps()
}

// node adds an expression, and returns a bound of its type.
func (w *work) node(e ast.Expr) (s shape) {
	switch e.Kind() {
	case ast.IdentKind:
		s = w.declared
		if inScope, ok := w.scope[e.AsIdent()]; ok {
			s = inScope
		}
	case ast.SelectKind:
		s = w.declared.or(w.node(e.AsSelect().Operand()))
	case ast.ListKind:
		s = w.list(e.AsList())
	case ast.MapKind:
		s = w.dict(e.AsMap())
	case ast.StructKind:
		for _, x := range e.AsStruct().Fields() {
			w.compare(w.node(x.AsStructField().Value()))
		}
		s = w.declared
	case ast.CallKind:
		s = w.call(e.AsCall())
	case ast.ComprehensionKind:
		s = w.comprehension(e.AsComprehension())
	default:
		s = scalar
	}
	w.steps += stepsPerNode + s.steps()
	w.largest = w.largest.or(s)
	if s.open {
		w.open++
	}
	return s
}

// compare adds a comparison of types, which copies all type variables.
func (w *work) compare(s shape) { w.steps += w.variables*stepsPerVariable + s.steps() }

func (w *work) list(l ast.ListExpr) shape {
	items := l.Elements()
	item := scalar
	for _, x := range items {
		s := w.node(x)
		w.compare(s)
		item = item.or(s)
	}
	if len(items) == 0 {
		w.variables++
		item.open = true
	}
	return of(item, shape{})
}

func (w *work) dict(m ast.MapExpr) shape {
	key, value := scalar, scalar
	for _, x := range m.Entries() {
		entry := x.AsMapEntry()
		k, v := w.node(entry.Key()), w.node(entry.Value())
		w.compare(k)
		w.compare(v)
		key, value = key.or(k), value.or(v)
	}
	if m.Size() == 0 {
		w.variables += 2
		key.open = true
	} else if key.open {
		w.doubled++
	}
	return w.pair(of(key, value))
}

// pair counts a type with two parts.
func (w *work) pair(s shape) shape {
	if s.open {
		w.maps++
	}
	return s
}

// comprehension adds what a macro has expanded to.
func (w *work) comprehension(c ast.ComprehensionExpr) shape {
	// Nothing can name the items if the macro has no loop, and only the loop names and makes its result.
	items := w.unless(c.IterVar() == "#unused", c.IterRange())
	result := w.unless(c.AccuVar() == parser.HiddenAccumulatorName, c.AccuInit())
	w.compare(items)
	w.compare(result)
	restore := w.declare(c.AccuVar(), result)
	defer restore()
	w.loop(c, items, &result)
	w.scope[c.AccuVar()] = result
	return result.or(w.node(c.Result()))
}

// loop adds the condition and the step of a loop.
func (w *work) loop(c ast.ComprehensionExpr, items shape, result *shape) {
	defer w.declare(c.IterVar(), items)()
	if c.HasIterVar2() {
		defer w.declare(c.IterVar2(), items)()
	}
	w.compare(w.node(c.LoopCondition()))
	*result = result.or(w.node(c.LoopStep()))
	for range 3 { // the step has the result as a part
		w.compare(*result)
	}
}

// unless adds a value. If it is hidden and empty, it does not matter which types its parts have.
func (w *work) unless(hidden bool, e ast.Expr) shape {
	empty := e.Kind() == ast.ListKind && e.AsList().Size() == 0 || e.Kind() == ast.MapKind && e.AsMap().Size() == 0
	if !hidden || !empty {
		return w.node(e)
	}
	w.variables += 2
	w.steps += stepsPerNode
	return scalar
}

// declare declares a variable until the returned function is called.
func (w *work) declare(name string, s shape) (end func()) {
	before, ok := w.scope[name]
	w.scope[name] = s
	if s.open {
		w.nested++
		w.most = max(w.most, w.nested)
	}
	return func() {
		if s.open {
			w.nested--
		}
		if delete(w.scope, name); ok {
			w.scope[name] = before
		}
	}
}

func (w *work) call(c ast.CallExpr) shape {
	name := c.FunctionName()
	all, largest := shape{}, scalar
	operands := c.Args()
	if c.IsMemberFunction() {
		operands = append([]ast.Expr{c.Target()}, operands...)
	}
	var shapes []shape
	for _, x := range operands {
		s := w.node(x)
		shapes = append(shapes, s)
		all, largest = of(all, s), largest.or(s)
	}
	if _, isPattern := patterns[name]; isPattern && len(operands) > 1 && w.steps <= maxSteps {
		w.steps += stepsOfPattern(operands[1])
	}
	f := w.function(c)
	if name == operators.LogicalAnd || name == operators.LogicalOr {
		f.overloads = float64(len(operands))
	}
	for range int(f.overloads) {
		w.compare(all)
	}
	w.variables += f.variables
	switch {
	case name == operators.Conditional && len(shapes) == 3:
		return shapes[1].or(shapes[2])
	case name == operators.OptSelect:
		return of(largest.or(w.declared), shape{})
	case f.fresh:
		largest.open = true
	case !f.generic:
		return scalar.or(shape{parts: f.result.Parts, depth: f.result.Depth})
	}
	switch name {
	case operators.Index, operators.Add, "value", "or", "orValue":
		return largest
	}
	if !f.pairs {
		return of(largest, shape{})
	}
	if largest.open {
		w.doubled++
	}
	return w.pair(shape{all.parts, all.depth, largest.open})
}

// function returns the function of a call, whose name may be qualified.
func (w *work) function(c ast.CallExpr) function {
	if c.IsMemberFunction() && c.Target().Kind() == ast.IdentKind {
		if f, ok := w.functions[c.Target().AsIdent()+"."+c.FunctionName()]; ok {
			return f
		}
	}
	f, ok := w.functions[c.FunctionName()]
	if !ok {
		return function{overloads: 1, result: TypeSize{1, 1}}
	}
	return f
}

// function is what the type checker does for each call of a function: it compares the types of the arguments
// with those of the overloads, whose type variables are new each time.
type function struct {
	overloads, variables float64
	// result bounds the result, unless it is generic: then it has parts of arguments, and of two of them if pairs
	// is set. fresh is set if the result has parts that no argument has.
	result                TypeSize
	generic, pairs, fresh bool
}

var functionShapes = sync.OnceValue(func() map[string]function {
	out := map[string]function{}
	for name, declared := range Functions() {
		out[name] = functionOf(declared)
	}
	return out
})

func functionOf(declared *decls.FunctionDecl) (f function) {
	for _, o := range declared.OverloadDecls() {
		f.overloads++
		f.variables += float64(len(o.TypeParams()))
		inResult, inArgs := map[string]bool{}, map[string]bool{}
		parameters(o.ResultType(), inResult)
		for _, a := range o.ArgTypes() {
			parameters(a, inArgs)
		}
		f.result = f.result.Or(SizeOf(o.ResultType()))
		f.generic = f.generic || len(inResult) > 0
		f.pairs = f.pairs || len(inResult) > 1
		for p := range inResult {
			f.fresh = f.fresh || !inArgs[p]
		}
	}
	return f
}

// parameters adds the names of the type parameters of a type.
func parameters(t *types.Type, to map[string]bool) {
	if t.Kind() == types.TypeParamKind {
		to[t.TypeName()] = true
	}
	for _, p := range t.Parameters() {
		parameters(p, to)
	}
}
