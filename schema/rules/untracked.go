package rules

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"unicode/utf8"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/decls"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"

	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"espalier.dev/schema/rules/bounds"
)

// untracked evaluates an expression without counting what it costs, which takes as long as the
// evaluation itself. That is possible if the cost is known to be at most a bound that depends on
// the sizes of texts and lists in the object, and almost always far below the limits.
//
// The expression may only use functions whose results are no texts, lists or maps. Then each of
// these is a part of the object or is written in the expression, and no larger than the largest of
// those.
type untracked struct {
	program interpreter.InterpretableV2
	// loops is set if the expression has loops, which the end of a context interrupts.
	loops bool
	// costs[n] is the cost of the parts of the expression that are inside of n loops.
	costs [maxLoops + 1]boundedCost
	// own are the sizes of what is written in the expression.
	own largest
	// builds is set if the expression makes lists of lists or objects. They may have the same part many times.
	builds bool
}

// maxLoops is the maximum nesting of loops in an untracked expression.
const maxLoops = 3

// boundedCost is a bound of a cost that depends on the size of texts, and on that of the whole object.
type boundedCost struct{ fixed, perText, perObject float64 }

// largest are the sizes of the largest list or map, of the largest text, and of all values.
type largest struct{ list, text, all int }

func (l largest) with(other largest) largest {
	return largest{max(l.list, other.list), max(l.text, other.text), max(l.all, other.all)}
}

// in adds the sizes in a value of an object.
func (l *largest) in(v any) {
	l.all++
	switch v := v.(type) {
	case string:
		l.text = max(l.text, len(v))
		l.all += len(v) / bounds.ReadPerVisit
	case []any:
		l.list = max(l.list, len(v))
		for _, item := range v {
			l.in(item)
		}
	case map[string]any:
		l.list = max(l.list, len(v))
		for key, value := range v {
			l.all += 1 + len(key)/bounds.ReadPerVisit
			l.name(key)
			l.in(value)
		}
	}
}

// An escaped name has at most escapedKeyword more characters and, for each that is not a letter or digit,
// escapedCharacter more: a/b is a__slash__b.
const (
	escapedKeyword   = 4
	escapedCharacter = 8
)

// name adds the size of the name of a field.
func (l *largest) name(key string) {
	if len(key)*(1+escapedCharacter)+escapedKeyword <= l.text {
		return
	}
	size := len(key) + escapedKeyword
	for i := range len(key) {
		switch key[i] {
		case '_', '-', '.', '/':
			size += escapedCharacter
		}
	}
	l.text = max(l.text, size)
}

// Costs of the interpreter. A part of an expression costs 1 each time, or 2 if it is counted as an
// attribute and as a part of one, and a list 10 more. A character of a text costs a tenth, and one of a
// pattern a quarter.
const (
	partCost    = 2
	listCost    = 10
	textCost    = 0.1
	patternCost = 0.25
)

// bound returns what an evaluation costs at most.
func (u *untracked) bound(in largest) float64 {
	size := in.with(u.own)
	// A list is compared like a text.
	text := float64(max(size.list, size.text))*textCost + 2
	sum, times := 0.0, 1.0
	for _, c := range u.costs {
		sum += times * (c.fixed + c.perText*text + c.perObject*float64(size.all)*bounds.VisitCost)
		times *= float64(size.list + 1)
	}
	return sum
}

// eval evaluates the expression.
func (u *untracked) eval(ctx context.Context, in interpreter.Activation) (out ref.Val, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("internal error: %v", r)
		}
	}()
	frame, err := interpreter.NewExecutionFrame(in)
	if err != nil {
		return nil, err
	}
	defer frame.Close()
	if u.loops {
		if err := frame.SetContext(ctx, celconfig.CheckFrequency); err != nil {
			return nil, err
		}
	}
	out = u.program.Exec(frame)
	if types.IsError(out) {
		err = out.(*types.Err)
		if errors.Is(err, interpreter.InterruptError{}) {
			err = fmt.Errorf("%w: %w", err, context.Cause(ctx))
		}
	}
	return out, err
}

// newUntracked returns the evaluation of a checked expression, or nil if its cost must be tracked.
func newUntracked(env *cel.Env, checked *cel.Ast) *untracked {
	tree := checked.NativeRep()
	u := &untracked{}
	if !u.add(tree, tree.Expr(), 0) || u.builds && u.visits() {
		return nil
	}
	dispatcher := cheapFunctions()
	adapter, provider := env.CELTypeAdapter(), env.CELTypeProvider()
	program, err := interpreter.NewInterpreter(dispatcher, env.Container, provider, adapter,
		interpreter.NewAttributeFactory(env.Container, adapter, provider)).NewInterpretable(tree,
		bounds.Planner(), interpreter.InterruptableEval(), interpreter.Optimize(),
		interpreter.CompileRegexConstants(interpreter.MatchesRegexOptimization))
	if err != nil {
		return nil // the program with tracking has the same error
	}
	u.program = program
	return u
}

