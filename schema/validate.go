package schema

import (
	"context"
	"maps"
	"math"
	"slices"

	"espalier.dev/internal/jsonx"
	"espalier.dev/internal/rx"
)

// Validate validates obj, which should be normal. If old is the object that an update
// replaces, violations in values that have not changed are tolerated, as far as
// Kubernetes can match old and new values (ratcheting).
//
// Validating a valid object does not allocate, except for its rules. An object with more
// than MaxViolations violations is not searched for all of them (see Exhaustive).
func (p *Program) Validate(ctx context.Context, obj, old Object) Violations {
	var found Violations
	isKind := true
	if p.identity != nil && (old != nil || !provesIdentity(p.identity, obj)) {
		if found = p.identity.typeMeta(obj); len(found) > 0 {
			isKind = false
		} else {
			found = p.identity.objectMeta(ctx, obj, old)
		}
	}
	if !isKind || !p.holds(obj) {
		found = append(found, p.violations(ctx, obj, old, isKind)...)
	}
	return append(found, p.rulesOn(ctx, obj, old, found)...)
}

// holds reports whether obj certainly satisfies the schema.
func (p *Program) holds(obj Object) bool {
	if p.draft4 {
		w := draft4Prover{p: p}
		if p.sharing {
			w.shared = newSharedVerdicts()
		}
		return w.proves(root, obj) && !w.work.Exceeded()
	}
	w := prover{p: p, scratch: p.getScratch()}
	defer p.scratch.Put(w.scratch)
	return w.proves(root, obj) && !w.work.Exceeded()
}

// violations is the thorough half of Validate. An object of the wrong kind is not
// validated against the schema, but its list types, unions and embedded resources are,
// as in kube-apiserver. Rules are evaluated elsewhere.
func (p *Program) violations(ctx context.Context, obj, old Object, isKind bool) (all Violations) {
	w := newWalker(p, ctx)
	if isKind {
		all = w.value(root, obj, correlation{old: old, ok: old != nil}).violations
	}
	w.extensions(&all, root, obj, embeddedResources)
	var before Violations
	if old != nil && !w.full() {
		kept := w.kept
		w.extensions(&before, root, old, listTypes)
		w.kept = kept
	}
	if len(before) == 0 {
		w.extensions(&all, root, obj, listTypes)
	}
	w.extensions(&all, root, obj, unionTypes)
	if len(all) == 0 && w.unmatched != nil {
		all = Violations{*w.unmatched}
	}
	return all
}

// MaxViolations is the number of violations after which an object is not searched for more.
// A small object can have very many: each item of a list can violate each branch of its schema.
// A violation whose text is long, such as that of a large enum or a deeply nested value, counts as
// several.
const MaxViolations = 10_000

// exhaustive is the key of Exhaustive in contexts.
type exhaustive struct{}

// Exhaustive returns a context with which Validate finds all violations of the schema, however
// many there are.
func Exhaustive(ctx context.Context) context.Context {
	return context.WithValue(ctx, exhaustive{}, true)
}

// result is the result of validating a value against a schema.
type result struct {
	violations Violations
	// matched counts the checks that a value passed, as kube-apiserver counts them: the
	// branch of a logical operator with the most is the closest.
	matched int
}

func (r *result) merge(o result) {
	if len(r.violations) == 0 {
		// Avoid copying on the way up from a deeply nested value.
		r.violations = o.violations
	} else {
		r.violations = append(r.violations, o.violations...)
	}
	r.matched += o.matched
}

// walker is the thorough walk. It finds all violations and counts what kube-apiserver
// counts.
type walker struct {
	p       *Program
	ctx     context.Context
	path    Path
	dialect dialect
	// kept is the weight of the violations in the result so far, and limit the weight at which
	// the walk goes no further.
	kept, limit int
	// enums has the values of the enums that were violated.
	enums map[int32][]any
	// old compares the values with those of the old object.
	old comparison
	// work is that of matching patterns. unmatched is the first text below a logical operator that could
	// not be matched: if it does match, the operator, such as not, may be violated.
	work      rx.Work
	trying    int
	unmatched *Violation
}

