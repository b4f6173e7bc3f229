package rules

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"

	celconfig "k8s.io/apiserver/pkg/apis/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/cel/environment"

	"espalier.dev/schema"
)

const (
	// PerCallLimit is the cost limit of a single evaluation.
	PerCallLimit = uint64(celconfig.PerCallLimit)
	// Budget is the cost limit of all evaluations for one object.
	Budget = int64(celconfig.RuntimeCELCostBudget)
)

// Option configures Compiler.
type Option func(*options)

type options struct {
	perCallLimit uint64
	budget       int64
	broken       bool
	constant     bool
}

// WithBudget sets the cost limit of all evaluations for one object. The default is
// Budget.
func WithBudget(n int64) Option { return func(o *options) { o.budget = n } }

// WithPerCallLimit sets the cost limit of a single evaluation. The default is
// PerCallLimit.
func WithPerCallLimit(n uint64) Option { return func(o *options) { o.perCallLimit = n } }

// WithBrokenRules turns a rule that does not compile into a violation of each object on
// which it would have been evaluated, instead of an error of Compile. kube-apiserver
// does that for stored CRDs, so that objects stay readable if a rule was written for
// another version of it.
func WithBrokenRules() Option { return func(o *options) { o.broken = true } }

// WithConstantSchema promises that the schema is not changed afterwards: no copy is needed then.
func WithConstantSchema() Option { return func(o *options) { o.constant = true } }

// Compiler returns a compiler of rules for schema.WithRules.
//
// It compiles with all CEL libraries of Kubernetes, regardless of the version that added
// them, because stored rules must continue to work. Check verifies that new rules use only
// what the previous version of the server supports too, and do not cost too much.
func Compiler(opts ...Option) schema.RuleCompiler {
	o := options{perCallLimit: PerCallLimit, budget: Budget}
	for _, opt := range opts {
		opt(&o)
	}
	return func(s *schema.Structural) (schema.Rules, error) {
		p, err := compile(s, o)
		if err != nil || p == nil {
			// A nil *program in the interface would not be nil.
			return nil, err
		}
		return p, nil
	}
}

// program are the compiled rules of a schema.
type program struct {
	schema *view
	root   *validator
	budget int64
	// perCallLimit is the budget of one evaluation.
	perCallLimit uint64
}

// validator is a schema that has rules, or has them below it.
type validator struct {
	// view is the schema as rules see it; typ is its type.
	view *view
	typ  string
	// load compiles the rules of the schema itself, once. It is nil if there are none.
	load func()
	// err is the reason why none of the rules could be compiled.
	err   error
	rules []*compiled
	// usesOldSelf is true if one of the rules uses oldSelf.
	usesOldSelf bool
	// mapsCorrelate is true if the fields of an object can be matched with old ones;
	// listView is set if the items of a list can.
	mapsCorrelate bool
	listView      *view

	items      *validator
	additional *validator
	props      []propertyValidator
}

type propertyValidator struct {
	name string
	*validator
}

func compile(s *schema.Structural, o options) (*program, error) {
	if path := nestedRules(s); path != nil {
		return nil, errNested(path)
	}
	if !hasRules(s) {
		return nil, nil
	}
	if !o.constant {
		s = s.DeepCopy()
	}
	base := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()).StoredExpressionsEnv()
	stored := func(string) *cel.Env { return base }
	c := &compilation{options: o, in: bases{stored, stored}, shared: newShared(o.perCallLimit)}
	c.shared.onlyPrograms = true
	root := newView(s, true)
	v := c.validator(root, true, declOf(root, true))
	if len(c.errs) > 0 {
		return nil, c.error()
	}
	if v == nil {
		return nil, nil
	}
	return &program{schema: root, root: v, budget: o.budget, perCallLimit: o.perCallLimit}, nil
}

// declOf returns the CEL type of a schema, or nil if there is none.
func declOf(v *view, isResource bool) *apiservercel.DeclType {
	return common.SchemaDeclType(v, isResource)
}

// compilation is one run of compile. With broken rules, it compiles the rules of a schema when the first value
// has the schema: most values lack most fields, and compiled rules take much time and memory.
type compilation struct {
	options
	in bases
	// loading guards shared.
	loading sync.Mutex
	shared  *shared
	path    schema.SchemaPath
	errs    []error
	more    int
}

// maxErrors is the number of rules that do not compile that are reported.
const maxErrors = 10

