package lint

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	"espalier.dev/analysis"
	"espalier.dev/crd"
	"espalier.dev/kinds/releases"
	"espalier.dev/schema"
)

// Options configures Run.
type Options struct {
	// Semantics is the schema semantics to apply.
	Semantics schema.Semantics
	// Rules checks x-kubernetes-validations. If it is nil, rules are not checked, and
	// defaults are not validated against them.
	Rules crd.RuleChecker
	// Release is the release of Kubernetes that must support the CRDs, and RulesOf returns the
	// RuleChecker of a release. A zero Release is the latest, without findings about releases.
	Release releases.Release
	RulesOf func(releases.Release) crd.RuleChecker
	// Configs enable and disable rules. Later ones override earlier ones.
	Configs []Config
	// Earlier has the names of CRDs that come before those to check, which may not claim them. They
	// are not checked themselves, and may be nil.
	Earlier []*Names
	// Done, if it is set, is called after each CRD, possibly concurrently.
	Done func()
}

// Run lints CRDs, each given as JSON, and returns the findings of each in the order of
// their locations. It returns an error only for invalid options.
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
				checks[i].release, checks[i].rulesOf = o.Release, o.RulesOf
				checks[i].run(ctx, definitions[i])
				if o.Done != nil {
					o.Done()
				}
			}
		})
	}
	workers.Wait()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	collisions(o.Earlier, checks)
	findings := make([][]analysis.Finding, len(checks))
	for i, c := range checks {
		analysis.Sort(c.findings)
		findings[i] = c.findings
	}
	return findings, nil
}

// check is the state of linting one CRD.
type check struct {
	*selection
	sem         schema.Semantics
	ruleChecker crd.RuleChecker
	release     releases.Release
	rulesOf     func(releases.Release) crd.RuleChecker
	d           *definition
	findings    []analysis.Finding
	// rejected holds the places that have a validation error.
	rejected map[string]bool
	// misfits holds the places of values that are ignored because of their type.
	misfits []*place
	// steps is the total length of the paths of all findings.
	steps int
	// failed reports whether a finding is an error.
	failed bool
}

// maxSteps limits the total length of the paths of all findings of a CRD: 10,000 nested
// schemas with a finding each would have 50 million steps.
const maxSteps = 1 << 18

func newCheck(s *selection, sem schema.Semantics) *check {
	return &check{selection: s, sem: sem, rejected: map[string]bool{}}
}

// note holds the optional parts of a finding.
type note struct {
	severity analysis.Severity
	part     analysis.Part
	detail   []string
	fix      *analysis.Fix
}

// add records a finding of a rule if the rule is enabled.
func (c *check) add(rule string, at *place, n note, message ...string) {
	if s, ok := c.severity[rule]; ok {
		n.severity = s
	}
	isError := n.severity == analysis.Error
	if !c.on[rule] || c.steps > maxSteps && (c.failed || !isError) {
		return
	}
	if rule != undecodable && c.inMisfit(at.pointer()) {
		return
	}
	c.failed = c.failed || isError
	path := at.path()
	c.steps += 1 + len(path)/8
	c.findings = append(c.findings, analysis.Finding{
		Rule: rule, Severity: n.severity,
		Path: path, Pointer: at.pointer(), Part: n.part,
		Message: strings.Join(message, ""), Detail: n.detail, Fix: n.fix,
	})
}

func (c *check) warn(rule string, at *place, message ...string) {
	c.add(rule, at, note{severity: analysis.Warning}, message...)
}

func (c *check) inform(rule string, at *place, message ...string) {
	c.add(rule, at, note{severity: analysis.Info}, message...)
}

// run applies all rules that need only one CRD.
func (c *check) run(ctx context.Context, raw []byte) {
	c.duplicates(raw)
	if c.d = c.readAround(raw); c.d == nil {
		return
	}
	c.unknownFields()
	c.superseded()
	c.validation(ctx)
	c.unsupported(ctx)
	for _, s := range c.d.schemas {
		c.schema(s)
	}
	if c.d.legacy != nil {
		c.schema(c.d.legacy)
	}
	c.conversionLoss()
	c.paths()
	c.statusSubresource()
	c.leftovers()
	c.size()
}