func newWalker(p *Program, ctx context.Context) *walker {
	w := &walker{p: p, ctx: ctx, limit: MaxViolations, old: comparison{p: p}}
	if ctx.Value(exhaustive{}) != nil {
		w.limit = math.MaxInt
	}
	w.dialect = &structuralWalk{w}
	if p.draft4 {
		w.dialect = newDraft4Walk(w)
	}
	return w
}

// full reports whether the walk has enough violations. Then the current branch has at least one.
func (w *walker) full() bool { return w.kept >= w.limit }

// try validates a value against a branch of a logical operator. Every branch may find a
// violation, however many there are already: without one, it would hold.
func (w *walker) try(id int32, v any) result {
	limit := w.limit
	w.limit = max(limit, w.kept+1)
	w.trying++
	r := w.dialect.branch(id, v)
	w.trying--
	w.limit = limit
	return r
}

// dialect descends from a value to its fields and items, and from a schema to those
// that apply to the same value. It is where the two dialects differ.
type dialect interface {
	// beside validates a value against the other schemas that apply to it.
	beside(id int32, v any) result
	// branch validates a value against one of them, without ratcheting.
	branch(id int32, v any) result
	items(r *result, id int32, a []any, c correlation)
	fields(r *result, id int32, obj map[string]any, c correlation)
}

func (w *walker) violation(k ViolationKind, id int32, v any, want Operand) Violation {
	found := Violation{
		Path: w.path.clone(), Kind: k, Schema: w.p.ref(id), Value: v, Want: want, Closest: -1,
		namesFrom: min(w.p.namesBelow, len(w.path)),
	}
	w.kept += found.weight()
	return found
}

// value validates a value, unless it is unchanged: then its violations are tolerated.
func (w *walker) value(id int32, v any, c correlation) result {
	if c.ok && w.old.unchanged(id, c.old, v) {
		return result{}
	}
	return w.check(id, v, c)
}

// check validates a value against a node.
func (w *walker) check(id int32, v any, c correlation) (r result) {
	n := &w.p.nodes[id]
	k := jsonTypeOf(v)
	typeOK := n.accepts.has(k, v)
	if !typeOK {
		r.violations = append(r.violations, w.wrongType(id, k))
	}
	if k == kNull {
		if typeOK {
			r.matched++
		}
		r.violations = append(r.violations, w.enum(id, v)...)
		return r
	}
	if n.types != nil {
		r.matched++
		if typeOK {
			r.matched++
		}
	}
	r.merge(w.dialect.beside(id, v))
	r.matched += 2
	switch v := v.(type) {
	case string:
		r.matched++
		w.string(&r, id, v)
	case int64:
		r.matched += 2
		if n.checks != nil {
			w.number(&r, id, v, n.checks.int(v))
		}
	case float64:
		r.matched += 2
		if n.checks != nil {
			w.number(&r, id, v, n.checks.float(v))
		}
	case []any:
		r.matched += 2
		w.array(&r, id, v, c)
	}
	r.violations = append(r.violations, w.enum(id, v)...)
	r.matched++
	if obj, ok := v.(map[string]any); ok {
		r.matched++
		w.object(&r, id, obj, c)
	}
	r.matched++
	return r
}

func (w *walker) wrongType(id int32, k jsonType) Violation {
	t := w.p.nodes[id].types
	if t == nil {
		// The value is not a JSON value.
		return w.violation(WrongType, id, k.typeName(), Operand{})
	}
	if t.format != "" && k != kString && k != kArray && k != kNull {
		return w.violation(WrongFormat, id, k.formatName(), Operand{Format: t.format})
	}
	return w.violation(WrongType, id, k.typeName(), Operand{Types: slices.Clone(t.names)})
}

func (w *walker) enum(id int32, v any) Violations {
	c := w.p.nodes[id].checks
	if c == nil || c.enum == nil || v != nil && inEnum(c.enum, v) {
		return nil
	}
	allowed, ok := w.enums[id]
	if !ok {
		allowed, _ = jsonx.Copy(c.enum).([]any)
		if w.enums == nil {
			w.enums = map[int32][]any{}
		}
		w.enums[id] = allowed
	}
	return Violations{w.violation(Enum, id, v, Operand{Allowed: allowed})}
}

