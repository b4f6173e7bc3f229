package cel

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	apicel "k8s.io/apiserver/pkg/cel"

	"espalier.dev/kinds/admissionregistration"
)

// maxVariables is the number of variables after which a compiler is not used again.
const maxVariables = 100

// composition is a compiler with variables. To make one takes longer than to compile ten
// expressions.
type composition struct {
	*plugincel.CompositedCompiler
	bounded *Bounded
	// declared has the names of all variables that were ever declared. They cannot be removed.
	declared map[string]bool
}

func (c *compilers) compose() (*composition, error) {
	made, err := NewComposition(c.set())
	if err != nil {
		return nil, err
	}
	return &composition{made, made.Compiler.(*Bounded), map[string]bool{}}, nil
}

// Policy returns a compiler with variables.
func (c *compilers) Policy() (admissionregistration.PolicyCompiler, error) {
	return &policyCompiler{from: c}, nil
}

// policyCompiler compiles the expressions of a policy. It has a composition of its own as soon as it compiles an expression
// with variables, which other policies may have used before.
type policyCompiler struct {
	from *compilers
	// declarations are the variables of this policy.
	declarations []declaration
	scope        scope
	// own has the first declarations.
	own   *composition
	known int
}

type declaration struct {
	name       string
	expression admissionregistration.Expression
}

// scope identifies the variables of a policy, in their order.
type scope [sha256.Size]byte

func (s scope) with(d declaration) scope {
	all := fmt.Appendf(s[:], "%q %q %v %v %v", d.name, d.expression.Text, d.expression.Purpose, d.expression.Params, d.expression.Stored)
	return sha256.Sum256(all)
}

// use describes an expression of this policy.
func (p *policyCompiler) use(e admissionregistration.Expression) use {
	u := use{expression: e, policy: true}
	if hasVariables(e.Text) {
		u.declared = p.scope
	}
	return u
}

func hasVariables(text string) bool { return strings.Contains(text, "variables") }

// Compile reports the errors of an expression.
func (p *policyCompiler) Compile(path *field.Path, e admissionregistration.Expression, value string) field.ErrorList {
	return p.from.results.get(path, value, p.use(e), func() (*apicel.Error, error) {
		c, err := p.compiler(e.Text)
		if err != nil {
			return nil, err
		}
		return c.CompileCELExpression(Accessor(e), variables(e), environmentOf(e)).Error, nil
	})
}

// compiler returns the compiler of an expression.
func (p *policyCompiler) compiler(text string) (*composition, error) {
	if !hasVariables(text) || len(p.declarations) == 0 {
		return p.from.undeclared()
	}
	if _, err := p.declareAll(); err != nil {
		return nil, err
	}
	if p.own.hasOthers(text, p.declarations) {
		if err := p.renew(); err != nil {
			return nil, err
		}
		if _, err := p.declareAll(); err != nil {
			return nil, err
		}
	}
	return p.own, nil
}

// Declare declares a variable, and reports the errors of its expression.
func (p *policyCompiler) Declare(path *field.Path, name string, e admissionregistration.Expression) field.ErrorList {
	u, d := p.use(e), declaration{name, e}
	u.variable = true
	p.declarations = append(p.declarations, d)
	p.scope = p.scope.with(d)
	return p.from.results.get(path, e.Text, u, p.declareAll)
}

// declareAll declares the variables that are not yet known, and returns the error of the last one, if it was not.
func (p *policyCompiler) declareAll() (*apicel.Error, error) {
	if p.own == nil {
		if p.own, _ = p.from.used.Get().(*composition); p.own != nil {
			p.own.bounded.begin()
		}
	}
	if p.own == nil {
		if err := p.renew(); err != nil {
			return nil, err
		}
	}
	var last *apicel.Error
	for p.known < len(p.declarations) {
		d := p.declarations[p.known]
		if p.own.hasOthers(d.expression.Text, p.declarations[:p.known]) {
			if err := p.renew(); err != nil {
				return nil, err
			}
			continue
		}
		last = p.own.declare(d).Error
		p.known++
	}
	return last, nil
}

// renew begins with a composition that no other policy has used.
func (p *policyCompiler) renew() (err error) {
	p.own, err = p.from.compose()
	p.known = 0
	return err
}

func (c *composition) declare(d declaration) plugincel.CompilationResult {
	c.declared[d.name] = true
	return c.CompileAndStoreVariable(Variable(d.name, d.expression.Text), variables(d.expression), environmentOf(d.expression))
}

// hasOthers reports whether an expression could see a variable that is not among those of its policy.
func (c *composition) hasOthers(text string, own []declaration) bool {
	if !hasVariables(text) {
		return false // it uses none
	}
	for name := range c.declared {
		if strings.Contains(text, name) && !slices.ContainsFunc(own, func(d declaration) bool { return d.name == name }) {
			return true
		}
	}
	return false
}

// Close lets other policies use the environments.
func (p *policyCompiler) Close() {
	if p.own != nil && len(p.own.declared) <= maxVariables {
		p.from.used.Put(p.own)
	}
	p.own = nil
}
