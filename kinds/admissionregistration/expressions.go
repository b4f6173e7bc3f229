package admissionregistration

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	v1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/kinds/rules"
)

// CEL makes compilers of CEL expressions. Package espalier.dev/kinds/cel implements it.
type CEL interface {
	// Compiler returns a compiler for expressions without variables of their own. It is safe for
	// concurrent use.
	Compiler() Compiler
	// Policy returns a compiler for the expressions of one policy with variables.
	Policy() (PolicyCompiler, error)
}

// Compiler compiles expressions.
type Compiler interface {
	// Compile returns the errors of an expression, with value as the bad value.
	Compile(path *field.Path, e Expression, value string) field.ErrorList
}

// PolicyCompiler compiles expressions that use the variables of a policy.
type PolicyCompiler interface {
	Compiler
	// Declare compiles the expression of a variable and makes it known to the expressions that
	// follow.
	Declare(path *field.Path, name string, e Expression) field.ErrorList
	// Close ends the use of the compiler. Others may use its environments again.
	Close()
}

// Expression is an expression in a webhook configuration or a policy.
type Expression struct {
	Purpose Purpose
	Text    string
	// Params is set if the expression can use params.
	Params bool
	// Stored is set if the stored object has the expression. It may use functions and variables
	// that the server knows, even if those are too new for an object that is created: the server
	// may have been downgraded and upgraded in between.
	Stored bool
}

// Purpose is what an expression is for.
type Purpose int

// Purposes of expressions.
const (
	MatchCondition Purpose = iota
	Validation
	Message
	AuditValue
	JSONPatch
	ApplyConfiguration
)

// expressions are those of the stored object.
type expressions map[Purpose]sets.Set[string]

func (e expressions) add(p Purpose, expression string) {
	if e[p] == nil {
		e[p] = sets.New[string]()
	}
	e[p].Insert(expression)
}

// checks are the rules that need CEL. Without it, expressions are not compiled.
type checks struct{ cel CEL }

// policy are the checks of the expressions of one policy.
type policy struct {
	compiler Compiler
	known    expressions
	params   bool
}

// policy returns the checks of a policy. Expressions use its variables only if composed is set.
func (c *checks) policy(composed bool, kind *v1.ParamKind, known expressions) (p *policy, err error) {
	p = &policy{known: known, params: kind != nil}
	switch {
	case c.cel == nil:
	case composed:
		p.compiler, err = c.cel.Policy()
	default:
		p.compiler = c.cel.Compiler()
	}
	return p, err
}

// close ends the checks.
func (p *policy) close() {
	if c, ok := p.compiler.(PolicyCompiler); ok {
		c.Close()
	}
}

// compile returns the errors of an expression, with value as the bad value. stored reports whether
// the stored object has it.
func (p *policy) compile(path *field.Path, purpose Purpose, text, value string, stored bool) field.ErrorList {
	if p.compiler == nil {
		return nil
	}
	return p.compiler.Compile(path, Expression{Purpose: purpose, Text: text, Params: p.params, Stored: stored}, value)
}

// matchConditions checks the conditions of a webhook or a policy. params reports whether they can
// use params.
func (c *checks) matchConditions(path *field.Path, conditions []v1.MatchCondition, params bool, known expressions) field.ErrorList {
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
		} else if c.cel != nil {
			e := Expression{Purpose: MatchCondition, Text: expression, Params: params, Stored: known[MatchCondition].Has(expression)}
			errs = append(errs, c.cel.Compiler().Compile(path.Child("expression"), e, expression)...)
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
func (p *policy) variable(path *field.Path, v v1.Variable) field.ErrorList {
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
	switch c, ok := p.compiler.(PolicyCompiler); {
	case ok:
		e := Expression{Purpose: Validation, Text: v.Expression, Params: p.params, Stored: p.known[Validation].Has(v.Expression)}
		errs = append(errs, c.Declare(path.Child("expression"), v.Name, e)...)
	case p.compiler != nil:
		errs = append(errs, field.InternalError(path, errors.New("variable composition is not allowed")))
	}
	return errs
}

func (p *policy) validation(path *field.Path, v v1.Validation) field.ErrorList {
	var errs field.ErrorList
	if strings.TrimSpace(v.Expression) == "" {
		errs = append(errs, field.Required(path.Child("expression"), "expression is not specified"))
	} else {
		errs = append(errs, p.compile(path.Child("expression"), Validation, v.Expression, v.Expression, p.known[Validation].Has(v.Expression))...)
	}
	switch {
	case v.MessageExpression == "":
	case strings.TrimSpace(v.MessageExpression) == "":
		errs = append(errs, field.Invalid(path.Child("messageExpression"), v.MessageExpression, "must be non-empty if specified"))
	default:
		known := p.known[Message].Has(v.MessageExpression)
		errs = append(errs, p.compile(path.Child("messageExpression"), Message, v.MessageExpression, v.MessageExpression, known)...)
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

func (p *policy) auditAnnotation(path *field.Path, policy string, a v1.AuditAnnotation) field.ErrorList {
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
	return append(errs, p.compile(value, AuditValue, expression, a.ValueExpression, p.known[AuditValue].Has(a.ValueExpression))...)
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
