// Package bounds bounds the calls of CEL functions whose time or memory has little to do with
// their cost. CEL looks at the cost, and at the deadline of a request, between two calls, but
// never interrupts one.
package bounds

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/decls"
	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/cel/environment"

	"espalier.dev/internal/quantity"
	"espalier.dev/internal/rx"
)

// maxText is the largest text, in bytes, that replace makes. No request is as large.
const maxText = 16 << 20

// EnvSet returns the environments of Kubernetes with bounded functions.
var EnvSet = sync.OnceValue(func() *environment.EnvSet { return EnvSetAt(0) })

// EnvSetAt returns new environments like those of EnvSet, of the given minor version of Kubernetes
// 1. Zero is the latest.
func EnvSetAt(minor uint) *environment.EnvSet {
	set, err := environment.MustBaseEnvSet(Compatibility(minor)).Extend(environment.VersionedOptions{IntroducedVersion: version.MajorMinor(1,
		0), ProgramOptions: []cel.ProgramOption{Option()}})
	if err != nil {
		panic(fmt.Sprintf("CEL environment: %v", err)) // it depends on this module only
	}
	return set
}

// Compatibility returns the version whose functions new expressions can use in the given minor
// version of Kubernetes 1: that of the previous release, so that a server can be downgraded. Zero is
// the latest.
func Compatibility(minor uint) *version.Version {
	if minor == 0 {
		return environment.DefaultCompatibilityVersion()
	}
	return version.MajorMinor(1, minor-1)
}

func base() *environment.EnvSet {
	return environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
}

// Option bounds the functions of a program, and tracks its cost. An evaluation costs what it costs in
// Kubernetes, or more if the work of a call is much more than its cost.
func Option() cel.ProgramOption { return options() }

var options = sync.OnceValue(func() cel.ProgramOption {
	return joined(cel.CustomDecoratorV2(bound), cel.CostTracking(&estimator{}), cel.CostTrackerOptions(trackers()...))
})

// Planner is Option for an interpreter.
func Planner() interpreter.PlannerOption { return interpreter.CustomDecoratorV2(bound) }

// Functions returns the functions of Kubernetes.
func Functions() map[string]*decls.FunctionDecl { return base().StoredExpressionsEnv().Functions() }

// Limited returns the names of the functions whose calls this package limits, or charges for their work.
func Limited() []string {
	names := maps.Clone(guards)
	for name := range meters {
		names[name] = nil
	}
	return slices.Sorted(maps.Keys(names))
}

// guard returns the result of a call that must not be made, or nil. pattern is the compiled
// pattern of the call if it is constant.
type guard func(args []ref.Val, pattern *rx.Regexp) ref.Val

var guards = map[string]guard{
	"quantity": costlyQuantity(types.NewErr("the number is too long, or its exponent too large, for a quantity")),
	// What cannot be parsed is no quantity.
	"isQuantity": costlyQuantity(types.False),
	"matches":    costlyPattern((*rx.Regexp).Check),
	"find":       costlyPattern((*rx.Regexp).Check),
	"findAll":    costlyPattern((*rx.Regexp).CheckAll),
	"replace":    costlyReplacement,
}

// implementations has Kubernetes' implementations of the functions with guards.
var implementations = sync.OnceValue(func() map[string]functions.FunctionOp {
	out := map[string]functions.FunctionOp{}
	declared := Functions()
	names := maps.Clone(checked)
	for name := range guards {
		names[name] = true
	}
	for name := range names {
		bindings, err := declared[name].Bindings()
		if err != nil {
			panic(fmt.Sprintf("CEL function %s: %v", name, err)) // it depends on this module only
		}
		for _, b := range bindings {
			if b.Operator == name {
				out[name] = operation(b)
			}
		}
		if out[name] == nil {
			panic("CEL function " + name + " has no implementation")
		}
	}
	out["indexOf"] = either(indexOf, out["indexOf"])
	out["lastIndexOf"] = either(lastIndexOf, out["lastIndexOf"])
	return out
})

// either returns an implementation that asks another one if it has no result.
func either(f func(args []ref.Val) (ref.Val, bool), otherwise functions.FunctionOp) functions.FunctionOp {
	return func(args ...ref.Val) ref.Val {
		if v, ok := f(args); ok {
			return v
		}
		return otherwise(args...)
	}
}

// operation returns an implementation for any number of arguments.
func operation(o *functions.Overload) functions.FunctionOp {
	return func(args ...ref.Val) ref.Val {
		switch {
		case len(args) == 1 && o.Unary != nil:
			return o.Unary(args[0])
		case len(args) == 2 && o.Binary != nil:
			return o.Binary(args[0], args[1])
		case o.Function != nil:
			return o.Function(args...)
		}
		return types.NoSuchOverloadErr()
	}
}

