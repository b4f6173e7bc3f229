package rules

import (
	"maps"
	"slices"
	"sort"
	"strconv"
	"strings"

	apiservercel "k8s.io/apiserver/pkg/cel"

	"espalier.dev/schema"
)

// Bound is a limit on the size of a value.
type Bound struct {
	// Path leads to the schema, Keyword is maxItems, maxProperties or maxLength.
	Path    schema.SchemaPath
	Keyword string
	// Max is the highest bound that suffices.
	Max int64
	// Present is the bound that the schema has now, or nil.
	Present *int64
}

// String is the bound in words, as .properties[a].maxItems: 10.
func (b Bound) String() string {
	return b.Path.String() + "." + b.Keyword + ": " + strconv.FormatInt(b.Max, 10)
}

// Remedy is a set of bounds that bring an estimate below its limit if they are all set.
type Remedy []Bound

// String is the remedy in words.
func (r Remedy) String() string {
	parts := make([]string, len(r))
	for i, b := range r {
		parts[i] = b.String()
	}
	return strings.Join(parts, " and ")
}

// Remedies returns what could be done about a rule that is too expensive, other
// than writing another rule: each of the remedies is enough. Those that bound what
// is unbounded go before those that make a bound lower, and those that change one
// thing before those that change several. There is none if the rule is cheap
// enough, or if no bound would help.
func (r *Rule) Remedies() []Remedy {
	if r.Err != nil || !r.Cost.Exceeded() {
		return nil
	}
	return r.remedies(r.rule, true)
}

// MessageRemedies is Remedies for the messageExpression.
func (r *Rule) MessageRemedies() []Remedy {
	if r.Err != nil || r.MessageErr != nil || !r.MessageCost.Exceeded() {
		return nil
	}
	return r.remedies(r.message, false)
}

func (r *Rule) remedies(x *expression, counts bool) []Remedy {
	all := r.knobs(x, counts)
	var open []*knob
	for _, k := range all {
		if k.present == nil {
			open = append(open, k)
		}
	}
	e := estimate{rule: r, x: x, counts: counts}
	for _, knobs := range [][]*knob{open, all} {
		var found []Remedy
		for _, group := range groups(knobs) {
			if remedy := e.best(group); remedy != nil {
				found = append(found, remedy)
			}
		}
		if found != nil {
			return found
		}
		if remedy := e.best(knobs); remedy != nil {
			return []Remedy{remedy}
		}
	}
	return nil
}

// knob is a size that an estimate depends on.
type knob struct {
	path    schema.SchemaPath
	keyword string
	present *int64
	// factor is how many bytes the bound counts for.
	factor int64
	// around says that the schema is around the rule; then scope is its scope.
	around bool
	scope  *scope
	// decl is the type whose size is asked for, if it is part of self.
	decl *apiservercel.DeclType
}

// groups returns what is worth trying: every knob alone, but those around the rule
// that have no bound together, because one that is left open spoils the others.
func groups(knobs []*knob) [][]*knob {
	var around []*knob
	var list [][]*knob
	for _, k := range knobs {
		if k.around && k.present == nil {
			around = append(around, k)
			continue
		}
		list = append(list, []*knob{k})
	}
	if around != nil {
		list = append([][]*knob{around}, list...)
	}
	return list
}

// knobs lists the sizes that the estimate for an expression depends on.
func (r *Rule) knobs(x *expression, counts bool) []*knob {
	var list []*knob
	if counts {
		for _, s := range r.scope.around() {
			if k := newKnob(s.view, s.path()); k != nil && k.keyword != "maxLength" {
				k.around, k.scope = true, s
				list = append(list, k)
			}
		}
	}
	asked := map[string]*knob{}
	s := sizes{root: r.scope.decl, asked: func(path []string, decl *apiservercel.DeclType) {
		v, at := r.scope.view, slices.Clone(r.Path)
		if r.scope.isResource {
			v = v.resource
		}
		for _, step := range path {
			if v, at = descend(v, at, step); v == nil {
				return
			}
		}
		if k := newKnob(v, at); k != nil {
			k.decl = decl
			asked[at.String()] = k
		}
	}}
	// It has been estimated before, without an error.
	_, _ = s.cost(x)
	for _, path := range slices.Sorted(maps.Keys(asked)) {
		list = append(list, asked[path])
	}
	return list
}

