// Package typecheck checks the types of expressions in admission policies, with the schemas of the
// kinds that the policies match.
//
// Kubernetes checks them too, and writes what it finds into status.typeChecking of validating
// policies; package server/policystatus does so with its type checker, whose texts have no structure that lint could
// use. It takes the types of the published schemas, and judges whole expressions. So it rejects
//
//	object.kind == 'Pod' ? object.spec : object.spec.template.spec
//
// for pods, although they have no problem with it. With [schema.ExpressionTypes.Published], the
// package does the same. Without, it looks for errors that evaluations would end with: it leaves out
// what depends on another kind, or on fields that the kind does not have, and takes the types that
// values have at that time.
package typecheck

import (
	"slices"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/traits"
	"k8s.io/apimachinery/pkg/util/version"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"
	"k8s.io/apiserver/pkg/cel/mutation"

	"espalier.dev/internal/nearest"
	"espalier.dev/schema"
	"espalier.dev/schema/rules/bounds"
)

// Checker implements [schema.TypeChecker]. It keeps the types of schemas.
type Checker struct {
	mu    sync.Mutex
	types map[typeKey]*objectType
}

type typeKey struct {
	name      string
	schema    *schema.Structural
	published bool
}

// New returns a Checker.
func New() *Checker { return &Checker{types: map[typeKey]*objectType{}} }

var _ schema.TypeChecker = (*Checker)(nil)

// typeOf returns the type of a schema, or nil if it is nil. The name is that of the kind.
func (c *Checker) typeOf(name string, s *schema.Structural, published bool) *objectType {
	if s == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	key := typeKey{name, s, published}
	if c.types[key] == nil {
		c.types[key] = newObjectType(name, s, published)
	}
	return c.types[key]
}

// variablesType is the name of the type of variables.
const variablesType = "kubernetes.variables"

// Expressions implements [schema.TypeChecker].
func (c *Checker) Expressions(t schema.ExpressionTypes) (schema.ExpressionChecker, error) {
	e := &expressions{
		ExpressionTypes: t,
		variables:       apiservercel.NewObjectType(variablesType, map[string]*apiservercel.DeclField{}),
		constants:       map[string]string{},
		known:           map[string]types.Bool{},
		failing:         map[string]bool{},
	}
	if !t.Published && t.Operation != "" {
		e.constants["request.operation"] = t.Operation
		e.null = map[string]string{"CREATE": "oldObject", "DELETE": "object"}[t.Operation]
	}
	if !t.Published && t.Kind.Kind != "" {
		apiVersion, kind := t.Kind.ToAPIVersionAndKind()
		for _, v := range []string{"object", "oldObject"} {
			e.constants[v+".kind"], e.constants[v+".apiVersion"] = kind, apiVersion
		}
		e.constants["request.kind.kind"], e.constants["request.kind.group"], e.constants["request.kind.version"] =
			t.Kind.Kind, t.Kind.Group, t.Kind.Version
		if r := t.Resource; r.Resource != "" {
			e.constants["request.resource.resource"], e.constants["request.resource.group"], e.constants["request.resource.version"] =
				r.Resource, r.Group, r.Version
		}
	}
	e.object = c.typeOf(t.Kind.Kind, t.Object, t.Published)
	params := c.typeOf("params."+t.ParamKind.Kind, t.Params, t.Published)

	namespace, request := plugincel.BuildNamespaceType(), plugincel.BuildRequestType()
	declared := []*apiservercel.DeclType{namespace, request, e.variables}
	options := []cel.EnvOption{
		cel.Variable(plugincel.NamespaceVarName, namespace.CelType()),
		cel.Variable(plugincel.RequestVarName, request.CelType()),
		cel.Variable(plugincel.VariableVarName, e.variables.CelType()),
		cel.Variable(plugincel.AuthorizerVarName, library.AuthorizerType),
	}
	variable := func(typ *objectType, names ...string) {
		celType := cel.DynType
		if typ != nil {
			celType = typ.decl.CelType()
			e.largest = e.largest.Or(bounds.TypeSizes{}.Of(typ.decl))
			if e.structs = append(e.structs, typ); typ.decl.IsObject() {
				declared = append(declared, typ.decl)
			}
		}
		for _, name := range names {
			options = append(options, cel.Variable(name, celType))
		}
	}
	variable(e.object, plugincel.ObjectVarName, plugincel.OldObjectVarName)
	if t.HasParams {
		variable(params, plugincel.ParamsVarName)
	}
	if !t.Published {
		// kube-apiserver does not declare it when it checks types.
		options = append(options, cel.Variable(plugincel.RequestResourceAuthorizerVarName, library.ResourceCheckType))
	}
	set, err := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()).Extend(environment.VersionedOptions{
		IntroducedVersion: version.MajorMinor(1, 0), EnvOptions: options, DeclTypes: declared,
	})
	if err != nil {
		return nil, err
	}
	e.env = set.StoredExpressionsEnv()
	if t.Mutating {
		e.env, err = e.env.Extend(common.ResolverEnvOption(&mutation.DynamicTypeResolver{}), environment.UnversionedLib(library.JSONPatch))
		if err != nil {
			return nil, err
		}
	}
	e.misses = &misses{Provider: e.env.CELTypeProvider()}
	e.env, err = e.env.Extend(cel.CustomTypeProvider(e.misses))
	return e, err
}

