package rules

import (
	"maps"
	"slices"
	"sort"

	apiservercel "k8s.io/apiserver/pkg/cel"

	"espalier.dev/schema"
)

// findRemedies sets the remedies of a rule and of its messageExpression, if they are
// too expensive.
func findRemedies(r *schema.CheckedRule, c *compiled, s *scope) {
	if r.Err != nil {
		return
	}
	if r.Cost.Exceeded() {
		e := estimate{scope: s, x: &c.rule, counts: true, fits: r.Cost.MaxCardinality}
		r.Cost.Remedies = e.remedies()
	}
	if r.MessageErr == nil && r.MessageCost.Exceeded() {
		e := estimate{scope: s, x: &c.message}
		r.MessageCost.Remedies = e.remedies()
	}
}

// estimate estimates the cost of an expression in a scope under assumptions about
// sizes.
type estimate struct {
	scope *scope
	x     *expression
	// counts multiplies the estimate by the number of values around the rule. fits is
	// that number if a list or map around the rule is unbounded.
	counts bool
	fits   uint64
}

func (e *estimate) remedies() []schema.RuleRemedy {
	all := e.knobs()
	var open []*knob
	for _, k := range all {
		if k.present == nil {
			open = append(open, k)
		}
	}
	for _, knobs := range [][]*knob{open, all} {
		var found []schema.RuleRemedy
		for _, group := range groups(knobs) {
			if remedy := e.best(group); remedy != nil {
				found = append(found, remedy)
			}
		}
		if found != nil {
			return found
		}
		if remedy := e.best(knobs); remedy != nil {
			return []schema.RuleRemedy{remedy}
		}
	}
	return nil
}

// knob is a size that an estimate depends on.
type knob struct {
	path    schema.SchemaPath
	keyword string
	present *int64
	// factor is the number of bytes per unit of the bound.
	factor int64
	// around is true if the schema is around the rule; scope is then its scope.
	around bool
	scope  *scope
	// decl is the type whose size is used, if it is part of self.
	decl *apiservercel.DeclType
}

// groups returns the combinations worth trying: each knob alone, but all unbounded
// knobs around the rule together, because one that stays unbounded makes the others
// useless.
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

// knobs returns the sizes that the estimate depends on.
func (e *estimate) knobs() []*knob {
	var list []*knob
	if e.counts {
		for _, s := range e.scope.around() {
			if k := newKnob(s.view, s.path()); k != nil && k.keyword != "maxLength" {
				k.around, k.scope = true, s
				list = append(list, k)
			}
		}
	}
	asked := map[string]*knob{}
	s := sizes{root: e.scope.decl, asked: func(path []string, decl *apiservercel.DeclType) {
		v, at := e.scope.view, e.scope.path()
		if e.scope.isResource {
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
	// It has already been estimated without an error.
	_, _ = s.cost(e.x)
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

// newKnob returns the knob for the size of a schema's values, or nil if a bound would
// not change it.
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
			// The longest of its values is already a bound.
			return nil
		}
	default:
		return nil
	}
	return k
}

// best returns the highest common bound for the knobs that suffices, or nil.
func (e *estimate) best(knobs []*knob) schema.RuleRemedy {
	if len(knobs) == 0 || !e.suffices(knobs, 1) {
		return nil
	}
	const most = int(apiservercel.DefaultMaxRequestSizeBytes)
	n := int64(sort.Search(most, func(n int) bool { return !e.suffices(knobs, int64(n)) })) - 1
	var r schema.RuleRemedy
	for _, k := range knobs {
		if k.present == nil || *k.present > n {
			r = append(r, schema.RuleBound{Path: k.path, Keyword: k.keyword, Max: n, Present: k.present})
		}
	}
	return r
}

// suffices reports whether the estimate is within its limit if none of the knobs
// exceeds n.
func (e *estimate) suffices(knobs []*knob, n int64) bool {
	s := sizes{root: e.scope.decl, assume: map[*apiservercel.DeclType]int64{}}
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
	return cost <= schema.RuleCostLimit
}

// cardinality returns the maximum number of evaluations of the rule if the lists and
// maps around it have the given bounds.
func (e *estimate) cardinality(around map[*scope]uint64) uint64 {
	n := uint64(1)
	for _, s := range e.scope.around() {
		bound, ok := around[s]
		if !ok {
			if bound, ok = elements(s.view.s); !ok {
				return e.fits
			}
		}
		n = multiply(n, bound)
	}
	return n
}