// descend follows one step of a path in CEL types.
func descend(v *view, at schema.SchemaPath, step string) (*view, schema.SchemaPath) {
	switch step {
	case "@items":
		return v.items, append(at, schema.SchemaStep{Keyword: "items"})
	case "@values":
		return v.values(), append(at, schema.SchemaStep{Keyword: "additionalProperties"})
	case "@keys":
		return nil, nil
	}
	name, ok := apiservercel.Unescape(step)
	if !ok {
		return nil, nil
	}
	if v.s.XEmbeddedResource {
		v = v.resource
	}
	return v.prop(name), append(at, schema.SchemaStep{Keyword: "properties", Form: schema.StepNamed, Name: name})
}

// newKnob returns the size of a schema's values, if a bound would change it.
func newKnob(v *view, path schema.SchemaPath) *knob {
	k := &knob{path: path, factor: 1}
	switch {
	case v.s.XIntOrString:
		k.keyword, k.present, k.factor = "maxLength", v.MaxLength(), 4
	case v.s.Type == "array":
		k.keyword, k.present = "maxItems", v.MaxItems()
	case v.s.Type == "object" && v.additional != nil:
		k.keyword, k.present = "maxProperties", v.MaxProperties()
	case v.s.Type == "string":
		switch v.format {
		case "duration", "date", "date-time":
			return nil
		case "byte":
		default:
			k.factor = 4
		}
		if k.keyword, k.present = "maxLength", v.MaxLength(); k.present == nil && len(v.enum) > 0 {
			// The longest of its values is the bound.
			return nil
		}
	default:
		return nil
	}
	return k
}

// estimate estimates an expression under assumptions.
type estimate struct {
	rule   *Rule
	x      *expression
	counts bool
}

// best returns the highest bound for all knobs together that is enough, or nil.
func (e *estimate) best(knobs []*knob) Remedy {
	if len(knobs) == 0 || !e.suffices(knobs, 1) {
		return nil
	}
	const most = int(apiservercel.DefaultMaxRequestSizeBytes)
	n := int64(sort.Search(most, func(n int) bool { return n > 0 && !e.suffices(knobs, int64(n)) })) - 1
	var r Remedy
	for _, k := range knobs {
		if k.present == nil || *k.present > n {
			r = append(r, Bound{Path: k.path, Keyword: k.keyword, Max: n, Present: k.present})
		}
	}
	return r
}

// suffices says whether the estimate is within its limit if none of the knobs is
// above n.
func (e *estimate) suffices(knobs []*knob, n int64) bool {
	s := sizes{root: e.rule.scope.decl, assume: map[*apiservercel.DeclType]int64{}}
	around := map[*scope]uint64{}
	for _, k := range knobs {
		bound := n
		if k.present != nil {
			bound = min(bound, max(*k.present, 0))
		}
		if k.decl != nil {
			s.assume[k.decl] = bound * k.factor
		}
		if k.around {
			around[k.scope] = uint64(bound)
		}
	}
	cost, err := s.cost(e.x)
	if err != nil {
		return false
	}
	if e.counts {
		cost = multiply(cost, e.cardinality(around))
	}
	return cost <= RuleCostLimit
}

// cardinality is how often the rule is evaluated, at most, if the lists and maps
// around it have the given bounds.
func (e *estimate) cardinality(around map[*scope]uint64) uint64 {
	n := uint64(1)
	for _, s := range e.rule.scope.around() {
		bound, ok := around[s]
		if !ok {
			if bound, ok = elements(s.view.s); !ok {
				return e.rule.Cost.MaxCardinality
			}
		}
		n = multiply(n, bound)
	}
	return n
}