// bound replaces a call of a function that has a guard.
func bound(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	call, ok := i.(interpreter.InterpretableCall)
	if !ok {
		return i, nil
	}
	name := call.Function()
	if o := bounded(call); o != nil {
		return o, nil
	}
	guard := guards[name]
	if guard == nil && !checked[name] {
		return i, nil
	}
	args := call.Args()
	var pattern *rx.Regexp
	implementation := implementations()[name]
	if find, ok := patterns[name]; ok && len(args) > 1 {
		if source, ok := constant(args[1]); ok {
			var err error
			if pattern, err = rx.Compile(source, maxGroups); err != nil {
				return nil, err
			}
			args = slices.Clone(args)
			args[1] = opaque{args[1]}
			implementation = find(pattern)
		}
	}
	return interpreter.NewCall(call.ID(), name, call.OverloadID(), args, func(values ...ref.Val) ref.Val {
		if guard != nil {
			if v := guard(values, pattern); v != nil {
				return v
			}
		}
		if pattern == nil && checked[name] && meters[name](values) > maxWork {
			return tooMuch(name)
		}
		return implementation(values...)
	}), nil
}

// constant returns the value of an argument that is a constant text.
func constant(i interpreter.InterpretableV2) (string, bool) {
	c, ok := i.(interpreter.InterpretableConst)
	if !ok {
		return "", false
	}
	text, ok := c.Value().(types.String)
	return string(text), ok
}

// opaque hides that an argument is constant, because otherwise the planner replaces the call.
type opaque struct{ interpreter.InterpretableV2 }

// maxGroups is the number of groups of a constant pattern that are kept.
const maxGroups = 16

// patterns has the functions whose second argument is a regular expression, for constant
// expressions, which are compiled only once.
var patterns = map[string]func(*rx.Regexp) functions.FunctionOp{
	"matches": ofText(2, func(re *rx.Regexp, text string, _ int) ref.Val { return types.Bool(re.MatchString(text)) }),
	"find":    ofText(2, func(re *rx.Regexp, text string, _ int) ref.Val { return types.String(re.FindString(text)) }),
	"findAll": ofText(3, func(re *rx.Regexp, text string, limit int) ref.Val {
		return types.NewStringList(types.DefaultTypeAdapter, re.FindAllString(text, limit))
	}),
}

// ofText returns a function of a text, a regular expression, and, with three arguments, a limit.
func ofText(most int, f func(re *rx.Regexp, text string, limit int) ref.Val) func(*rx.Regexp) functions.FunctionOp {
	return func(re *rx.Regexp) functions.FunctionOp {
		return func(args ...ref.Val) ref.Val {
			if len(args) > most {
				return types.NoSuchOverloadErr()
			}
			text, ok := args[0].(types.String)
			if !ok {
				return types.MaybeNoSuchOverloadErr(args[0])
			}
			limit := types.Int(-1)
			if len(args) == 3 {
				if limit, ok = args[2].(types.Int); !ok {
					return types.MaybeNoSuchOverloadErr(args[2])
				}
			}
			return f(re, string(text), int(limit))
		}
	}
}

func costlyQuantity(otherwise ref.Val) guard {
	return func(args []ref.Val, _ *rx.Regexp) ref.Val {
		if text, ok := args[0].(types.String); ok && quantity.IsCostly(string(text)) {
			return otherwise
		}
		return nil
	}
}

func costlyPattern(check func(*rx.Regexp, string) error) guard {
	return func(args []ref.Val, pattern *rx.Regexp) ref.Val {
		if len(args) < 2 {
			return nil
		}
		text, ok := args[0].(types.String)
		if !ok {
			return nil
		}
		if pattern == nil {
			source, ok := args[1].(types.String)
			if !ok || times(foldedRanges(string(source)), rangeWork) > maxWork {
				return nil // it is too much work
			}
			var err error
			if pattern, err = rx.Compile(string(source), maxGroups); err != nil {
				return nil // the function reports it
			}
		}
		if err := check(pattern, string(text)); err != nil {
			return types.WrapErr(err)
		}
		return nil
	}
}

// costlyReplacement bounds the length of the result of replace.
func costlyReplacement(args []ref.Val, _ *rx.Regexp) ref.Val {
	if sizeOfReplacement(args) > maxText {
		return types.NewErr("the result of replace is larger than %d MiB", maxText>>20)
	}
	return nil
}