func (c *compilation) fail(format string, args ...any) {
	if c.broken {
		return
	}
	if len(c.errs) == maxErrors {
		c.more++
		return
	}
	c.errs = append(c.errs, fmt.Errorf("%s.x-kubernetes-validations%s", c.path, shortened(fmt.Sprintf(format, args...), 1<<10)))
}

func (c *compilation) error() error {
	if c.more > 0 {
		c.errs = append(c.errs, fmt.Errorf("and %d more", c.more))
	}
	return errors.Join(c.errs...)
}

// validator compiles the rules of a schema and below it. It returns nil if there are
// none. decl is the CEL type of the schema, or nil.
func (c *compilation) validator(v *view, isResource bool, decl *apiservercel.DeclType) *validator {
	if !v.hasRules {
		return nil
	}
	out := &validator{
		view:          v,
		typ:           v.s.Type,
		mapsCorrelate: mapCorrelates(v.s),
	}
	if isResource {
		out.view = v.resource
	}
	if v.s.Type == "array" && textOf(v.s.XListType) == "map" && len(v.s.XListMapKeys) > 0 {
		out.listView = v
	}
	if len(v.s.XValidations) > 0 {
		// A panic is repeated for each value: without its rules, values would be valid.
		out.load = sync.OnceFunc(func() {
			c.loading.Lock()
			defer c.loading.Unlock()
			c.own(out, v, decl)
		})
		if !c.broken {
			out.load()
		}
	}

	var elem *apiservercel.DeclType
	if decl != nil {
		elem = decl.ElemType
	}
	if v.items != nil {
		out.items = c.below(schema.SchemaStep{Keyword: "items"}, v.items, elem)
	}
	for name := range v.s.Properties {
		p := v.prop(name)
		var field *apiservercel.DeclType
		if escaped, ok := apiservercel.Escape(name); ok {
			// Values without a CEL type have no rules either: kube-apiserver does not
			// descend into them.
			if decl == nil || decl.Fields[escaped] == nil {
				continue
			}
			field = decl.Fields[escaped].Type
		} else if field = declOf(p, p.s.XEmbeddedResource); field == nil {
			continue
		}
		if pv := c.below(schema.SchemaStep{Keyword: "properties", Form: schema.StepNamed, Name: name}, p, field); pv != nil {
			out.props = append(out.props, propertyValidator{name, pv})
		}
	}
	slices.SortFunc(out.props, func(a, b propertyValidator) int { return strings.Compare(a.name, b.name) })
	if values := v.values(); values != nil {
		out.additional = c.below(schema.SchemaStep{Keyword: "additionalProperties"}, values, elem)
	}
	if out.load == nil && out.items == nil && out.additional == nil && len(out.props) == 0 {
		return nil
	}
	return out
}

func (c *compilation) below(step schema.SchemaStep, v *view, decl *apiservercel.DeclType) *validator {
	c.path = append(c.path, step)
	defer func() { c.path = c.path[:len(c.path)-1] }()
	return c.validator(v, v.s.XEmbeddedResource, decl)
}

// own compiles the rules of the schema itself.
func (c *compilation) own(out *validator, v *view, decl *apiservercel.DeclType) {
	if decl == nil {
		out.err = errNoType
		c.fail(": %v", out.err)
		return
	}
	envs := c.shared.of(decl)
	for i := range v.s.XValidations {
		r, err := envs.compileRule(v.s, &v.s.XValidations[i], c.in, nil)
		switch {
		case err != nil:
			out.err, out.rules = err, nil
			c.fail(": %v", err)
			return
		case r.err != nil:
			c.fail("[%d].rule: %s", i, r.err.Detail)
		case r.messageErr != nil:
			c.fail("[%d].messageExpression: %s", i, r.messageErr.Detail)
		case r.empty():
			c.fail("[%d].rule: rule is not specified", i)
		}
		out.rules = append(out.rules, r)
		out.usesOldSelf = out.usesOldSelf || r.rule.usesOldSelf
	}
}

var errNoType = errors.New("failed to convert to declType for CEL validation rules")

// mapCorrelates reports whether the fields of an object can be matched with old ones.
func mapCorrelates(s *schema.Structural) bool {
	t := s.XMapType
	return t == nil || *t == "granular" || *t == "atomic"
}

// shortened truncates s to max bytes.
func shortened(s string, max int) string {
	if len(s) <= max {
		return s
	}
	return strings.ToValidUTF8(s[:max], "") + "... (shortened)"
}

// hasRules reports whether s or a schema below it, outside of logical operators, has
// rules.
func hasRules(s *schema.Structural) bool {
	return s.Any(func(s *schema.Structural) bool { return len(s.XValidations) > 0 })
}
