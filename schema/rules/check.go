package rules

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/google/cel-go/cel"

	celconfig "k8s.io/apiserver/pkg/apis/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"

	"espalier.dev/schema"
)

// CheckOptions say what Check knows beside the schema, and what it looks for.
type CheckOptions struct {
	// StoredRule and StoredMessage say that an expression is stored already, and may
	// use whatever Kubernetes knows. New expressions may use what the previous
	// version of a server knows, too. Nil stands for none.
	StoredRule, StoredMessage func(expression string) bool
	// Skip reports whether to skip a schema, because something else is wrong with it
	// and compiling its rules would give misleading errors. Nil stands for none.
	Skip func(schema.SchemaPath) bool
	// Remedies asks for the remedies of rules that are too expensive. Finding them
	// takes many estimates.
	Remedies bool
}

// Check compiles the rules of a schema as kube-apiserver does when it is handed a
// definition, and estimates what they can cost. The schema should be structural;
// rules under logical operators, which a structural schema has not, are not looked at.
func Check(s *schema.Structural, o CheckOptions) *schema.RuleReport {
	c := checking{CheckOptions: o, report: &schema.RuleReport{}}
	if !hasRules(s) {
		return c.report
	}
	set := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
	choose := func(stored func(string) bool) func(string) *cel.Env {
		return func(text string) *cel.Env {
			if stored != nil && stored(text) {
				return set.StoredExpressionsEnv()
			}
			return set.NewExpressionsEnv()
		}
	}
	c.in = bases{choose(o.StoredRule), choose(o.StoredMessage)}
	root := newView(s.DeepCopy(), true)
	c.schema(&scope{view: root, isResource: true, bounded: true, cardinality: 1, reachable: true, seen: declOf(root, true)})
	return c.report
}

// checking is one run of Check.
type checking struct {
	CheckOptions
	in     bases
	report *schema.RuleReport
}

// scope is a schema, with what the schemas around it mean for its rules.
type scope struct {
	parent *scope
	step   schema.SchemaStep
	view   *view
	// isResource says that the schema is of a resource.
	isResource bool
	// bounded says that all lists and maps around the schema have bounds, and
	// cardinality is their product.
	bounded     bool
	cardinality uint64
	// uncorrelatable is the outermost scope whose parts cannot be matched with old ones.
	uncorrelatable *scope
	// hasType says that the type of the schema is known, because there are rules here
	// or around it; decl is that type, nil with an error or if CEL has none.
	hasType bool
	decl    *apiservercel.DeclType
	declErr error
	// reachable says that kube-apiserver gets here when it evaluates rules, and seen
	// is the type that it then has.
	reachable bool
	seen      *apiservercel.DeclType
}

func (s *scope) path() schema.SchemaPath {
	var path schema.SchemaPath
	for ; s.parent != nil; s = s.parent {
		path = append(path, s.step)
	}
	slices.Reverse(path)
	return path
}

// child returns the scope of a schema right below.
func (s *scope) child(step schema.SchemaStep, v *view) *scope {
	c := &scope{
		parent: s, step: step, view: v,
		isResource:     v.s.XEmbeddedResource,
		uncorrelatable: s.uncorrelatable,
	}
	c.evaluate()
	if n, ok := elements(s.view.s); ok && s.bounded {
		c.bounded, c.cardinality = true, multiply(s.cardinality, n)
	}
	return c
}

// elements returns how many values each schema right below s can have for one of
// s, if that is bounded.
func elements(s *schema.Structural) (uint64, bool) {
	var limit *int64
	var v schema.ValueValidation
	if s.ValueValidation != nil {
		v = *s.ValueValidation
	}
	switch {
	case s.Type == "object" && s.AdditionalProperties != nil:
		limit = v.MaxProperties
	case s.Type == "array":
		limit = v.MaxItems
	default:
		return 1, true
	}
	if limit == nil {
		return 0, false
	}
	return uint64(max(*limit, 0)), true
}

// multiply multiplies and stops at the highest number there is.
func multiply(a, b uint64) uint64 {
	if a != 0 && math.MaxUint64/a < b {
		return math.MaxUint64
	}
	return a * b
}

// add adds and stops at the highest number there is.
func add(a, b uint64) uint64 {
	if math.MaxUint64-a < b {
		return math.MaxUint64
	}
	return a + b
}

var errNoDecl = fmt.Errorf("unable to convert structural schema to CEL declarations")

