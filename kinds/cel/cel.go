// Package cel connects package kinds with the CEL of k8s.io/apiserver, which compiles the
// expressions of webhook configurations, admission policies and device selectors. In programs that import it, package
// espalier compiles them, too.
package cel

import (
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"k8s.io/apimachinery/pkg/util/validation/field"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	apicel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"

	"espalier.dev"
	"espalier.dev/kinds"
	"espalier.dev/kinds/admissionregistration"
	"espalier.dev/kinds/releases"
	"espalier.dev/schema/rules/bounds"
)

func init() { espalier.RegisterKinds(kinds.NewAdmission(New())) }

// New returns the compilers of a server. Their environments are large, and built on first use.
func New() kinds.CEL { return newCompilers(bounds.EnvSet, releases.Last) }

// At returns the compilers of a release of Kubernetes.
func At(release releases.Release) kinds.CEL {
	return newCompilers(sync.OnceValue(func() *environment.EnvSet { return bounds.EnvSetAt(uint(release)) }), release)
}

func newCompilers(set func() *environment.EnvSet, release releases.Release) *compilers {
	c := &compilers{set: set, plain: sync.OnceValue(func() plugincel.Compiler { return NewCompiler(set()) }), results: newResults()}
	c.selectors = newSelectors(set, release)
	c.undeclared = sync.OnceValues(func() (*composition, error) {
		made, err := c.compose()
		if err == nil {
			made.bounded.allowance = nil // it compiles for many policies at the same time
		}
		return made, err
	})
	return c
}

type compilers struct {
	set   func() *environment.EnvSet
	plain func() plugincel.Compiler
	// undeclared compiles for policies without variables. Its environments are never extended.
	undeclared func() (*composition, error)
	// used are compilers of policies with variables, to be used again.
	used    sync.Pool
	results *results
	*selectors
}

// Together returns a function that returns an error as soon as one of the expressions that it is called with would take too
// long to compile, or all of them together.
func (c *compilers) Together() func(string) error {
	var a bounds.Allowance
	return func(text string) error { return a.Check(text, bounds.TypeSize{}) }
}

// Compiler returns a compiler without variables. It makes the environment when it compiles.
func (c *compilers) Compiler() admissionregistration.Compiler { return compiler{c} }

type compiler struct {
	from *compilers
}

func (c compiler) Compile(path *field.Path, e admissionregistration.Expression, value string) field.ErrorList {
	return c.from.results.get(path, value, use{expression: e}, func() (*apicel.Error, error) {
		return c.from.plain().CompileCELExpression(Accessor(e), variables(e), environmentOf(e)).Error, nil
	})
}

// Accessor returns an expression with the types that it may return.
func Accessor(e admissionregistration.Expression) plugincel.ExpressionAccessor {
	switch e.Purpose {
	case admissionregistration.Message:
		return &expression{e.Text, []*cel.Type{cel.StringType}}
	case admissionregistration.AuditValue:
		return &expression{e.Text, []*cel.Type{cel.StringType, cel.NullType}}
	case admissionregistration.JSONPatch:
		return &patch.JSONPatchCondition{Expression: e.Text}
	case admissionregistration.ApplyConfiguration:
		return &patch.ApplyConfigurationCondition{Expression: e.Text}
	}
	return &expression{e.Text, []*cel.Type{cel.BoolType}}
}

// Variable returns the expression of a variable, which may be of any type.
func Variable(name, text string) plugincel.NamedExpressionAccessor {
	return &variable{expression{text, []*cel.Type{cel.AnyType, cel.DynType}}, name}
}

// expression implements [plugincel.ExpressionAccessor].
type expression struct {
	text  string
	types []*cel.Type
}

func (e *expression) GetExpression() string    { return e.text }
func (e *expression) ReturnTypes() []*cel.Type { return e.types }

type variable struct {
	expression
	name string
}

func (v *variable) GetName() string { return v.name }

// variables returns the variables that an expression may use beside those of all expressions.
func variables(e admissionregistration.Expression) plugincel.OptionalVariableDeclarations {
	return plugincel.OptionalVariableDeclarations{
		HasParams:     e.Params,
		HasAuthorizer: e.Purpose != admissionregistration.Message,
		HasPatchTypes: e.Purpose == admissionregistration.JSONPatch || e.Purpose == admissionregistration.ApplyConfiguration,
	}
}

func environmentOf(e admissionregistration.Expression) environment.Type {
	if e.Stored {
		return environment.StoredExpressions
	}
	return environment.NewExpressions
}

func errorsOf(path *field.Path, expression string, err *apicel.Error) field.ErrorList {
	switch {
	case err == nil:
		return nil
	case err.Type == apicel.ErrorTypeRequired:
		return field.ErrorList{field.Required(path, err.Detail)}
	case err.Type == apicel.ErrorTypeInvalid:
		return field.ErrorList{field.Invalid(path, expression, shortened(err.Detail, maxDetail+4*len(expression)))}
	}
	return field.ErrorList{field.InternalError(path, err)}
}

// maxDetail and the size of the expression bound an error about it. The compiler quotes the line for each of up to a hundred errors.
const maxDetail = 2 << 10

func shortened(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "... (shortened)"
}