func (w *walker) string(r *result, id int32, s string) {
	c := w.p.nodes[id].checks
	if c == nil {
		return
	}
	switch c.string(s, &w.work) {
	case fMaxLength:
		r.violations = append(r.violations, w.violation(MaxLength, id, s, Operand{Limit: c.maxLength}))
	case fMinLength:
		r.violations = append(r.violations, w.violation(MinLength, id, s, Operand{Limit: c.minLength}))
	case fPattern:
		v := w.violation(Pattern, id, s, Operand{Pattern: c.pattern.source, PatternErr: c.pattern.failure(&w.work)})
		if w.trying > 0 && w.unmatched == nil && w.work.Exceeded() {
			w.unmatched = &v
		}
		r.violations = append(r.violations, v)
	}
	if c.format != nil {
		r.matched++
		if !c.format(s) {
			r.violations = append(r.violations, w.violation(WrongFormat, id, s, Operand{Format: c.formatName}))
		}
	}
}

func (w *walker) number(r *result, id int32, v any, f failures) {
	if f == 0 {
		return
	}
	c := w.p.nodes[id].checks
	// The bound is compared as an integer with an integer, unless the number type
	// cannot represent it; then both are compared as floats.
	bound := func(flag, outOfRange failures, k ViolationKind, operand float64, exclusive bool) {
		if f&flag == 0 {
			return
		}
		violation := w.violation(k, id, v, Operand{Bound: operand, Exclusive: exclusive})
		if n, isInt := v.(int64); isInt && f&outOfRange != 0 {
			violation.Value = float64(n)
		}
		r.violations = append(r.violations, violation)
	}
	operand := func(flag failures, of ViolationKind, operand float64) {
		if f&flag != 0 {
			r.violations = append(r.violations, w.violation(BadOperand, id, v, Operand{Of: of, Bound: operand}))
		}
	}
	if f&fRange != 0 {
		r.violations = append(r.violations, w.violation(NumberRange, id, v, Operand{}))
	}
	operand(fMultipleOfOutOfRange, MultipleOf, c.multipleOf)
	bound(fMultipleOfNotPositive, fMultipleOfOutOfRange, FactorNotPositive, c.multipleOf, false)
	bound(fMultipleOf, fMultipleOfOutOfRange, MultipleOf, c.multipleOf, false)
	operand(fMinimumOutOfRange, Minimum, c.minimum)
	bound(fMinimum, fMinimumOutOfRange, Minimum, c.minimum, c.has&cExclusiveMinimum != 0)
	operand(fMaximumOutOfRange, Maximum, c.maximum)
	bound(fMaximum, fMaximumOutOfRange, Maximum, c.maximum, c.has&cExclusiveMaximum != 0)
}

func (w *walker) array(r *result, id int32, a []any, c correlation) {
	n := &w.p.nodes[id]
	w.dialect.items(r, id, a, c)
	if n.checks == nil {
		return
	}
	f := n.checks.array(a)
	if f&fMinItems != 0 {
		r.violations = append(r.violations, w.violation(MinItems, id, int64(len(a)), Operand{Limit: n.checks.minItems}))
	}
	if f&fMaxItems != 0 {
		r.violations = append(r.violations, w.violation(MaxItems, id, int64(len(a)), Operand{Limit: n.checks.maxItems}))
	}
	if f&fUniqueItems != 0 {
		r.violations = append(r.violations, w.violation(UniqueItems, id, nil, Operand{}))
	}
}

func (w *walker) object(r *result, id int32, obj map[string]any, c correlation) {
	n := &w.p.nodes[id]
	if n.checks != nil {
		f := n.checks.object(obj)
		if f&fMinProperties != 0 {
			r.violations = append(r.violations, w.violation(MinProperties, id, int64(len(obj)), Operand{Limit: n.checks.minProperties}))
		}
		if f&fMaxProperties != 0 {
			r.violations = append(r.violations, w.violation(MaxProperties, id, int64(len(obj)), Operand{Limit: n.checks.maxProperties}))
		}
	}
	w.dialect.fields(r, id, obj, c)
	for _, k := range n.required {
		if _, ok := obj[k]; !ok {
			// The path of the missing field always has a dot, as for a map key.
			w.path = append(w.path, Step{Key: k, Kind: MapKey})
			r.violations = append(r.violations, w.violation(Required, id, nil, Operand{}))
			w.path = w.path[:len(w.path)-1]
		}
	}
}

