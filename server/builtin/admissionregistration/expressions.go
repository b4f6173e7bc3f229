package admissionregistration

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"

	v1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"

	"espalier.dev/schema/rules/bounds"
	"espalier.dev/server/builtin/rules"
)

// purpose is what an expression is for.
type purpose int

const (
	matchCondition purpose = iota
	validationRule
	message
	auditValue
	applyPatch
)

// expressions are those of the stored object. They may use functions and variables that the
// server knows, even if those are too new for an object that is created: the server may have been
// downgraded and upgraded in between.
type expressions map[purpose]sets.Set[string]

func (e expressions) add(p purpose, expression string) {
	if e[p] == nil {
		e[p] = sets.New[string]()
	}
	e[p].Insert(expression)
}

// environment returns the environment that an expression is compiled in.
func (e expressions) environment(p purpose, expression string) environment.Type {
	if e[p].Has(expression) {
		return environment.StoredExpressions
	}
	return environment.NewExpressions
}

// compilers make CEL compilers. Their environments are large, and built on first use.
type compilers struct {
	// plain compiles expressions without variables. It is safe for concurrent use.
	plain func() plugincel.Compiler
}

func newCompilers() *compilers {
	return &compilers{plain: sync.OnceValue(func() plugincel.Compiler {
		return plugincel.NewCompiler(bounds.EnvSet())
	})}
}

// policyCompiler compiles the expressions of one policy. Its variables are known to the expressions
// that follow them.
type policyCompiler struct {
	plugincel.Compiler
	known  expressions
	params bool
}

// policy returns a compiler for the expressions of a policy.
func (c *compilers) policy(composed bool, kind *v1.ParamKind, known expressions) (*policyCompiler, error) {
	p := &policyCompiler{known: known, params: kind != nil}
	if !composed {
		p.Compiler = c.plain()
		return p, nil
	}
	composition, err := plugincel.NewCompositedCompiler(bounds.EnvSet())
	p.Compiler = composition
	return p, err
}

// compile returns the error of an expression, with value as the bad value.
func (p *policyCompiler) compile(path *field.Path, e plugincel.ExpressionAccessor, value string, vars plugincel.OptionalVariableDeclarations, env environment.Type) field.ErrorList {
	return celErrors(path, value, p.CompileCELExpression(e, vars, env).Error)
}

// variables returns the variables of most expressions.
func (p *policyCompiler) variables() plugincel.OptionalVariableDeclarations {
	return plugincel.OptionalVariableDeclarations{HasParams: p.params, HasAuthorizer: true}
}

func celErrors(path *field.Path, expression string, err *cel.Error) field.ErrorList {
	switch {
	case err == nil:
		return nil
	case err.Type == cel.ErrorTypeRequired:
		return field.ErrorList{field.Required(path, err.Detail)}
	case err.Type == cel.ErrorTypeInvalid:
		return field.ErrorList{field.Invalid(path, expression, err.Detail)}
	}
	return field.ErrorList{field.InternalError(path, err)}
}

// matchConditions checks the conditions of a webhook or a policy. params reports whether they can
// use params.
func (c *compilers) matchConditions(path *field.Path, conditions []v1.MatchCondition, params bool, known expressions) field.ErrorList {
	const limit = 64
	var errs field.ErrorList
	if len(conditions) > limit {
		errs = append(errs, field.TooMany(path, len(conditions), limit))
	}
	names := sets.New[string]()
	for i, m := range conditions {
		path := path.Index(i)
		expression := strings.TrimSpace(m.Expression)
		if expression == "" {
			errs = append(errs, field.Required(path.Child("expression"), ""))
		} else {
			vars := plugincel.OptionalVariableDeclarations{HasParams: params, HasAuthorizer: true}
			result := c.plain().CompileCELExpression(&matchconditions.MatchCondition{Expression: expression}, vars, known.environment(matchCondition, expression))
			errs = append(errs, celErrors(path.Child("expression"), expression, result.Error)...)
		}
		if m.Name == "" {
			errs = append(errs, field.Required(path.Child("name"), ""))
			continue
		}
		errs = append(errs, rules.QualifiedName(m.Name, path.Child("name"))...)
		if names.Has(m.Name) {
			errs = append(errs, field.Duplicate(path.Child("name"), m.Name))
		}
		names.Insert(m.Name)
	}
	return errs
}

