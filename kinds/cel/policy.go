package cel

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"

	"espalier.dev/kinds/admissionregistration"
)

// maxVariables is the number of variables after which a compiler is not used again.
const maxVariables = 100

// composition is a compiler with variables. To make one takes longer than to compile ten
// expressions.
type composition struct {
	*plugincel.CompositedCompiler
	// declared has the names of all variables that were ever declared. They cannot be removed.
	declared map[string]bool
}

func (c *compilers) compose() (*composition, error) {
	made, err := plugincel.NewCompositedCompiler(c.set())
	if err != nil {
		return nil, err
	}
	return &composition{made, map[string]bool{}}, nil
}

// Policy returns a compiler with variables.
func (c *compilers) Policy() (admissionregistration.PolicyCompiler, error) {
	shared, err := c.undeclared()
	if err != nil {
		return nil, err
	}
	return &policyCompiler{from: c, current: shared}, nil
}

// policyCompiler compiles the expressions of a policy. It uses a shared composition until it declares
// a variable, and then one that other policies may have used before.
type policyCompiler struct {
	from    *compilers
	current *composition
	// declarations are the variables of this policy.
	declarations []declaration
}

type declaration struct {
	name       string
	expression admissionregistration.Expression
}

// Compile reports the errors of an expression.
func (p *policyCompiler) Compile(path *field.Path, e admissionregistration.Expression, value string) field.ErrorList {
	if err := p.forget(e.Text); err != nil {
		return field.ErrorList{field.InternalError(path, err)}
	}
	return errorsOf(path, value, p.current.CompileCELExpression(Accessor(e), variables(e), environmentOf(e)).Error)
}

// Declare declares a variable, and reports the errors of its expression.
func (p *policyCompiler) Declare(path *field.Path, name string, e admissionregistration.Expression) field.ErrorList {
	if len(p.declarations) == 0 {
		own, ok := p.from.used.Get().(*composition)
		if !ok {
			var err error
			if own, err = p.from.compose(); err != nil {
				return field.ErrorList{field.InternalError(path, err)}
			}
		}
		p.current = own
	}
	// Some of its variables may not be those of this policy.
	if err := p.forget(e.Text); err != nil {
		return field.ErrorList{field.InternalError(path, err)}
	}
	d := declaration{name, e}
	p.declarations = append(p.declarations, d)
	return errorsOf(path, e.Text, p.current.declare(d).Error)
}

func (c *composition) declare(d declaration) plugincel.CompilationResult {
	c.declared[d.name] = true
	return c.CompileAndStoreVariable(Variable(d.name, d.expression.Text), variables(d.expression), environmentOf(d.expression))
}

// forget makes sure that an expression does not see the variables of other policies.
func (p *policyCompiler) forget(text string) error {
	if !strings.Contains(text, "variables") {
		return nil // it uses none
	}
	for name := range p.current.declared {
		if !strings.Contains(text, name) || p.declares(name) {
			continue
		}
		fresh, err := p.from.compose()
		if err != nil {
			return err
		}
		for _, d := range p.declarations {
			fresh.declare(d)
		}
		p.current = fresh
		return nil
	}
	return nil
}

func (p *policyCompiler) declares(name string) bool {
	for _, d := range p.declarations {
		if d.name == name {
			return true
		}
	}
	return false
}

// Close lets other policies use the environments.
func (p *policyCompiler) Close() {
	if len(p.declarations) > 0 && len(p.current.declared) <= maxVariables {
		p.from.used.Put(p.current)
	}
	p.current = nil
}
