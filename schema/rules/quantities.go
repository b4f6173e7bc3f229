package rules

import (
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"

	"espalier.dev/internal/quantity"
)

// boundQuantities makes the functions quantity and isQuantity treat a text as invalid if it would
// take seconds to parse. The cost of these functions depends on the length of the text only, and
// nothing interrupts them.
func boundQuantities(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	call, ok := i.(interpreter.InterpretableCall)
	if !ok || len(call.Args()) != 1 {
		return i, nil
	}
	switch call.Function() {
	case "quantity":
		return boundQuantity{call, types.NewErr("the number is too long, or its exponent too large, for a quantity")}, nil
	case "isQuantity":
		return boundQuantity{call, types.False}, nil
	}
	return i, nil
}

// boundQuantity is a call of a function that parses a quantity.
type boundQuantity struct {
	interpreter.InterpretableCall
	// otherwise is the result for a text that must not be parsed.
	otherwise ref.Val
}

func (b boundQuantity) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	if b.isCostly(b.Args()[0].Exec(frame)) {
		return b.otherwise
	}
	return b.InterpretableCall.Exec(frame)
}

func (b boundQuantity) Eval(in interpreter.Activation) ref.Val {
	if b.isCostly(b.Args()[0].Eval(in)) {
		return b.otherwise
	}
	return b.InterpretableCall.Eval(in)
}

func (b boundQuantity) isCostly(v ref.Val) bool {
	text, ok := v.(types.String)
	return ok && quantity.IsCostly(string(text))
}
