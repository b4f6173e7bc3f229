package lint

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	"espalier.dev/analysis"
	"espalier.dev/crd"
	"espalier.dev/schema"
)

// Options say what Run looks for.
type Options struct {
	// Semantics is the schema semantics that applies.
	Semantics schema.Semantics
	// Rules checks x-kubernetes-validations. Without it, they are not checked, and
	// defaults are not validated against them.
	Rules crd.RuleChecker
	// Configs turn rules on and off; later ones override earlier ones.
	Configs []Config
}

// Run looks at definitions, each of them as JSON, and returns what it finds in each.
// Findings are in the order of their places. The error is about the options.
func Run(ctx context.Context, definitions [][]byte, o Options) ([][]analysis.Finding, error) {
	selected, err := newSelection(o.Configs...)
	if err != nil {
		return nil, err
	}
	checks := make([]*check, len(definitions))
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(len(definitions), runtime.GOMAXPROCS(0)) {
		workers.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(definitions) {
					return
				}
				checks[i] = newCheck(selected, o.Semantics)
				checks[i].ruleChecker = o.Rules
				checks[i].run(ctx, definitions[i])
			}
		})
	}
	workers.Wait()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	collisions(checks)
	findings := make([][]analysis.Finding, len(checks))
	for i, c := range checks {
		analysis.Sort(c.findings)
		findings[i] = c.findings
	}
	return findings, nil
}

// check is one definition being looked at.
type check struct {
	*selection
	sem         schema.Semantics
	ruleChecker crd.RuleChecker
	d           *definition
	findings    []analysis.Finding
	// rejected are the places of which validation has something to say.
	refused map[string]bool
	// steps is how long the paths of the findings are, together.
	steps int
	// failed says that there is an error among the findings.
	failed bool
}

// maxSteps bounds the paths of all findings of a definition together: 10,000 nested
// schemas with a finding each would have 50 million steps.
const maxSteps = 1 << 18

func newCheck(s *selection, sem schema.Semantics) *check {
	return &check{selection: s, sem: sem, refused: map[string]bool{}}
}

// note is what a rule has to say beside where and what.
type note struct {
	severity analysis.Severity
	detail   []string
	fix      *analysis.Fix
}

// add records a finding of a rule, if the rule is on.
func (c *check) add(rule string, at *place, n note, message ...string) {
	if s, ok := c.severity[rule]; ok {
		n.severity = s
	}
	isError := n.severity == analysis.Error
	if !c.on[rule] || c.steps > maxSteps && (c.failed || !isError) {
		return
	}
	c.failed = c.failed || isError
	path := at.path()
	c.steps += 1 + len(path)/8
	c.findings = append(c.findings, analysis.Finding{
		Rule: rule, Severity: n.severity,
		Path: path, Pointer: at.pointer(),
		Message: strings.Join(message, ""), Detail: n.detail, Fix: n.fix,
	})
}

func (c *check) warn(rule string, at *place, message ...string) {
	c.add(rule, at, note{severity: analysis.Warning}, message...)
}

func (c *check) inform(rule string, at *place, message ...string) {
	c.add(rule, at, note{severity: analysis.Info}, message...)
}

// run applies all rules that look at one definition alone.
func (c *check) run(ctx context.Context, raw []byte) {
	c.duplicates(raw)
	d, err := read(raw, c.sem)
	if err != nil {
		at, message := root(), err.Error()
		if m, ok := err.(*misfit); ok {
			at, message = m.at, m.message
		}
		c.add(undecodable, at, note{severity: analysis.Error}, message)
		return
	}
	c.d = d
	c.unknownFields()
	c.superseded()
	c.validation(ctx)
	for _, s := range d.schemas {
		c.schema(s)
	}
	if d.legacy != nil {
		c.schema(d.legacy)
	}
	c.leftovers()
	c.size()
}
