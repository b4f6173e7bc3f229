package bounds

import (
	"errors"
	"math"
	"slices"
	"sync"

	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"

	"k8s.io/apiserver/pkg/cel/library"
)

// estimator returns the cost of calls as Kubernetes does, or that of their work if it is higher.
type estimator struct{ library.CostEstimator }

// CallCost returns the cost of a call, or nil if CEL knows it.
func (e *estimator) CallCost(function, overload string, args []ref.Val, result ref.Val) *uint64 {
	if _, ok := meters[function]; !ok {
		return e.CostEstimator.CallCost(function, overload, args, result)
	}
	cost := price(function, overload, args, result)
	return &cost
}

// price returns the cost of a call of a function with a meter.
func price(function, overload string, args []ref.Val, result ref.Val) uint64 {
	const notCalled = maxWork / stepsPerCost
	// The error of an argument is passed on, and has been paid for.
	if err, failed := result.(*types.Err); failed && !slices.ContainsFunc(args, types.IsError) {
		if _, ok := errors.AsType[*WorkError](err); ok {
			return notCalled
		}
	}
	steps := meters[function](args)
	if steps > maxWork {
		return notCalled // Kubernetes might not be able to tell
	}
	cost := usual(function, overload, args, result)
	if function == "findAll" && cost < maxWork {
		steps = findingAll(args, length(result), int(cost)*stepsPerCost)
	}
	return max(cost, uint64(steps/stepsPerCost))
}

// usual returns the cost of a call in Kubernetes. CEL does not export what it does if the estimator of
// Kubernetes has no answer.
func usual(function, overload string, args []ref.Val, result ref.Val) uint64 {
	if cost := (&library.CostEstimator{}).CallCost(function, overload, args, result); cost != nil {
		return *cost
	}
	if calculate, ok := costs()[overload]; ok {
		return calculate(args, result)
	}
	return 1
}

// costs has the costs of overloads in CEL.
var costs = sync.OnceValue(func() map[string]func(args []ref.Val, result ref.Val) uint64 {
	out := map[string]func(args []ref.Val, result ref.Val) uint64{
		overloads.StartsWithString: second, overloads.EndsWithString: second,
		overloads.StringToBytes: first, overloads.BytesToString: first, overloads.ExtFormatString: first,
		overloads.InList:  func(args []ref.Val, _ ref.Val) uint64 { return size(args[1]) },
		overloads.Matches: regularExpression, overloads.MatchesString: regularExpression,
		overloads.AddString: both, overloads.AddBytes: both,
		overloads.ContainsString: func(args []ref.Val, _ ref.Val) uint64 { return read10(size(args[0])) * read10(size(args[1])) },
		"list_slice":             allocation, "lists_range": allocation, "list_reverse": allocation,
		"list_flatten": flattenCost, "list_flatten_int": flattenCost,
		"list_distinct":             func(args []ref.Val, _ ref.Val) uint64 { return square(args[0]) },
		"list_sets_contains_list":   setsCost(1),
		"list_sets_intersects_list": setsCost(1),
		"list_sets_equivalent_list": setsCost(2),
	}
	for _, id := range []string{
		overloads.Equals, overloads.NotEquals, overloads.LessString, overloads.GreaterString, overloads.LessEqualsString,
		overloads.GreaterEqualsString, overloads.LessBytes, overloads.GreaterBytes, overloads.LessEqualsBytes, overloads.GreaterEqualsBytes,
	} {
		out[id] = smaller
	}
	for _, name := range []string{"int", "uint", "double", "bool", types.DurationType.TypeName(), types.TimestampType.TypeName(), "string", "bytes"} {
		out["list_"+name+"_sort"] = func(args []ref.Val, _ ref.Val) uint64 { return square(args[0]) }
		out["list_"+name+"_sortByAssociatedKeys"] = func(args []ref.Val, _ ref.Val) uint64 { return square(args[1]) }
	}
	return out
})

// read10 is the cost of reading a text: one for ten characters.
func read10(size uint64) uint64 {
	return uint64(math.Ceil(float64(size) * common.StringTraversalCostFactor))
}

func first(args []ref.Val, _ ref.Val) uint64  { return read10(size(args[0])) }
func second(args []ref.Val, _ ref.Val) uint64 { return read10(size(args[1])) }
func both(args []ref.Val, _ ref.Val) uint64   { return read10(size(args[0]) + size(args[1])) }

// smaller does not count the characters of a text that is certainly the longer one, because that takes long.
func smaller(args []ref.Val, _ ref.Val) uint64 {
	a, b := args[0], args[1]
	n, m := textLength(a), textLength(b)
	const bytesPerCharacter = 4
	switch {
	case n > bytesPerCharacter*max(1, m):
		return read10(size(b))
	case m > bytesPerCharacter*max(1, n):
		return read10(size(a))
	}
	return read10(min(size(a), size(b)))
}

func regularExpression(args []ref.Val, _ ref.Val) uint64 {
	pattern := math.Ceil(float64(size(args[1])) * common.RegexStringLengthCostFactor)
	return read10(1+size(args[0])) * uint64(pattern)
}

// allocated is the cost of a new list with values that cost something each.
func allocated(n uint64, each float64) uint64 {
	cost := float64(n)*each + 1 + common.ListCreateBaseCost
	return uint64(min(cost, 1<<62))
}

func allocation(_ []ref.Val, result ref.Val) uint64 { return allocated(size(result), 1) }

func flattenCost(args []ref.Val, _ ref.Val) uint64 {
	depth := 1.0
	if len(args) == 2 {
		n, _ := args[1].(types.Int)
		depth = float64(n)
	}
	if depth < 0 {
		depth = 1
	}
	return allocated(size(args[0]), depth)
}

// square is the cost of comparing the values of a list with each other.
func square(v ref.Val) uint64 {
	list, ok := v.(traits.Lister)
	if !ok {
		return 1
	}
	each, n := 2.0, size(v)
	if n > 0 {
		if t := list.Get(types.IntZero).Type(); t == types.StringType || t == types.BytesType {
			each += common.StringTraversalCostFactor
		}
	}
	return allocated(n*n, each)
}

func setsCost(factor uint64) func(args []ref.Val, _ ref.Val) uint64 {
	return func(args []ref.Val, _ ref.Val) uint64 { return 1 + size(args[0])*size(args[1])*factor }
}

// size returns the size of a value as CEL counts it.
func size(v ref.Val) uint64 {
	switch v := v.(type) {
	case traits.Sizer:
		if n, ok := v.Size().(types.Int); ok {
			return uint64(n)
		}
	case *types.Optional:
		if v.HasValue() {
			return size(v.GetValue())
		}
	}
	return 1
}

// trackers replace those of CEL's libraries, which are asked before the estimator.
func trackers() (out []interpreter.CostTrackerOption) {
	for _, name := range []string{"slice", "flatten", "lists.range", "reverse", "distinct", "sort", "@sortByAssociatedKeys",
		"sets.contains", "sets.intersects", "sets.equivalent"} {
		for _, o := range Functions()[name].OverloadDecls() {
			out = append(out, interpreter.OverloadCostTracker(o.ID(), func(args []ref.Val, result ref.Val) *uint64 {
				cost := price(name, o.ID(), args, result)
				return &cost
			}))
		}
	}
	return out
}

// joined joins options of a program, whose type CEL does not export.
func joined[P any](options ...func(P) (P, error)) func(P) (P, error) {
	return func(p P) (P, error) {
		var err error
		for _, option := range options {
			if p, err = option(p); err != nil {
				return p, err
			}
		}
		return p, nil
	}
}
