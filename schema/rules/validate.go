package rules

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"

	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/warning"

	"espalier.dev/api"
	"espalier.dev/schema"
)

// Validate evaluates the rules on obj. old is the object that an update replaces, or
// nil.
//
// If a rule fails on a value that has not changed, the failure is tolerated, unless it is a
// transition rule. Its message becomes a warning if ctx has a recorder of
// k8s.io/apiserver/pkg/warning.
func (p *program) Validate(ctx context.Context, obj, old schema.Object) schema.Violations {
	e := p.evaluate(ctx, obj, old, false)
	if e.inexact {
		e = p.evaluate(ctx, obj, old, true)
	}
	for _, text := range e.warnings {
		warning.AddWarning(ctx, "", text)
	}
	return e.found
}

// evaluate evaluates the rules. If exact is set, it tracks all costs.
func (p *program) evaluate(ctx context.Context, obj, old schema.Object, exact bool) *evaluation {
	e := &evaluation{ctx: ctx, program: p, obj: obj, old: old, budget: p.budget, exact: exact}
	var before any
	if old != nil {
		before = map[string]any(old)
	}
	e.value(p.root, map[string]any(obj), before)
	return e
}

// evaluation is one call of Validate.
type evaluation struct {
	ctx      context.Context
	program  *program
	obj, old map[string]any
	// budget is the remaining budget. It is negative when no further rule may run.
	budget int64
	// assumed is what the untracked evaluations have cost at most. If it matters how much they have
	// cost indeed, inexact is set, and everything is evaluated again with exact set.
	assumed        int64
	warned         int // the length of warnings
	exact, inexact bool
	// sizes are those of obj and old, or nil if they are not known yet.
	sizes *largest

	path     schema.Path
	found    schema.Violations
	warnings []string
	// correlated matches obj with old. It is created when ratcheting needs it.
	correlated *common.CorrelatedObject
}

// value evaluates the rules of v and those below it.
func (e *evaluation) value(v *validator, obj, old any) {
	if obj == nil {
		// Rules are not evaluated on null.
		return
	}
	e.own(v, obj, notNil(old))
	if e.budget < 0 {
		return
	}
	switch obj := obj.(type) {
	case []any:
		before, _ := old.([]any)
		e.array(v, obj, before)
	case map[string]any:
		before, _ := old.(map[string]any)
		e.object(v, obj, before)
	}
}

// notNil returns nil for nil maps and lists.
func notNil(v any) any {
	switch x := v.(type) {
	case map[string]any:
		if x == nil {
			return nil
		}
	case []any:
		if x == nil {
			return nil
		}
	}
	return v
}

func (e *evaluation) array(v *validator, obj, old []any) {
	if v.items == nil {
		return
	}
	var oldItems common.MapList
	if v.listView != nil && len(old) > 0 {
		oldItems = common.MakeMapList(v.listView, old)
	}
	e.path = append(e.path, schema.Step{Kind: schema.Index})
	for i, x := range obj {
		e.path[len(e.path)-1].Index = i
		var before any
		if oldItems != nil {
			before = oldItems.Get(x)
		}
		if e.value(v.items, x, before); e.budget < 0 {
			return
		}
	}
	e.path = e.path[:len(e.path)-1]
}

func (e *evaluation) object(v *validator, obj, old map[string]any) {
	if !v.mapsCorrelate {
		old = nil
	}
	if v.additional != nil {
		for _, k := range slices.Sorted(maps.Keys(obj)) {
			if e.entry(v.additional, schema.Step{Kind: schema.MapKey, Key: k}, obj[k], old[k]); e.budget < 0 {
				return
			}
		}
	}
	for i := range v.props {
		p := &v.props[i]
		x, ok := obj[p.name]
		if !ok {
			continue
		}
		if e.entry(p.validator, schema.Step{Kind: schema.Field, Key: p.name}, x, old[p.name]); e.budget < 0 {
			return
		}
	}
}

func (e *evaluation) entry(v *validator, step schema.Step, obj, old any) {
	e.path = append(e.path, step)
	e.value(v, obj, old)
	e.path = e.path[:len(e.path)-1]
}

// stop prevents further rules from running.
func (e *evaluation) stop() { e.budget = -1 }

