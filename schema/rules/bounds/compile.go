package bounds

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/ext"
	"github.com/google/cel-go/parser"
	apiservercel "k8s.io/apiserver/pkg/cel"
)

// The compiler of CEL looks at no deadline, and the work for an expression has little to do with its length: some
// macros copy the value that they are called on, so that a chain of them doubles with each call; the type checker copies
// all type variables for each function, list item and map entry; and a type that is written with n characters can have
// 2ⁿ parts. So the work is estimated before.
//
// A step is about a nanosecond.
const (
	// maxSteps is the most that the compilation of one expression may take. kube-apiserver needs more than a second for
	// what is above.
	maxSteps = 5e9
	// maxStepsTogether is the most that all expressions of an object may take.
	maxStepsTogether = 2 * maxSteps
	// maxNodes is the number of parts of an expression from which on no macro is expanded.
	maxNodes = 150_000
	// heavySteps are those of heavy expressions, and heavyNodes as many parts as are heavy in any case.
	heavySteps = maxSteps / 100
	heavyNodes = heavySteps / stepsPerNode
)

// ErrTooComplex is returned for an expression that would take too long to compile.
var ErrTooComplex = errors.New("the expression is too complex to be compiled: " +
	"use fewer nested or chained calls, list items and map entries")

// ErrTooComplexTogether is returned for the expressions of an object that would take too long to compile together.
var ErrTooComplexTogether = errors.New("all CEL expressions of the object together are too complex to be compiled: " +
	"use fewer or simpler expressions")

// Check returns ErrTooComplex if an expression would take too long to compile. The types of its variables must not be larger
// than largest.
func Check(text string, largest TypeSize) error {
	if Steps(text, largest) > maxSteps {
		return ErrTooComplex
	}
	return nil
}

// Repeats returns how often an expression may be compiled, at most a hundred times.
func Repeats(text string, largest TypeSize) int {
	return int(min(maxSteps/Steps(text, largest), 100))
}

// IsHeavy reports whether expressions need more than a hundredth of the work that is allowed for one. It takes
// little time and memory.
func IsHeavy(texts []string) bool {
	left := heavySteps
	for _, text := range texts {
		if left -= stepsOfText(text); left > 0 && !isShort(text) {
			left -= steps(text, TypeSize{}, parsers().small)
		}
		if left < 0 {
			return true
		}
	}
	return false
}

// Error returns the error of Check as one of k8s.io/apiserver.
func Error(err error) *apiservercel.Error {
	return &apiservercel.Error{Type: apiservercel.ErrorTypeInvalid, Detail: "compilation failed: " + err.Error(), Cause: err}
}

// Recover is deferred by functions that compile expressions. If the compiler panics, as that of CEL does for [?dyn(x)], it
// calls report with an error.
func Recover(report func(error)) {
	if v := recover(); v != nil {
		report(fmt.Errorf("the compiler of CEL failed: %v: write the expression in another way", v))
	}
}

// IsTooComplex reports whether an error of k8s.io/apiserver is that of an expression that was not compiled, because it would
// take too long. It may be nil.
func IsTooComplex(err *apiservercel.Error) bool {
	return err != nil && (errors.Is(err.Cause, ErrTooComplex) || errors.Is(err.Cause, ErrTooComplexTogether))
}

// Allowance is what the expressions of an object may take together. The zero value is unused. It is not safe for concurrent
// use.
type Allowance struct{ used float64 }

// Check is like the function Check, and returns ErrTooComplexTogether if the expression would take too long together with
// those that it was called with before.
func (a *Allowance) Check(text string, largest TypeSize) error {
	if a.used > maxStepsTogether {
		return ErrTooComplexTogether
	}
	steps := Steps(text, largest)
	if steps > maxSteps {
		a.used += maxSteps / 10 // to find it out is work, too
		return ErrTooComplex
	}
	if a.used += steps; a.used > maxStepsTogether {
		return ErrTooComplexTogether
	}
	return nil
}

// TypeSize is the size of a type: the number of its parts, and how deep they are nested. The zero value is that of
// a type without parameters.
type TypeSize struct{ Parts, Depth float64 }

// SizeOf returns the size of a type.
func SizeOf(t *cel.Type) (size TypeSize) {
	const most = 1e6
	var add func(t *cel.Type, depth float64)
	add = func(t *cel.Type, depth float64) {
		size.Parts++
		size.Depth = max(size.Depth, depth)
		for _, p := range t.Parameters() {
			if size.Parts < most {
				add(p, depth+1)
			}
		}
	}
	add(t, 1)
	return size
}

