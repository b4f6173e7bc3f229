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
	"espalier.dev/schema/rules/bounds"
)

// CheckOptions configures Check.
type CheckOptions struct {
	// StoredRule and StoredMessage report whether an expression is already stored.
	// Stored expressions may use everything that Kubernetes supports, new ones only
	// what the previous version of the server supports too. Nil means that none is
	// stored.
	StoredRule, StoredMessage func(expression string) bool
	// Skip reports whether to skip a schema, because it has other errors and compiling
	// its rules would give misleading ones. Nil skips none.
	Skip func(schema.SchemaPath) bool
	// Remedies requests remedies for rules that are too expensive. Finding them takes
	// many estimates.
	Remedies bool
	// Unguarded requests the optional fields that rules read without a guard.
	Unguarded bool
	// Minor is the minor version of Kubernetes 1 that checks the rules. Zero is the latest.
	Minor uint
	// Stop reports whether to stop, because nobody waits for the report, which is not complete
	// then. Nil means never.
	Stop func() bool
}

// Check compiles the rules of a schema as kube-apiserver does when a CRD is written,
// and estimates their cost. The schema should be structural; rules under logical
// operators, which a structural schema cannot have, are ignored.
func Check(s *schema.Structural, o CheckOptions) *schema.RuleReport {
	c := checking{CheckOptions: o, shared: newShared(PerCallLimit), report: &schema.RuleReport{}}
	if !hasRules(s) {
		return c.report
	}
	set := environment.MustBaseEnvSet(bounds.Compatibility(o.Minor))
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
	shared *shared
	report *schema.RuleReport
}

// scope is a schema, with what the schemas around it imply for its rules.
type scope struct {
	parent *scope
	step   schema.SchemaStep
	view   *view
	// isResource is true for the schema of a resource.
	isResource bool
	// bounded is true if all lists and maps around the schema are bounded; cardinality
	// is the product of their bounds.
	bounded     bool
	cardinality uint64
	// uncorrelatable is the outermost scope whose fields or items cannot be matched
	// with old ones.
	uncorrelatable *scope
	// hasType is true if the type of the schema has been computed, because there are
	// rules here or around it. decl is the type; it is nil after an error, or if CEL
	// has no type for it.
	hasType bool
	decl    *apiservercel.DeclType
	declErr error
	// reachable is true if kube-apiserver evaluates rules here, and seen is the type
	// that it uses.
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

// child returns the scope of a direct subschema.
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

// elements returns how many values each direct subschema can have per value of s, and
// whether that is bounded.
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

// multiply multiplies and saturates at the maximum.
func multiply(a, b uint64) uint64 {
	if a != 0 && math.MaxUint64/a < b {
		return math.MaxUint64
	}
	return a * b
}

// add adds and saturates at the maximum.
func add(a, b uint64) uint64 {
	if math.MaxUint64-a < b {
		return math.MaxUint64
	}
	return a + b
}

var errNoDecl = fmt.Errorf("unable to convert structural schema to CEL declarations")

// setType sets the type of the scope's schema. It is part of the type of the schema
// around it, if that has one, because that has the fields of resources.
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

// schema checks the rules below a schema, and then those of the schema itself.
func (c *checking) schema(s *scope) {
	if c.stopped() {
		return
	}
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

func (c *checking) stopped() bool { return c.Stop != nil && c.Stop() }

// evaluate descends one step in the types that evaluation uses. It skips properties for
// which CEL has no type.
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
	envs := c.shared.of(s.decl)
	fits := uint64(celconfig.MaxRequestSizeBytes / (s.decl.MinSerializedSize + 1))
	var all []*compiled
	for i := range s.view.s.XValidations {
		if c.stopped() {
			break
		}
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
			r.Err, r.TooComplex = compiled.err, bounds.IsTooComplex(compiled.err)
		}
		if compiled.messageErr != nil {
			r.MessageErr, r.MessageTooComplex = compiled.messageErr, bounds.IsTooComplex(compiled.messageErr)
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
		out.Rules, all = append(out.Rules, r), append(all, compiled)
	}
	if c.Unguarded {
		findUnguarded(s, out.Rules, all)
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