// expressions implements [schema.ExpressionChecker].
type expressions struct {
	schema.ExpressionTypes
	env       *cel.Env
	variables *apiservercel.DeclType
	object    *objectType
	// structs are the types of objects and params.
	structs []*objectType
	// constants are the values of fields that the kind decides.
	constants map[string]string
	// known are the variables that are constant.
	known map[string]types.Bool
	// null is the variable that is null in all requests, if there is one. failing are the variables
	// of the policy that read a field of it. They are evaluated where they are used.
	null    string
	failing map[string]bool
	misses  *misses
	// largest bounds the types of all variables.
	largest bounds.TypeSize
}

// Declare implements [schema.ExpressionChecker].
func (e *expressions) Declare(name, expression string) schema.TypedExpression {
	out, typ, constant, nullFields := e.check(expression)
	if constant != nil {
		e.known[name] = *constant
	}
	e.failing[name] = len(nullFields) > 0
	if typ != nil {
		e.largest = e.largest.Or(bounds.SizeOf(typ))
	}
	e.variables.Fields[name] = apiservercel.NewDeclField(name, e.variable(typ), true, nil, nil)
	return out
}

// variable returns the type of a variable.
func (e *expressions) variable(t *cel.Type) *apiservercel.DeclType {
	switch {
	case t == nil:
		return apiservercel.DynType
	case !e.Published:
		return apiservercel.NewSimpleTypeWithMinSize(t.String(), t, nil, 0)
	}
	// In kube-apiserver, objects in variables have any type.
	switch t {
	case cel.AnyType, cel.BoolType, cel.BytesType, cel.DoubleType, cel.DurationType, cel.IntType, cel.NullType, cel.StringType,
		cel.TimestampType, cel.UintType:
		return apiservercel.NewSimpleTypeWithMinSize(t.String(), t, nil, 0)
	}
	if t.HasTrait(traits.ContainerType) && t.HasTrait(traits.IndexerType) {
		switch p := t.Parameters(); len(p) {
		case 1:
			return apiservercel.NewListType(e.variable(p[0]), -1)
		case 2:
			return apiservercel.NewMapType(e.variable(p[0]), e.variable(p[1]), -1)
		}
	}
	return apiservercel.DynType
}

// Check implements [schema.ExpressionChecker].
func (e *expressions) Check(expression string) schema.TypedExpression {
	out, _, _, nullFields := e.check(expression)
	if len(out.Issues) == 0 {
		out.Issues = nullFields
	}
	return out
}

// maxRounds limits how often an expression is checked again after what does not matter has been
// removed from it.
const maxRounds = 20

