package bounds

import (
	"fmt"

	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
)

// operator is a call of an operator with two arguments. Such calls are frequent and cheap, so the
// arguments are not put into a list.
type operator struct {
	interpreter.InterpretableCall
	left, right interpreter.InterpretableV2
	work        meter
	apply       func(left, right ref.Val) ref.Val
}

// binary has the operators with two arguments that may be lists and maps.
var binary = map[string]func(left, right ref.Val) ref.Val{
	operators.Equals:    types.Equal,
	operators.NotEquals: func(l, r ref.Val) ref.Val { return types.Bool(types.Equal(l, r) != types.True) },
	operators.In:        contains,
	operators.Add:       add,
}

// bounded returns a call of an operator that looks at its arguments first, or nil if they are certainly small.
func bounded(call interpreter.InterpretableCall) interpreter.InterpretableV2 {
	name, args := call.Function(), call.Args()
	apply, ok := binary[name]
	if !ok || len(args) != 2 || call.OverloadID() == overloads.InMap {
		return nil
	}
	if name == operators.Add && call.OverloadID() != "" && call.OverloadID() != overloads.AddList {
		return nil
	}
	return &operator{InterpretableCall: call, left: args[0], right: args[1], work: meters[name], apply: apply}
}

// Exec evaluates the arguments and then the operator.
func (o *operator) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	left, right := o.left.Exec(frame), o.right.Exec(frame)
	if types.IsUnknownOrError(left) {
		return left
	}
	if types.IsUnknownOrError(right) {
		return right
	}
	if !isScalar(left) || !isScalar(right) {
		if name := o.Function(); o.work([]ref.Val{left, right}) > maxWork {
			return types.LabelErrNode(o.ID(), tooMuch(name))
		}
	}
	return types.LabelErrNode(o.ID(), o.apply(left, right))
}

// Eval evaluates the operator.
func (o *operator) Eval(in interpreter.Activation) ref.Val { return o.Exec(interpreter.AsFrame(in)) }

func contains(v, in ref.Val) ref.Val {
	if in.Type().HasTrait(traits.ContainerType) {
		return in.(traits.Container).Contains(v)
	}
	return types.ValOrErr(in, "no such overload")
}

func add(left, right ref.Val) ref.Val {
	if left.Type().HasTrait(traits.AdderType) {
		return left.(traits.Adder).Add(right)
	}
	return types.NewErr("no such overload: %s", operators.Add)
}

// WorkError is the error of a call that would take too long.
type WorkError struct{ Function string }

func (e *WorkError) Error() string {
	return fmt.Sprintf("the arguments of %s are too large: it would take more than %d steps", e.Function, maxWork)
}

// tooMuch is the result of a call that would take too long.
func tooMuch(name string) ref.Val {
	if text, ok := operators.FindReverse(name); ok && text != "" {
		name = text
	}
	return types.WrapErr(&WorkError{name})
}
