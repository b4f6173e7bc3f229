package impact

import (
	"reflect"
	"slices"

	"espalier.dev/schema"
)

// prover decides whether some conditions imply others. Comparing two trees of logical
// operators can take very long, so it gives up after a number of steps. What is not
// proven by then counts as not implied.
type prover struct {
	steps int
	rules *ruleParser
}

// proverSteps is enough for any schema written by hand.
const proverSteps = 200_000

// vv returns the conditions of a schema, never nil.
func vv(s *schema.Structural) *schema.ValueValidation {
	if s.ValueValidation == nil {
		return &schema.ValueValidation{}
	}
	return s.ValueValidation
}

// nested returns the conditions of a schema in the form of a logical operator's branch,
// with those that an allOf next to them adds.
func nested(s *schema.Structural) []*schema.NestedValueValidation {
	n := &schema.NestedValueValidation{ValueValidation: *vv(s), ValidationExtensions: s.ValidationExtensions}
	n.ForbiddenGenerics.Type, n.ForbiddenGenerics.Nullable = s.Type, s.Nullable
	n.ForbiddenExtensions.XIntOrString = s.XIntOrString
	if s.Items != nil {
		n.Items = nested(s.Items)[0]
	}
	for name, prop := range s.Properties {
		if n.Properties == nil {
			n.Properties = map[string]*schema.NestedValueValidation{}
		}
		n.Properties[name] = nested(prop)[0]
	}
	return facts(n)
}

// facts returns a schema and the branches of its allOf, at any depth. All of them hold.
func facts(n *schema.NestedValueValidation) []*schema.NestedValueValidation {
	all := []*schema.NestedValueValidation{n}
	for i := range n.AllOf {
		all = append(all, facts(&n.AllOf[i])...)
	}
	return all
}

// holds reports whether a value that satisfies all known facts satisfies b. It may return
// false although the answer is yes.
func (p *prover) holds(known []*schema.NestedValueValidation, b *schema.NestedValueValidation) bool {
	if p.steps--; p.steps < 0 {
		return false
	}
	any := func(f func(a *schema.NestedValueValidation) bool) bool { return slices.ContainsFunc(known, f) }
	if any(func(a *schema.NestedValueValidation) bool { return reflect.DeepEqual(a, b) }) {
		return true
	}
	if !reflect.DeepEqual(b.ForbiddenGenerics, schema.Generic{}) ||
		!reflect.DeepEqual(b.ForbiddenExtensions, schema.Extensions{}) || b.AdditionalProperties != nil {
		return false
	}
	for _, k := range keywords() {
		if k.of(&b.ValueValidation) != nil && !any(func(a *schema.NestedValueValidation) bool {
			return k.implied(&a.ValueValidation, &b.ValueValidation, "")
		}) {
			return false
		}
	}
	for _, name := range b.Required {
		if !any(func(a *schema.NestedValueValidation) bool { return slices.Contains(a.Required, name) }) {
			return false
		}
	}
	for _, rule := range b.XValidations {
		if !any(func(a *schema.NestedValueValidation) bool {
			return slices.ContainsFunc(a.XValidations, p.rules.isSame(rule))
		}) {
			return false
		}
	}
	if b.Items != nil && !p.holds(parts(known, func(a *schema.NestedValueValidation) *schema.NestedValueValidation { return a.Items }),
		b.Items) {
		return false
	}
	for name, prop := range b.Properties {
		if !p.holds(parts(known, func(a *schema.NestedValueValidation) *schema.NestedValueValidation { return a.Properties[name] }), prop) {
			return false
		}
	}
	for i := range b.AllOf {
		if !p.holds(known, &b.AllOf[i]) {
			return false
		}
	}
	return len(b.AnyOf) == 0 && len(b.OneOf) == 0 && b.Not == nil || any(func(a *schema.NestedValueValidation) bool {
		return p.anyOf(a, b.AnyOf) && oneOf(a, b.OneOf) && p.not(a, b.Not)
	})
}

// parts returns the schemas of a part of the value, with the branches of their allOf.
func parts(known []*schema.NestedValueValidation,
	of func(*schema.NestedValueValidation) *schema.NestedValueValidation) (all []*schema.NestedValueValidation) {
	for _, a := range known {
		if part := of(a); part != nil {
			all = append(all, facts(part)...)
		}
	}
	return all
}

// anyOf reports whether one of the branches must hold, because a itself implies one or
// because each branch of an anyOf or oneOf in a does.
func (p *prover) anyOf(a *schema.NestedValueValidation, branches []schema.NestedValueValidation) bool {
	if len(branches) == 0 {
		return true
	}
	implied := func(known []*schema.NestedValueValidation) bool {
		for i := range branches {
			if p.holds(known, &branches[i]) {
				return true
			}
		}
		return false
	}
	each := func(list []schema.NestedValueValidation) bool {
		for i := range list {
			if !implied(facts(&list[i])) {
				return false
			}
		}
		return len(list) > 0
	}
	plain := *a
	plain.AnyOf, plain.OneOf, plain.Not = nil, nil, nil
	return each(a.AnyOf) || each(a.OneOf) || implied(facts(&plain))
}

// oneOf reports whether exactly one of the branches must hold. That is only proven if they
// are the same branches as before, in any order.
func oneOf(a *schema.NestedValueValidation, branches []schema.NestedValueValidation) bool {
	if len(branches) == 0 {
		return true
	}
	if len(a.OneOf) != len(branches) {
		return false
	}
	rest := slices.Clone(a.OneOf)
	for i := range branches {
		j := slices.IndexFunc(rest, func(x schema.NestedValueValidation) bool { return reflect.DeepEqual(x, branches[i]) })
		if j < 0 {
			return false
		}
		rest = slices.Delete(rest, j, j+1)
	}
	return true
}

// not reports whether a schema must be violated, because it implies one that must be.
func (p *prover) not(a *schema.NestedValueValidation, not *schema.NestedValueValidation) bool {
	return not == nil || a.Not != nil && p.holds(facts(not), a.Not)
}