// visits reports whether the expression may visit all values in a list or an object.
func (u *untracked) visits() bool {
	return slices.ContainsFunc(u.costs[:], func(c boundedCost) bool { return c.perObject > 0 })
}

// isScalar reports whether the values of an expression have no others in them.
func isScalar(tree *ast.AST, e ast.Expr) bool {
	switch tree.GetType(e.ID()).Kind() {
	case types.BoolKind, types.BytesKind, types.DoubleKind, types.DurationKind, types.IntKind, types.NullTypeKind,
		types.StringKind, types.TimestampKind, types.UintKind:
		return true
	}
	return false
}

// add adds the cost of an expression that is inside of a number of loops. It returns false if the
// cost has no bound.
func (u *untracked) add(tree *ast.AST, e ast.Expr, loops int) bool {
	if loops > maxLoops {
		return false
	}
	cost := &u.costs[loops]
	cost.fixed += partCost
	all := func(list ...ast.Expr) bool {
		for _, x := range list {
			if !u.add(tree, x, loops) {
				return false
			}
		}
		return true
	}
	switch e.Kind() {
	case ast.LiteralKind:
		u.own.text = max(u.own.text, sizeOfLiteral(e))
		return true
	case ast.IdentKind:
		return true
	case ast.SelectKind:
		return all(e.AsSelect().Operand())
	case ast.ListKind:
		cost.fixed += listCost
		u.builds = u.builds || slices.ContainsFunc(e.AsList().Elements(), func(x ast.Expr) bool { return !isScalar(tree, x) })
		u.own.list = max(u.own.list, e.AsList().Size())
		return len(e.AsList().OptionalIndices()) == 0 && all(e.AsList().Elements()...)
	case ast.CallKind:
		c := e.AsCall()
		more, ok := costOfCall(tree, e)
		cost.perText += more.perText
		cost.perObject += more.perObject
		return ok && (!c.IsMemberFunction() || all(c.Target())) && all(c.Args()...)
	case ast.ComprehensionKind:
		u.loops = true
		c := e.AsComprehension()
		return all(c.IterRange(), c.AccuInit(), c.Result()) &&
			u.add(tree, c.LoopCondition(), loops+1) && u.add(tree, c.LoopStep(), loops+1)
	}
	return false
}

// sizeOfLiteral returns the size of a text in an expression.
func sizeOfLiteral(e ast.Expr) int {
	if s, ok := e.AsLiteral().(traits.Sizer); ok {
		if n, ok := s.Size().(types.Int); ok {
			return int(n)
		}
	}
	return 0
}

// costOfCall returns the part of a call's cost that grows with texts and lists. It returns false
// if the function may be costly in another way, or its result may be a text or a list.
func costOfCall(tree *ast.AST, e ast.Expr) (cost boundedCost, ok bool) {
	for _, id := range tree.GetOverloadIDs(e.ID()) {
		of, ok := cheap[id]
		if !ok {
			return cost, false
		}
		perText := &cost.perText
		switch of {
		case fixed:
		case read:
			*perText = max(*perText, bounds.ReadCost/textCost)
		case copied:
			*perText = max(*perText, bounds.CopyCost/textCost)
		case linear:
			*perText = max(*perText, 1)
		case compared:
			*perText = max(*perText, 1)
			if args := e.AsCall().Args(); !isScalar(tree, args[0]) || !isScalar(tree, args[1]) {
				cost.perObject = 1
			}
		case listed:
			// Each item costs 1, not a tenth.
			*perText = max(*perText, 1/textCost)
			if e.AsCall().Args()[1].Kind() != ast.ListKind {
				cost.perObject = 1
			}
		case quadratic:
			// The size of the second text must be known.
			args := e.AsCall().Args()
			second := args[len(args)-1]
			if second.Kind() != ast.LiteralKind {
				return cost, false
			}
			text, isText := second.AsLiteral().(types.String)
			if !isText {
				return cost, false
			}
			*perText = max(*perText, float64(utf8.RuneCountInString(string(text)))*patternCost+2)
			if id != overloads.ContainsString {
				*perText = max(*perText, bounds.CostOfPattern(string(text))/textCost)
			}
		}
	}
	return cost, len(tree.GetOverloadIDs(e.ID())) > 0
}

// growth is how the cost of a function grows with the sizes of its arguments.
type growth uint8

const (
	fixed growth = iota
	// read and copied are small parts of the size of a text.
	read
	copied
	// linear is the size of one argument.
	linear
	// compared is like linear for texts. The values of lists and objects are compared one by one.
	compared
	// listed is the number of items of a list.
	listed
	// quadratic is the product of the sizes of two texts.
	quadratic
)