// variable checks a variable and makes it known to the expressions that follow.
func (p *policyCompiler) variable(path *field.Path, v v1.Variable) field.ErrorList {
	var errs field.ErrorList
	switch {
	case strings.TrimSpace(v.Name) == "":
		errs = append(errs, field.Required(path.Child("name"), "name is not specified"))
	case !isIdentifier(v.Name):
		errs = append(errs, field.Invalid(path.Child("name"), v.Name, "must be a valid CEL identifier"))
	}
	if strings.TrimSpace(v.Expression) == "" {
		return append(errs, field.Required(path.Child("expression"), "expression is not specified"))
	}
	composed, ok := p.Compiler.(*plugincel.CompositedCompiler)
	if !ok {
		return append(errs, field.InternalError(path, errors.New("variable composition is not allowed")))
	}
	result := composed.CompileAndStoreVariable(&validating.Variable{Name: v.Name, Expression: v.Expression}, p.variables(), p.known.environment(validationRule, v.Expression))
	return append(errs, celErrors(path.Child("expression"), v.Expression, result.Error)...)
}

func (p *policyCompiler) validation(path *field.Path, v v1.Validation) field.ErrorList {
	var errs field.ErrorList
	if strings.TrimSpace(v.Expression) == "" {
		errs = append(errs, field.Required(path.Child("expression"), "expression is not specified"))
	} else {
		errs = append(errs, p.compile(path.Child("expression"), &validating.ValidationCondition{Expression: v.Expression}, v.Expression,
			p.variables(), p.known.environment(validationRule, v.Expression))...)
	}
	switch {
	case v.MessageExpression == "":
	case strings.TrimSpace(v.MessageExpression) == "":
		errs = append(errs, field.Invalid(path.Child("messageExpression"), v.MessageExpression, "must be non-empty if specified"))
	default:
		vars := plugincel.OptionalVariableDeclarations{HasParams: p.params}
		errs = append(errs, p.compile(path.Child("messageExpression"), &validating.MessageExpressionCondition{MessageExpression: v.MessageExpression}, v.MessageExpression,
			vars, p.known.environment(message, v.MessageExpression))...)
	}
	text := strings.TrimSpace(v.Message)
	switch {
	case v.Message != "" && text == "":
		errs = append(errs, field.Invalid(path.Child("message"), v.Message, "must be non-empty if specified"))
	case strings.ContainsAny(text, "\n\r"):
		errs = append(errs, field.Invalid(path.Child("message"), v.Message, "must not contain line breaks"))
	}
	return append(errs, optionalEnum(v.Reason, path.Child("reason"), "Forbidden", "Invalid", "RequestEntityTooLarge")...)
}

func (p *policyCompiler) auditAnnotation(path *field.Path, policy string, a v1.AuditAnnotation) field.ErrorList {
	// Values can be longer than the expressions that concatenate them: their limit is 10 KiB.
	const limit = 5 << 10
	var errs field.ErrorList
	if policy == "" {
		errs = append(errs, field.Invalid(path.Child("key"), a.Key, "requires metadata.name be non-empty"))
	} else {
		errs = append(errs, rules.QualifiedName(policy+"/"+a.Key, path.Child("key"))...)
	}
	value := path.Child("valueExpression")
	expression := strings.TrimSpace(a.ValueExpression)
	switch {
	case expression == "":
		return append(errs, field.Required(value, "valueExpression is not specified"))
	case len(expression) > limit:
		return append(errs, field.Required(value, fmt.Sprintf("must not exceed %d bytes in length", limit)))
	}
	return append(errs, p.compile(value, &validating.AuditAnnotationCondition{ValueExpression: expression}, a.ValueExpression,
		p.variables(), p.known.environment(auditValue, a.ValueExpression))...)
}

// isIdentifier reports whether a name is an identifier in CEL.
func isIdentifier(name string) bool {
	switch name {
	case "true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop",
		"package", "namespace", "return", "var", "void", "while":
		return false
	}
	ok, err := regexp.MatchString("^[_a-zA-Z][_a-zA-Z0-9]*$", name)
	return ok && err == nil
}