// specified returns the schema of a field and the step that leads to it: nowhere if the
// schema does not specify the field, none if it forbids the field.
func (n *node) specified(k string) (child int32, step Step) {
	switch child = n.props.find(k); {
	case child != none:
		return child, Step{Key: k}
	case n.forbids(k):
		return none, Step{}
	case n.additional > nowhere:
		return n.additional, Step{Key: k, Kind: MapKey}
	}
	return nowhere, Step{}
}

// structuralWalk is the walk for structural schemas.
type structuralWalk struct{ *walker }

func (w *structuralWalk) beside(id int32, v any) result {
	if w.p.nodes[id].operators == nil {
		return result{}
	}
	return w.operators(id, v)
}

func (w *structuralWalk) branch(id int32, v any) result { return w.check(id, v, correlation{}) }

func (w *structuralWalk) items(r *result, id int32, a []any, c correlation) {
	n := &w.p.nodes[id]
	if n.items <= nowhere {
		return
	}
	old := w.old.items(id, c)
	for i, v := range a {
		if w.full() {
			return
		}
		w.path = append(w.path, Step{Index: i, Kind: Index})
		r.merge(w.value(n.items, v, old.find(v)))
		w.path = w.path[:len(w.path)-1]
	}
}

func (w *structuralWalk) fields(r *result, id int32, obj map[string]any, c correlation) {
	n := &w.p.nodes[id]
	for _, k := range slices.Sorted(maps.Keys(obj)) {
		if w.full() {
			return
		}
		switch child, step := n.specified(k); child {
		case none:
			r.violations = append(r.violations, w.violation(ForbiddenField, id, k, Operand{}))
		case nowhere:
		default:
			w.path = append(w.path, step)
			r.merge(w.value(child, obj[k], w.correlateField(c, k)))
			w.path = w.path[:len(w.path)-1]
		}
	}
}

func (w *walker) operators(id int32, v any) (r result) {
	j := w.p.nodes[id].operators
	if len(j.anyOf) > 0 {
		r.merge(w.anyOf(id, j.anyOf, v))
	}
	if len(j.oneOf) > 0 {
		r.merge(w.oneOf(id, j.oneOf, v))
	}
	if len(j.allOf) > 0 {
		r.merge(w.allOf(id, j.allOf, v))
	}
	if j.not != none {
		kept := w.kept
		holds := len(w.try(j.not, v).violations) == 0
		w.kept = kept
		if holds {
			r.violations = append(r.violations, w.violation(Not, id, v, Operand{}))
		}
	}
	return r
}

func (w *walker) anyOf(id int32, branches []int32, v any) result {
	kept := w.kept
	violation := w.violation(AnyOf, id, v, Operand{})
	best := result{matched: -1}
	for i, branch := range branches {
		r := w.try(branch, v)
		if len(r.violations) == 0 {
			w.kept = kept
			return result{matched: r.matched}
		}
		violation.Branches = append(violation.Branches, r.violations)
		if r.matched > best.matched {
			best, violation.Closest = r, i
		}
	}
	return result{violations: Violations{violation}, matched: best.matched}
}

func (w *walker) oneOf(id int32, branches []int32, v any) result {
	kept := w.kept
	violation := w.violation(OneOf, id, v, Operand{})
	best, holding := result{matched: -1}, result{}
	for i, branch := range branches {
		r := w.try(branch, v)
		violation.Branches = append(violation.Branches, r.violations)
		if len(r.violations) == 0 {
			violation.Holding++
			holding, violation.Closest = r, -1
		} else if violation.Holding == 0 && r.matched > best.matched {
			best, violation.Closest = r, i
		}
	}
	switch violation.Holding {
	case 1:
		w.kept = kept
		return result{matched: holding.matched}
	case 0:
		return result{violations: Violations{violation}, matched: best.matched}
	}
	return result{violations: Violations{violation}}
}

func (w *walker) allOf(id int32, branches []int32, v any) (r result) {
	kept := w.kept
	violation := w.violation(AllOf, id, v, Operand{})
	for _, branch := range branches {
		b := w.try(branch, v)
		r.matched += b.matched
		violation.Branches = append(violation.Branches, b.violations)
		if len(b.violations) == 0 {
			violation.Holding++
		}
	}
	if violation.Holding != len(branches) {
		r.violations = Violations{violation}
	} else {
		w.kept = kept
	}
	return r
}