// check checks an expression. It returns its type, if it has one, its value if it is constant, and
// where it reads fields of null.
func (e *expressions) check(expression string) (out schema.TypedExpression, typ *cel.Type, constant *types.Bool, nullFields []schema.TypeIssue) {
	defer bounds.Recover(func(err error) {
		out.Issues, typ, constant, nullFields = []schema.TypeIssue{{Message: err.Error(), Line: 1, Column: 1}}, nil, nil, nil
	})
	repeats := bounds.Repeats(expression, e.largest)
	if repeats == 0 {
		out.Issues = []schema.TypeIssue{{Message: bounds.ErrTooComplex.Error(), Line: 1, Column: 1}}
		return out, nil, nil, nil
	}
	parsed, issues := e.env.Parse(expression)
	if issues.Err() != nil {
		out.Issues = e.issues(issues)
		return out, nil, nil, nil
	}
	r := &rewriter{expressions: e, ast: parsed.NativeRep(), wrapped: map[int64]bool{}}
	for round := 0; ; round++ {
		if !e.Published {
			r.simplify(r.ast.Expr())
			if value, ok := literal[types.Bool](r.ast.Expr()); ok {
				constant, out.False = &value, !bool(value)
			}
		}
		e.misses.found = nil
		checked, issues := e.env.Check(parsed)
		if issues.Err() == nil {
			typ = checked.OutputType()
			break
		}
		if e.Published || round == min(maxRounds, repeats) || !r.relax(issues) {
			out.Issues = e.issues(issues)
			break
		}
	}
	out.Unset = r.unset
	if e.Mutating && !e.Published {
		out.Issues = append(out.Issues, r.constructed()...)
	}
	return out, typ, constant, r.nullFields()
}

// issues converts the errors of CEL.
func (e *expressions) issues(all *cel.Issues) (out []schema.TypeIssue) {
	for _, err := range all.Errors() {
		out = append(out, e.issue(err))
	}
	return out
}

// issue converts an error of CEL.
func (e *expressions) issue(err *cel.Error) schema.TypeIssue {
	issue := schema.TypeIssue{Message: err.Message, Line: err.Location.Line(), Column: err.Location.Column() + 1}
	if name, ok := undefinedField(err.Message); ok {
		issue.Field = name
		i := slices.IndexFunc(e.misses.found, func(m miss) bool { return m.field == name })
		if i >= 0 {
			issue.Nearest = nearest.Name(name, slices.Values(e.fieldsOf(e.misses.found[i].typ)))
		}
	}
	return issue
}

// undefinedField returns the field that an error of CEL is about.
func undefinedField(message string) (string, bool) {
	name, ok := strings.CutPrefix(message, "undefined field '")
	return strings.TrimSuffix(name, "'"), ok
}

// fieldsOf returns the sorted names of the fields of a type.
func (e *expressions) fieldsOf(name string) []string {
	if name == variablesType {
		return sortedFields(e.variables)
	}
	for _, s := range e.structs {
		if t := s.structs[name]; t != nil {
			return sortedFields(t)
		}
	}
	for _, t := range []*apiservercel.DeclType{plugincel.BuildRequestType(), plugincel.BuildNamespaceType()} {
		if t := apiservercel.FieldTypeMap(t.TypeName(), t)[name]; t != nil {
			return sortedFields(t)
		}
	}
	return nil
}

// mentionsStruct reports whether a message of CEL mentions one of the types of objects, which are maps when
// they are evaluated.
func (e *expressions) mentionsStruct(message string) bool {
	words := strings.FieldsFunc(message, func(r rune) bool { return strings.ContainsRune(" '(),", r) })
	return slices.ContainsFunc(words, func(w string) bool {
		return slices.ContainsFunc(e.structs, func(t *objectType) bool { return t.structs[w] != nil })
	})
}

// misses records the fields that types do not have.
type misses struct {
	types.Provider
	found []miss
}

type miss struct{ typ, field string }

// FindStructFieldType implements [types.Provider].
func (m *misses) FindStructFieldType(typ, field string) (*types.FieldType, bool) {
	t, ok := m.Provider.FindStructFieldType(typ, field)
	if !ok {
		m.found = append(m.found, miss{typ, field})
	}
	return t, ok
}

// literal returns the value of a constant.
func literal[T any](e ast.Expr) (value T, ok bool) {
	if e.Kind() != ast.LiteralKind {
		return value, false
	}
	value, ok = e.AsLiteral().(T)
	return value, ok
}