// setType finds the type of the scope's schema. It is taken from the type of the
// schema around it where that has one, because the fields of resources come from there.
func (s *scope) setType() {
	if p := s.parent; p != nil && p.hasType {
		s.hasType = true
		if p.declErr != nil {
			s.declErr = p.declErr
			return
		}
		if p.decl != nil {
			switch s.step.Keyword {
			case "items", "additionalProperties":
				s.decl = p.decl.ElemType
				return
			default:
				if escaped, ok := apiservercel.Escape(s.step.Name); ok && p.decl.Fields[escaped] != nil {
					s.decl = p.decl.Fields[escaped].Type
					return
				}
			}
		}
	}
	if !s.hasType && len(s.view.s.XValidations) == 0 {
		return
	}
	s.hasType = true
	if s.decl = declOf(s.view, s.isResource); s.decl == nil {
		s.declErr = errNoDecl
	}
}

// schema checks the rules below a schema, and then its own.
func (c *checking) schema(s *scope) {
	s.setType()
	below := func(step schema.SchemaStep, v *view, correlates bool) {
		if v == nil || !v.hasRules {
			return
		}
		child := s.child(step, v)
		if !correlates && child.uncorrelatable == nil {
			child.uncorrelatable = s
		}
		c.schema(child)
	}
	v := s.view
	below(schema.SchemaStep{Keyword: "additionalProperties"}, v.values(), true)
	for _, name := range slices.Sorted(maps.Keys(v.s.Properties)) {
		below(schema.SchemaStep{Keyword: "properties", Form: schema.StepNamed, Name: name}, v.prop(name), mapCorrelates(v.s))
	}
	below(schema.SchemaStep{Keyword: "items"}, v.items, textOf(v.s.XListType) == "map")
	if len(v.s.XValidations) > 0 && (c.Skip == nil || !c.Skip(s.path())) {
		c.report.Schemas = append(c.report.Schemas, c.own(s))
	}
}

// evaluate follows the types in which evaluation sees values one step down. It does
// not look into properties that CEL has no type of.
func (s *scope) evaluate() {
	p := s.parent
	if !p.reachable {
		return
	}
	if s.step.Keyword != "properties" {
		s.reachable = true
		if p.seen != nil {
			s.seen = p.seen.ElemType
		}
		return
	}
	if escaped, ok := apiservercel.Escape(s.step.Name); !ok {
		s.seen = declOf(s.view, s.isResource)
	} else if p.seen != nil && p.seen.Fields[escaped] != nil {
		s.seen = p.seen.Fields[escaped].Type
	}
	s.reachable = s.seen != nil
}

// own checks the rules of the schema itself.
func (c *checking) own(s *scope) schema.SchemaRules {
	out := schema.SchemaRules{Path: s.path(), Unreachable: !s.reachable}
	if s.uncorrelatable != nil {
		path := s.uncorrelatable.path()
		out.Uncorrelatable = &path
	}
	if s.declErr != nil {
		out.Err, out.NoType = s.declErr, true
		return out
	}
	if s.decl == nil {
		out.Err = errNoType
		return out
	}
	envs := newEnvironments(s.decl, PerCallLimit)
	fits := uint64(celconfig.MaxRequestSizeBytes / (s.decl.MinSerializedSize + 1))
	for i := range s.view.s.XValidations {
		compiled, err := envs.compileRule(s.view.s, &s.view.s.XValidations[i], c.in, func(x *expression) (err error) {
			x.cost, err = (&sizes{root: s.decl}).cost(x)
			return err
		})
		if err != nil {
			out.Err, out.Rules = err, nil
			return out
		}
		r := schema.CheckedRule{Path: out.Path, Index: i, Source: *compiled.source, UsesOldSelf: compiled.rule.usesOldSelf}
		if compiled.err != nil {
			r.Err = compiled.err
		}
		if compiled.messageErr != nil {
			r.MessageErr = compiled.messageErr
		}
		r.Cost.Limit, r.MessageCost.Limit = schema.RuleCostLimit, schema.RuleCostLimit
		r.Cost.Cardinality, r.Cost.MaxCardinality = fits, fits
		if s.bounded {
			r.Cost.Cardinality = s.cardinality
		}
		for _, p := range s.around() {
			if _, ok := elements(p.view.s); !ok {
				r.Cost.Unbounded = append(r.Cost.Unbounded, p.path())
			}
		}
		if r.Err == nil {
			r.Cost.Call = compiled.rule.cost
			r.Cost.Total = multiply(r.Cost.Call, r.Cost.Cardinality)
		}
		r.MessageCost.Cardinality, r.MessageCost.MaxCardinality = 1, 1
		if r.MessageErr == nil {
			r.MessageCost.Call, r.MessageCost.Total = compiled.message.cost, compiled.message.cost
		}
		c.report.TotalCost = add(add(c.report.TotalCost, r.Cost.Total), r.MessageCost.Total)
		if c.Remedies {
			findRemedies(&r, compiled, s)
		}
		out.Rules = append(out.Rules, r)
	}
	return out
}

// around returns the scopes around s, the outermost first.
func (s *scope) around() []*scope {
	var list []*scope
	for p := s.parent; p != nil; p = p.parent {
		list = append(list, p)
	}
	slices.Reverse(list)
	return list
}