// spend subtracts the cost of an evaluation from the budget, and reports whether the
// budget sufficed.
func (e *evaluation) spend(cost uint64) bool {
	if cost > math.MaxInt64 || int64(cost) > e.budget {
		return false
	}
	e.budget -= int64(cost)
	return true
}

// untracked reports whether an expression is evaluated without tracking, and assumes that it costs as
// much as it can.
func (e *evaluation) untracked(x *expression) bool {
	if x.untracked == nil || e.exact {
		return false
	}
	if e.sizes == nil {
		e.sizes = new(largest)
		e.sizes.in(e.obj)
		e.sizes.in(e.old)
	}
	bound := x.untracked.bound(*e.sizes)
	// The rest of the budget is for costs that are tracked: most bounds are far too high.
	if bound > float64(e.program.perCallLimit) || float64(e.assumed)+bound >= float64(e.budget/2) {
		return false
	}
	e.assumed += int64(math.Ceil(bound))
	return true
}

// doubts reports whether it depends on the assumed costs if the budget suffices for a cost. Then
// nothing that has been found counts.
func (e *evaluation) doubts(cost uint64) bool {
	if e.assumed == 0 || cost < uint64(e.budget-e.assumed) {
		return false
	}
	e.inexact = true
	e.stop()
	return true
}

const outOfBudget = "validation failed due to running out of cost budget, no further validation rules will be run"

// own evaluates the rules of v itself.
func (e *evaluation) own(v *validator, obj, old any) {
	if v.load == nil {
		return
	}
	v.load()
	if v.err != nil {
		e.invalid(v, nil, obj, "rule compiler initialization error: %v", v.err)
		return
	}
	if e.budget <= 0 {
		e.invalid(v, nil, obj, "%s", outOfBudget)
		e.stop()
		return
	}
	plain := newActivation(v, obj, old)
	var optional *activation
	for _, r := range v.rules {
		switch {
		case e.budget < 0:
			return
		case e.ctx.Err() != nil:
			e.add(r, nil, obj, field.InternalError(e.path.FieldPath(), e.ctx.Err()))
			e.stop()
			return
		case r.err != nil:
			e.invalid(v, r, obj, "rule compile error: %v", r.err)
			continue
		case r.empty():
			continue
		case r.rule.usesOldSelf && old == nil && !r.optional:
			// There is no old value to compare self with.
			continue
		}
		in := plain
		if r.optional && v.usesOldSelf {
			if optional == nil {
				optional = plain.optional()
			}
			in = optional
		}
		var result ref.Val
		var err error
		if e.untracked(&r.rule) {
			result, err = r.rule.untracked.eval(e.ctx, in)
		} else {
			var ok bool
			if result, ok, err = e.tracked(v, r, obj, in); !ok {
				e.stop()
				return
			}
		}
		switch {
		case err != nil && isNoSuchOverload(err):
			e.invalid(v, r, obj, "'%v': call arguments did not match a supported operator, function or macro signature for rule: %v",
				err, nameOf(r.source))
		case isOverCostLimit(err):
			e.invalid(v, r, obj, "'%v': no further validation rules will be run due to call cost exceeds limit for rule: %v", err,
				nameOf(r.source))
			e.stop()
			return
		case err != nil:
			e.invalid(v, r, obj, "%v evaluating rule: %v", err, nameOf(r.source))
		case result != types.True:
			if e.fail(v, r, obj, plain); e.budget < 0 {
				return
			}
		}
	}
}

// tracked evaluates a rule and spends the cost. It returns false if no further rule may run, and has
// reported why.
func (e *evaluation) tracked(v *validator, r *compiled, obj any, in *activation) (result ref.Val, ok bool, err error) {
	program, err := r.rule.tracked()
	if err != nil {
		e.add(r, nil, obj, field.InternalError(e.path.FieldPath(), err))
		return nil, false, nil
	}
	result, details, err := program.ContextEval(e.ctx, in)
	if details == nil {
		e.add(r, nil, obj, field.InternalError(e.path.FieldPath(),
			fmt.Errorf("runtime cost could not be calculated for validation rule: %v, no further validation rules will be run",
				nameOf(r.source))))
		return nil, false, nil
	}
	cost := details.ActualCost()
	if cost == nil {
		e.invalid(v, r, obj,
			"runtime cost could not be calculated for validation rule: %v, no further validation rules will be run", nameOf(r.source))
		return nil, false, nil
	}
	if e.doubts(*cost) {
		return nil, false, nil
	}
	if !e.spend(*cost) {
		e.invalid(v, r, obj, "%s", outOfBudget)
		return nil, false, nil
	}
	return result, true, err
}

