package rules

import (
	"fmt"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common/types"

	celconfig "k8s.io/apiserver/pkg/apis/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/library"

	"espalier.dev/api"
	"espalier.dev/schema"
	"espalier.dev/schema/rules/bounds"
)

const (
	selfName    = "self"
	oldSelfName = "oldSelf"
	// selfTypeName is the name of the type of self in messages, if self is an object.
	// In kube-apiserver the number varies.
	selfTypeName = "selfType0"
	// maxDetail bounds the length of the compiler's errors about an expression. The
	// compiler quotes the line for each of up to a hundred errors, and a line can be
	// long.
	maxDetail = 32 << 10
)

// expression is one compiled CEL expression.
type expression struct {
	// untracked evaluates the expression if its cost is bounded, and is nil otherwise. tracked
	// returns the program that counts the cost. It is nil if there is no expression.
	untracked   *untracked
	tracked     func() (cel.Program, error)
	usesOldSelf bool
	// cost is the estimate, if there is one. env and ast are kept for further
	// estimates.
	cost uint64
	env  *cel.Env
	ast  *cel.Ast
}

// environments creates the environments for the rules of one schema. Each is created on
// first use, because that is the expensive part of compiling.
type environments struct {
	decl         *apiservercel.DeclType
	perCallLimit uint64
	scoped       *apiservercel.DeclType
	provider     *apiservercel.DeclTypeProvider
	made         map[envKey]*cel.Env
	// remade makes the environments again, each at most once.
	remade map[envKey]func() (*cel.Env, error)
	// shared has the environments of other schemas, or is nil. expressions are those that are
	// compiled.
	shared      *shared
	expressions map[expressionKey]compiledExpression
}

type envKey struct {
	base     *cel.Env
	optional bool
}

func newEnvironments(decl *apiservercel.DeclType, perCallLimit uint64) *environments {
	e := &environments{decl: decl, perCallLimit: perCallLimit, made: map[envKey]*cel.Env{}, remade: map[envKey]func() (*cel.Env, error){}}
	e.scoped = decl.MaybeAssignTypeName(selfTypeName)
	e.provider = apiservercel.NewDeclTypeProvider(e.scoped)
	e.provider.SetRecognizeKeywordAsFieldName(true)
	return e
}

// of returns base with self and oldSelf. optional makes oldSelf an optional value.
func (e *environments) of(base *cel.Env, optional bool) (*cel.Env, error) {
	key := envKey{base, optional}
	if env := e.made[key]; env != nil {
		return env, nil
	}
	opts, err := e.provider.EnvOptions(base.CELTypeProvider())
	if err != nil {
		return nil, err
	}
	oldSelf := e.scoped.CelType()
	if optional {
		oldSelf = types.NewOptionalType(oldSelf)
	}
	opts = append(opts, cel.Variable(selfName, e.scoped.CelType()), cel.Variable(oldSelfName, oldSelf))
	env, err := base.Extend(opts...)
	if err != nil {
		return nil, err
	}
	e.made[key] = env
	return env, nil
}

// again returns a function that makes an environment like that of the key, for all expressions that need
// it again. It does not keep the first one.
func (e *environments) again(key envKey) func() (*cel.Env, error) {
	remake := e.remade[key]
	if remake == nil {
		decl, limit := e.decl, e.perCallLimit
		remake = sync.OnceValues(func() (*cel.Env, error) { return newEnvironments(decl, limit).of(key.base, key.optional) })
		e.remade[key] = remake
	}
	return remake
}

// problem is the reason why an expression cannot be used.
type problem = apiservercel.Error

func problemf(typ apiservercel.ErrorType, format string, args ...any) *problem {
	return &problem{Type: typ, Detail: shortened(fmt.Sprintf(format, args...), maxDetail)}
}

// compile compiles an expression of type want. words are the messages for its errors, and again
// makes another environment like env.
func (e *environments) compile(env *cel.Env, again func() (*cel.Env, error), text string, want *cel.Type,
	words wording) (x expression, p *problem) {
	defer bounds.Recover(func(err error) { p = problemf(apiservercel.ErrorTypeInvalid, "%s %v", words.compilation, err) })
	x.env = env
	ast, issues := env.Compile(text)
	if issues != nil {
		return x, problemf(apiservercel.ErrorTypeInvalid, "%s %s", words.compilation, issues)
	}
	if ast.OutputType() != want {
		return x, problemf(apiservercel.ErrorTypeInvalid, "%s", words.wrongType)
	}
	x.ast = ast
	for _, ref := range ast.NativeRep().ReferenceMap() {
		if ref.Name == oldSelfName {
			x.usesOldSelf = true
			break
		}
	}
	// Messages are rarely evaluated.
	if want == cel.BoolType {
		x.untracked = newUntracked(env, ast)
	}
	if x.untracked != nil {
		// Few objects ever need the program, so it does not keep the environment.
		limit := e.perCallLimit
		x.tracked = sync.OnceValues(func() (cel.Program, error) {
			env, err := again()
			if err != nil {
				return nil, err
			}
			ast, issues := env.Compile(text)
			if issues != nil {
				return nil, issues.Err()
			}
			return tracked(env, ast, limit)
		})
		return x, nil
	}
	program, err := tracked(env, ast, e.perCallLimit)
	if err != nil {
		return x, problemf(apiservercel.ErrorTypeInvalid, "%s %v", words.instantiation, err)
	}
	x.tracked = func() (cel.Program, error) { return program, nil }
	return x, nil
}

