package sample

import (
	"maps"
	"math"
	"slices"

	"espalier.dev/schema"
)

// need collects the conditions on a value, from the schema and from the chosen branches of
// logical operators.
type need struct {
	enum                 []any
	hasEnum              bool
	min, max             float64
	minExclusive         bool
	maxExclusive         bool
	multipleOf           float64
	minLength, maxLength int64
	patterns             []string
	formats              []string
	minItems, maxItems   int64
	minProps, maxProps   int64
	types                []string
	// required are the fields that must be present, excluded those that branches that were
	// not chosen require. A field that is in both must be present.
	required, excluded map[string]bool
	// fields and items are additional conditions on the fields and the items.
	fields map[string][]*schema.NestedValueValidation
	items  []*schema.NestedValueValidation
}

// needs collects the conditions on a value of s.
func needs(v *schema.ValueValidation, nested []*schema.NestedValueValidation) *need {
	n := &need{
		min: math.Inf(-1), max: math.Inf(1), maxLength: math.MaxInt64, maxItems: math.MaxInt64, maxProps: math.MaxInt64,
		required: map[string]bool{}, excluded: map[string]bool{}, fields: map[string][]*schema.NestedValueValidation{},
	}
	if v != nil {
		n.add(v)
	}
	for _, x := range nested {
		n.addNested(x)
	}
	return n
}

func (n *need) addNested(v *schema.NestedValueValidation) {
	if t := v.ForbiddenGenerics.Type; t != "" {
		n.types = append(n.types, t)
	}
	for _, name := range slices.Sorted(maps.Keys(v.Properties)) {
		n.fields[name] = append(n.fields[name], v.Properties[name])
	}
	if v.Items != nil {
		n.items = append(n.items, v.Items)
	}
	n.add(&v.ValueValidation)
}

func (n *need) add(v *schema.ValueValidation) {
	if v.Minimum != nil && *v.Minimum >= n.min {
		n.min, n.minExclusive = *v.Minimum, v.ExclusiveMinimum
	}
	if v.Maximum != nil && *v.Maximum <= n.max {
		n.max, n.maxExclusive = *v.Maximum, v.ExclusiveMaximum
	}
	if v.MultipleOf != nil {
		n.multipleOf = *v.MultipleOf
	}
	if v.Pattern != "" {
		n.patterns = append(n.patterns, v.Pattern)
	}
	if v.Format != "" {
		n.formats = append(n.formats, v.Format)
	}
	raise := func(to *int64, by *int64) {
		if by != nil {
			*to = max(*to, *by)
		}
	}
	lower := func(to *int64, by *int64) {
		if by != nil {
			*to = min(*to, *by)
		}
	}
	raise(&n.minLength, v.MinLength)
	lower(&n.maxLength, v.MaxLength)
	raise(&n.minItems, v.MinItems)
	lower(&n.maxItems, v.MaxItems)
	raise(&n.minProps, v.MinProperties)
	lower(&n.maxProps, v.MaxProperties)
	if len(v.Enum) > 0 {
		n.restrict(v.Enum)
	}
	for _, name := range v.Required {
		n.required[name] = true
	}
	for i := range v.AllOf {
		n.addNested(&v.AllOf[i])
	}
	n.choose(v.AnyOf, false)
	n.choose(v.OneOf, true)
	if v.Not != nil && len(v.Not.Required) == 1 && len(v.Not.Properties) == 0 {
		n.excluded[v.Not.Required[0]] = true
	}
	if v.Not != nil {
		for i := range v.Not.AnyOf {
			if names := v.Not.AnyOf[i].Required; len(names) == 1 {
				n.excluded[names[0]] = true
			}
		}
	}
}

// restrict keeps only the values that are also in enum.
func (n *need) restrict(enum []schema.JSON) {
	var both []any
	for _, e := range enum {
		if !n.hasEnum || slices.ContainsFunc(n.enum, func(x any) bool { return equal(x, e.Value) }) {
			both = append(both, e.Value)
		}
	}
	n.enum, n.hasEnum = both, true
}

// choose chooses the first branch. If only one branch may hold, it excludes the fields
// that the others require.
func (n *need) choose(branches []schema.NestedValueValidation, one bool) {
	if len(branches) == 0 {
		return
	}
	n.addNested(&branches[0])
	if !one {
		return
	}
	for _, other := range branches[1:] {
		for _, name := range other.Required {
			if !slices.Contains(branches[0].Required, name) {
				n.excluded[name] = true
			}
		}
	}
}