// isOverCostLimit reports whether an evaluation was aborted because of its cost.
func isOverCostLimit(err error) bool {
	cancelled, ok := errors.AsType[interpreter.EvalCancelledError](err)
	return ok && cancelled.Cause == interpreter.CostLimitExceeded
}

// isNoSuchOverload reports whether an evaluation failed because a function does not
// support its arguments. The text is the only way to recognize such an error of CEL.
func isNoSuchOverload(err error) bool {
	return strings.HasPrefix(err.Error(), "no such overload")
}

// fail reports a rule that failed. Its messageExpression sees oldSelf as a plain value,
// even if the rule sees an optional value. kube-apiserver does the same, and falls back
// to the plain message where that matters.
func (e *evaluation) fail(v *validator, r *compiled, obj any, in *activation) {
	path := e.path.FieldPath()
	if len(r.field) > 0 {
		path = path.Child(r.field.FieldPath().String())
	}
	detail := messageOf(r.source)
	if r.message.tracked != nil {
		text, problem := e.message(r, in)
		switch {
		case e.inexact:
			return
		case problem == nil:
			detail = text
		case problem.Type == apiservercel.ErrorTypeInternal:
			e.forgiveOrAdd(r, obj, field.InternalError(path, problem))
			e.stop()
			return
		case problem.Type == apiservercel.ErrorTypeInvalid:
			e.forgiveOrAdd(r, obj, field.Invalid(path, v.typ, problem.Error()))
			e.stop()
			return
		}
		// For all other errors, fall back to the plain message.
	}
	var value any = obj
	if v.typ == "object" || v.typ == "array" {
		value = field.OmitValueType{}
	}
	e.forgiveOrAdd(r, obj, errorFor(r.source.Reason, path, value, detail))
}

// message evaluates the messageExpression of a rule.
func (e *evaluation) message(r *compiled, in *activation) (string, *problem) {
	source := r.source.MessageExpression
	program, err := r.message.tracked()
	if err != nil {
		return "", problemf(apiservercel.ErrorTypeInternal, "%v", err)
	}
	result, details, err := program.ContextEval(e.ctx, in)
	if details == nil || details.ActualCost() == nil {
		return "", problemf(apiservercel.ErrorTypeInternal, "runtime cost could not be calculated for messageExpression: %q", source)
	}
	if e.doubts(*details.ActualCost()) {
		return "", nil
	}
	if cost := *details.ActualCost(); cost > math.MaxInt64 || int64(cost) > e.budget {
		return "", problemf(apiservercel.ErrorTypeInvalid,
			"messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run")
	}
	if isOverCostLimit(err) {
		return "", problemf(apiservercel.ErrorTypeInvalid,
			"no further validation rules will be run due to call cost exceeds limit for messageExpression: %q", source)
	}
	e.spend(*details.ActualCost())
	if err != nil {
		return "", problemf("", "messageExpression evaluation failed due to: %v", err)
	}
	text, ok := result.Value().(string)
	if !ok {
		return "", problemf("", "messageExpression failed to convert to string")
	}
	text = strings.TrimSpace(text)
	switch {
	case len(text) > celconfig.MaxEvaluatedMessageExpressionSizeBytes:
		return "", problemf("", "messageExpression beyond allowable length of %d", celconfig.MaxEvaluatedMessageExpressionSizeBytes)
	case strings.Contains(text, "\n"):
		return "", problemf("", "messageExpression should not contain line breaks")
	case text == "":
		return "", problemf("", "messageExpression should evaluate to a non-empty string")
	}
	return text, nil
}

// errorFor returns the field error for the reason of a rule.
func errorFor(reason *api.FieldValueErrorReason, path *field.Path, value any, detail string) *field.Error {
	if reason != nil {
		switch *reason {
		case api.FieldValueForbidden:
			return field.Forbidden(path, detail)
		case api.FieldValueRequired:
			return field.Required(path, detail)
		case api.FieldValueDuplicate:
			return field.Duplicate(path, value)
		}
	}
	return field.Invalid(path, value, detail)
}