// tracked returns a program that counts the cost of evaluations.
func tracked(env *cel.Env, ast *cel.Ast, limit uint64) (cel.Program, error) {
	return env.Program(ast,
		cel.CostLimit(limit),
		cel.InterruptCheckFrequency(celconfig.CheckFrequency),
		bounds.Option(),
		bounds.Ranges(ast.NativeRep()),
	)
}

// wording has kube-apiserver's messages about invalid expressions.
type wording struct{ compilation, wrongType, instantiation, estimation string }

var (
	ruleWording = wording{
		compilation:   "compilation failed:",
		wrongType:     "cel expression must evaluate to a bool",
		instantiation: "program instantiation failed:",
		estimation:    "cost estimation failed:",
	}
	messageWording = wording{
		compilation:   "messageExpression compilation failed:",
		wrongType:     "messageExpression must evaluate to a string",
		instantiation: "messageExpression instantiation failed:",
		estimation:    "cost estimation failed for messageExpression:",
	}
)

// compiled is a compiled rule.
type compiled struct {
	source  *api.ValidationRule
	rule    expression
	message expression
	// err and messageErr are the reasons why the rule or its message has no program.
	err, messageErr *problem
	optional        bool
	// field is the path at which the rule reports errors, relative to its schema.
	field schema.Path
}

// empty reports whether there is no rule, if it has no error.
func (c *compiled) empty() bool { return c.rule.tracked == nil }

// bases are the environments for rules and messages, before variables are added.
type bases struct{ rule, message func(text string) *cel.Env }

// compileRule compiles one rule of s. If estimate is set, it also estimates the cost;
// if that fails, the rule has an error.
func (e *environments) compileRule(s *schema.Structural, r *api.ValidationRule, in bases,
	estimate func(*expression) error) (*compiled, error) {
	c := &compiled{source: r, optional: r.OptionalOldSelf != nil && *r.OptionalOldSelf}
	if strings.TrimSpace(r.Rule) == "" {
		return c, nil
	}
	run := func(base func(string) *cel.Env, text string, want *cel.Type, words wording) (x expression, p *problem, err error) {
		key := envKey{base(text), c.optional}
		env, err := e.of(key.base, key.optional)
		if err != nil {
			return x, nil, err
		}
		x, p = e.compileOnce(env, e.again(key), text, want, words)
		if p == nil && estimate != nil {
			if err := estimate(&x); err != nil {
				x.tracked = nil
				p = problemf(apiservercel.ErrorTypeInternal, "%s %v", words.estimation, err)
			}
		}
		return x, p, nil
	}
	var err error
	if c.rule, c.err, err = run(in.rule, r.Rule, cel.BoolType, ruleWording); err != nil || c.err != nil {
		return c, err
	}
	if r.MessageExpression != "" {
		if c.message, c.messageErr, err = run(in.message, r.MessageExpression, cel.StringType,
			messageWording); err != nil || c.messageErr != nil {
			return c, err
		}
	}
	if r.FieldPath != "" {
		// A path that does not exist is rejected when the CRD is written. If it is
		// already stored, errors are reported at the value of the rule's schema.
		if path, _, err := ParseFieldPath(r.FieldPath, s); err == nil {
			c.field = path
		}
	}
	return c, nil
}

// sizes has the maximum sizes of values for the estimator.
type sizes struct {
	root *apiservercel.DeclType
	// asked, if set, is called for every value whose size matters, with its path in
	// root.
	asked func(path []string, decl *apiservercel.DeclType)
	// assume overrides the sizes of some types.
	assume map[*apiservercel.DeclType]int64
}

var _ checker.CostEstimator = (*sizes)(nil)

// EstimateSize returns the size of the value that an expression refers to.
func (s *sizes) EstimateSize(element checker.AstNode) *checker.SizeEstimate {
	path := element.Path()
	if len(path) == 0 {
		return nil
	}
	// The first step is self or oldSelf.
	decl := s.root
	for _, name := range path[1:] {
		switch name {
		case "@items", "@values":
			decl = decl.ElemType
		case "@keys":
			decl = decl.KeyType
		default:
			f := decl.Fields[name]
			if f == nil {
				return nil
			}
			decl = f.Type
		}
		if decl == nil {
			return nil
		}
	}
	if s.asked != nil {
		s.asked(path[1:], decl)
	}
	size := decl.MaxElements
	if n, ok := s.assume[decl]; ok {
		size = n
	}
	return &checker.SizeEstimate{Min: 0, Max: uint64(size)}
}

// EstimateCallCost leaves the cost of calls to the libraries.
func (s *sizes) EstimateCallCost(string, string, *checker.AstNode, []checker.AstNode) *checker.CallEstimate {
	return nil
}

// cost returns the highest cost of an evaluation.
func (s *sizes) cost(x *expression) (uint64, error) {
	if x.ast == nil {
		return 0, nil
	}
	estimate, err := x.env.EstimateCost(x.ast, &library.CostEstimator{SizeEstimator: s})
	return estimate.Max, err
}