// cheap are the overloads of functions whose cost has a bound, and whose results are neither texts
// nor lists or maps.
var cheap = map[string]growth{
	overloads.Conditional: fixed, overloads.LogicalAnd: fixed, overloads.LogicalOr: fixed, overloads.LogicalNot: fixed,
	overloads.NotStrictlyFalse: fixed,
	overloads.Equals:           compared, overloads.NotEquals: compared,

	overloads.LessBool: fixed, overloads.LessInt64: fixed, overloads.LessInt64Double: fixed, overloads.LessInt64Uint64: fixed,
	overloads.LessUint64: fixed, overloads.LessUint64Double: fixed, overloads.LessUint64Int64: fixed,
	overloads.LessDouble: fixed, overloads.LessDoubleInt64: fixed, overloads.LessDoubleUint64: fixed,
	overloads.LessTimestamp: fixed, overloads.LessDuration: fixed, overloads.LessString: linear, overloads.LessBytes: linear,

	overloads.LessEqualsBool: fixed, overloads.LessEqualsInt64: fixed, overloads.LessEqualsInt64Double: fixed,
	overloads.LessEqualsInt64Uint64: fixed, overloads.LessEqualsUint64: fixed, overloads.LessEqualsUint64Double: fixed,
	overloads.LessEqualsUint64Int64: fixed, overloads.LessEqualsDouble: fixed, overloads.LessEqualsDoubleInt64: fixed,
	overloads.LessEqualsDoubleUint64: fixed, overloads.LessEqualsTimestamp: fixed, overloads.LessEqualsDuration: fixed,
	overloads.LessEqualsString: linear, overloads.LessEqualsBytes: linear,

	overloads.GreaterBool: fixed, overloads.GreaterInt64: fixed, overloads.GreaterInt64Double: fixed,
	overloads.GreaterInt64Uint64: fixed, overloads.GreaterUint64: fixed, overloads.GreaterUint64Double: fixed,
	overloads.GreaterUint64Int64: fixed, overloads.GreaterDouble: fixed, overloads.GreaterDoubleInt64: fixed,
	overloads.GreaterDoubleUint64: fixed, overloads.GreaterTimestamp: fixed, overloads.GreaterDuration: fixed,
	overloads.GreaterString: linear, overloads.GreaterBytes: linear,

	overloads.GreaterEqualsBool: fixed, overloads.GreaterEqualsInt64: fixed, overloads.GreaterEqualsInt64Double: fixed,
	overloads.GreaterEqualsInt64Uint64: fixed, overloads.GreaterEqualsUint64: fixed, overloads.GreaterEqualsUint64Double: fixed,
	overloads.GreaterEqualsUint64Int64: fixed, overloads.GreaterEqualsDouble: fixed, overloads.GreaterEqualsDoubleInt64: fixed,
	overloads.GreaterEqualsDoubleUint64: fixed, overloads.GreaterEqualsTimestamp: fixed, overloads.GreaterEqualsDuration: fixed,
	overloads.GreaterEqualsString: linear, overloads.GreaterEqualsBytes: linear,

	overloads.AddInt64: fixed, overloads.AddUint64: fixed, overloads.AddDouble: fixed,
	overloads.SubtractInt64: fixed, overloads.SubtractUint64: fixed, overloads.SubtractDouble: fixed,
	overloads.MultiplyInt64: fixed, overloads.MultiplyUint64: fixed, overloads.MultiplyDouble: fixed,
	overloads.DivideInt64: fixed, overloads.DivideUint64: fixed, overloads.DivideDouble: fixed,
	overloads.ModuloInt64: fixed, overloads.ModuloUint64: fixed, overloads.NegateInt64: fixed, overloads.NegateDouble: fixed,

	overloads.IndexList: fixed, overloads.IndexMap: fixed, overloads.InList: listed, overloads.InMap: fixed,
	overloads.SizeString: read, overloads.SizeBytes: fixed, overloads.SizeList: fixed, overloads.SizeMap: fixed,
	overloads.SizeStringInst: read, overloads.SizeBytesInst: fixed, overloads.SizeListInst: fixed, overloads.SizeMapInst: fixed,

	overloads.StartsWithString: linear, overloads.EndsWithString: linear, overloads.ContainsString: quadratic,
	overloads.Matches: quadratic, overloads.MatchesString: quadratic,

	overloads.StringToInt: copied, overloads.StringToDuration: copied, overloads.StringToTimestamp: copied,
	"optional_hasValue": fixed, "optional_value": fixed,

	// The libraries of Kubernetes.
	"is_url_string": linear, "is_ip": linear, "is_cidr": linear,
	"is_quantity_string": linear, "string_to_quantity": linear, "quantity_compare_to": fixed, "quantity_is_greater_than": fixed,
	"quantity_is_less_than": fixed,
}

// cheapFunctions has the implementations of the functions with cheap overloads. To collect those of
// all functions for each expression would take longer than everything else.
var cheapFunctions = sync.OnceValue(func() interpreter.Dispatcher {
	dispatcher := interpreter.NewDispatcher()
	for _, f := range bounds.Functions() {
		if !slices.ContainsFunc(f.OverloadDecls(), func(o *decls.OverloadDecl) bool { _, ok := cheap[o.ID()]; return ok }) {
			continue
		}
		bindings, err := f.Bindings()
		if err == nil {
			err = dispatcher.Add(bindings...)
		}
		if err != nil {
			panic(fmt.Sprintf("CEL function %s: %v", f.Name(), err)) // it depends on this module only
		}
	}
	return dispatcher
})