// TypeSizes returns the sizes of declared types, and keeps them.
type TypeSizes map[*apiservercel.DeclType]TypeSize

// Of returns a bound of a type and of those of its fields.
func (s TypeSizes) Of(t *apiservercel.DeclType) TypeSize {
	if t == nil {
		return TypeSize{}
	}
	size, ok := s[t]
	if !ok {
		s[t] = size // it may be a part of itself
		size = SizeOf(t.CelType()).Or(s.Of(t.ElemType)).Or(s.Of(t.KeyType))
		for _, f := range t.Fields {
			size = size.Or(s.Of(f.Type))
		}
		s[t] = size
	}
	return size
}

// Or returns a size that is not smaller than either of two.
func (s TypeSize) Or(other TypeSize) TypeSize {
	return TypeSize{max(s.Parts, other.Parts), max(s.Depth, other.Depth)}
}

// Steps returns a bound of the work of compiling an expression.
func Steps(text string, largest TypeSize) float64 { return steps(text, largest, parsers().expanding) }

func steps(text string, largest TypeSize, expanding *parser.Parser) float64 {
	steps := stepsOfText(text)
	if isShort(text) && largest.Parts <= declared.parts && largest.Depth <= declared.depth {
		return steps * shortFactor
	}
	if steps > maxSteps {
		return steps
	}
	parsed, errs := expanding.Parse(common.NewTextSource(text))
	for _, err := range errs.GetErrors() {
		if err.Message == expansionError {
			return most
		}
	}
	if len(errs.GetErrors()) > 0 {
		// The environment of the expression may not have the macro that the error is about.
		if parsed, errs = parsers().plain.Parse(common.NewTextSource(text)); len(errs.GetErrors()) > 0 {
			return steps
		}
	}
	w := work{scope: map[string]shape{}, declared: declared.or(shape{parts: largest.Parts, depth: largest.Depth}), functions: functionShapes()}
	w.node(parsed.Expr())
	return min(steps+w.total(), most)
}

// stepsOfText returns the work of reading a text. The parser looks far ahead after a minus, and the name of a
// message is copied for each of its parts.
func stepsOfText(text string) float64 {
	length := float64(len(text))
	return length*stepsPerByte + float64(strings.Count(text, "-"))*stepsPerMinus + float64(strings.Count(text, "."))*length*stepsPerCopy
}

// isShort reports whether a text is so short that its length bounds its work, as those of most rules are. It need not be
// parsed twice. A pattern needs few characters for large ranges, but they are not ASCII, or are escaped.
func isShort(text string) bool {
	return len(text) <= 200 && strings.Count(text, "[")+strings.Count(text, "{") <= 6 && !strings.Contains(text, "opt") &&
		!strings.ContainsFunc(text, func(r rune) bool { return r == '\\' || r >= utf8.RuneSelf })
}

// most is larger than all numbers that are of interest, and small enough to be multiplied.
const most = 1e18

type compileParsers struct{ expanding, small, plain *parser.Parser }

// parsers parse expressions with all macros of Kubernetes, with all of them in small expressions, and with none.
var parsers = sync.OnceValue(func() (p compileParsers) {
	env, err := base().StoredExpressionsEnv().Extend(ext.Bindings())
	if err != nil {
		panic(fmt.Sprintf("CEL environment: %v", err)) // it depends on this module only
	}
	for to, most := range map[**parser.Parser]int64{&p.expanding: maxNodes, &p.small: heavyNodes, &p.plain: 0} {
		var macros []parser.Macro
		for _, m := range env.Macros() {
			if most > 0 {
				macros = append(macros, boundedMacro{m, most})
			}
		}
		if *to, err = parser.NewParser(parser.Macros(macros...), parser.EnableOptionalSyntax(true)); err != nil {
			panic(fmt.Sprintf("CEL parser: %v", err))
		}
	}
	return p
})

const expansionError = "the macros of the expression expand to too many parts"

// boundedMacro is a macro that is not expanded in an expression that has already too many parts. No macro copies
// more than the expression has, so there are at most twice as many.
type boundedMacro struct {
	parser.Macro
	most int64
}

// Expander implements [parser.Macro].
func (m boundedMacro) Expander() parser.MacroExpander {
	expand := m.Macro.Expander()
	return func(h parser.ExprHelper, target ast.Expr, args []ast.Expr) (ast.Expr, *common.Error) {
		// Parts are numbered.
		if id := h.NewLiteral(types.True).ID(); id > m.most {
			return nil, h.NewError(id, expansionError)
		}
		return expand(h, target, args)
	}
}