// nameOf returns the name of a rule in errors.
func nameOf(r *api.ValidationRule) string {
	if r.Message != "" {
		return strings.TrimSpace(r.Message)
	}
	return strings.TrimSpace(r.Rule)
}

// messageOf returns the message of a rule without its messageExpression.
func messageOf(r *api.ValidationRule) string {
	if r.Message != "" {
		return strings.TrimSpace(r.Message)
	}
	return "failed rule: " + strings.TrimSpace(r.Rule)
}

// invalid reports that the rules of v could not be evaluated on obj.
func (e *evaluation) invalid(v *validator, r *compiled, obj any, format string, args ...any) {
	e.add(r, nil, obj, field.Invalid(e.path.FieldPath(), v.typ, fmt.Sprintf(format, args...)))
}

// add reports an error at the current value, or below it. r is nil if the error is not
// about a specific rule.
func (e *evaluation) add(r *compiled, below schema.Path, obj any, err *field.Error) {
	var want schema.Operand
	if r != nil {
		want.Rule, want.UsesOldSelf = strings.TrimSpace(r.source.Rule), r.rule.usesOldSelf
	}
	e.found = append(e.found, schema.Violation{
		Path:    slices.Concat(e.path, below),
		Kind:    schema.Rule,
		Value:   obj,
		Want:    want,
		Cause:   err,
		Closest: -1,
	})
	if len(e.found) >= schema.MaxViolations {
		e.stop()
	}
}

// forgiveOrAdd reports an error of a rule, unless the value has not changed.
func (e *evaluation) forgiveOrAdd(r *compiled, obj any, err *field.Error) {
	if !r.rule.usesOldSelf && e.unchanged() {
		e.warn(err.Error())
		return
	}
	e.add(r, r.field, obj, err)
}

// maxWarned is the length of the warnings that are kept until the end, because it is not known yet if
// they count.
const maxWarned = 64 << 10

// warn records a warning.
func (e *evaluation) warn(text string) {
	if e.exact {
		warning.AddWarning(e.ctx, "", text)
		return
	}
	e.warnings = append(e.warnings, text)
	if e.warned += len(text); e.warned > maxWarned {
		e.inexact = true
		e.stop()
	}
}

// unchanged reports whether the current value is known to equal the old one. If it
// cannot be matched with an old value, the nearest value around it that can be matched
// decides.
func (e *evaluation) unchanged() bool {
	if e.old == nil {
		return false
	}
	if e.correlated == nil {
		e.correlated = common.NewCorrelatedObject(e.obj, e.old, e.program.schema)
	}
	current := e.correlated
	for i, step := range e.path {
		var next *common.CorrelatedObject
		switch {
		case step.Kind == schema.Index:
			next = current.Index(step.Index)
		case i == 0 && (step.Key == "apiVersion" || step.Key == "kind"):
			// Both objects have been converted to the same version.
			return false
		default:
			next = current.Key(step.Key)
		}
		if next == nil {
			break
		}
		current = next
	}
	return current.CachedDeepEqual()
}

// activation resolves the names in a rule.
type activation struct {
	self, oldSelf ref.Val
	// hasOldSelf is true if oldSelf is defined, even as an optional without a value.
	hasOldSelf bool
}

var _ interpreter.Activation = (*activation)(nil)

func newActivation(v *validator, obj, old any) *activation {
	a := &activation{self: common.UnstructuredToVal(obj, v.view)}
	if v.usesOldSelf && old != nil {
		a.oldSelf, a.hasOldSelf = common.UnstructuredToVal(old, v.view), true
	}
	return a
}

// optional returns a with an optional oldSelf.
func (a *activation) optional() *activation {
	out := &activation{self: a.self, oldSelf: types.OptionalNone, hasOldSelf: true}
	if a.hasOldSelf {
		out.oldSelf = types.OptionalOf(a.oldSelf)
	}
	return out
}

// ResolveName returns the value of a name.
func (a *activation) ResolveName(name string) (any, bool) {
	switch name {
	case selfName:
		return a.self, true
	case oldSelfName:
		return a.oldSelf, a.hasOldSelf
	}
	return nil, false
}

// Parent returns nil: there is no other activation.
func (a *activation) Parent() interpreter.Activation { return nil }
