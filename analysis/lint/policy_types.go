package lint

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/admissionregistration/v1"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"

	"espalier.dev/analysis"
	"espalier.dev/internal/nearest"
	"espalier.dev/schema"
)

const (
	// maxTypes limits the kinds that the expressions of a policy are checked for. kube-apiserver
	// checks ten.
	maxTypes = 50
	// maxChecks limits the expressions of a policy, each counted once for each kind.
	maxChecks = 5000
)

// typedKind is a kind that expressions are checked for.
type typedKind struct {
	kind     runtimeschema.GroupVersionKind
	resource runtimeschema.GroupVersionResource
	schema   *schema.Structural
	// operation is that of all requests for the kind, or empty.
	operation string
}

func (k typedKind) String() string {
	apiVersion, kind := k.kind.ToAPIVersionAndKind()
	return apiVersion + " " + kind
}

// typedKinds returns the kinds of some of the matches, in order, each once. Kinds without a schema are left out.
func typedKinds(all []*endpointMatch, found *matches) (out []typedKind) {
	seen := map[runtimeschema.GroupVersionKind]bool{}
	for _, m := range all {
		if seen[m.kind] {
			continue
		}
		seen[m.kind] = true
		if len(out) == maxTypes {
			break
		}
		if s := m.schema(); s != nil {
			out = append(out, typedKind{m.kind, m.GroupVersionResource, s, operationOf(m.kind, found)})
		}
	}
	slices.SortStableFunc(out, func(a, b typedKind) int {
		return cmp.Or(cmp.Compare(a.kind.Group, b.kind.Group), cmp.Compare(a.kind.Version, b.kind.Version), cmp.Compare(a.kind.Kind, b.kind.Kind))
	})
	return out
}

// operationOf returns the operation of all requests for a kind, or "" if there are several.
func operationOf(kind runtimeschema.GroupVersionKind, found *matches) (only string) {
	for _, m := range found.all() {
		if m.kind != kind {
			continue
		}
		for op := range m.operations {
			if only != "" && only != string(op) {
				return ""
			}
			only = string(op)
		}
	}
	return only
}

// countKinds returns the number of the kinds of matches.
func countKinds(all []*endpointMatch) int {
	seen := map[runtimeschema.GroupVersionKind]bool{}
	for _, m := range all {
		seen[m.kind] = true
	}
	return len(seen)
}

// policyTypes reports type errors in the expressions of a policy.
func (l *policyLinter) policyTypes(ctx context.Context, p *policyObject) {
	c := l.newTypeCheck(ctx, p, root().child("spec", "matchConditions"), p.spec.conditions)
	for i, v := range p.spec.variables {
		c.variables = append(c.variables, placedExpression{root().child("spec", "variables").index(i).child("expression"), v.Expression})
		c.names = append(c.names, v.Name)
	}
	c.expressions = p.spec.expressions
	if k := p.spec.params; k != nil {
		c.types.HasParams, c.types.ParamKind = true, kindOf(k)
		if e := l.resources.paramEndpoint(c.types.ParamKind); e != nil {
			c.types.Params = e.schema()
		}
	}
	c.run(p.matches)
}

// conditionTypes reports type errors in the match conditions of a webhook.
func (l *policyLinter) conditionTypes(ctx context.Context, p *policyObject, at *place, conditions []v1.MatchCondition, found *matches) {
	l.newTypeCheck(ctx, p, at, conditions).run(found)
}

// typeCheck checks the expressions of a policy or a webhook.
type typeCheck struct {
	ctx     context.Context
	linter  *policyLinter
	p       *policyObject
	types   schema.ExpressionTypes
	checked int
	// conditions come first; a kind for which one is false has no further ones.
	conditions, variables, expressions []placedExpression
	names                              []string
	// complete is set if all kinds that are matched have a schema.
	complete bool
}

func (l *policyLinter) newTypeCheck(ctx context.Context, p *policyObject, at *place, conditions []v1.MatchCondition) *typeCheck {
	c := &typeCheck{ctx: ctx, linter: l, p: p, types: schema.ExpressionTypes{Mutating: p.isMutating()}}
	for i, m := range conditions {
		c.conditions = append(c.conditions, placedExpression{at.index(i).child("expression"), m.Expression})
	}
	return c
}

// failure is what is wrong with an expression, with the kinds for which it is, and the positions.
type failure struct {
	at        placedExpression
	message   string
	kinds     []string
	positions []position
}

// position is a place in an expression. Lines and columns count from 1.
type position struct{ line, column int }

// run checks all expressions for all kinds.
func (c *typeCheck) run(found *matches) {
	if c.linter.Types == nil || len(c.conditions)+len(c.variables)+len(c.expressions) == 0 {
		return
	}
	if c.p.on[policyType] {
		kinds := typedKinds(found.endpoints, found)
		if len(found.endpoints) == 0 && len(found.wild) > 0 {
			c.wild(typedKinds(found.wild, found))
		} else {
			c.complete = len(kinds) > 0 && !found.unknown && len(found.wild) == 0 && len(kinds) == countKinds(found.endpoints)
			if len(kinds) == 0 {
				kinds = []typedKind{{}} // params and variables have types, too
			}
			c.report(policyType, analysis.Warning, c.failures(kinds, false))
		}
	}
	if c.p.on[policyTypeStatus] && c.p.kind == validatingPolicy {
		c.report(policyTypeStatus, analysis.Info, c.failures(typedKinds(found.endpoints, found), true))
	}
}

// wild checks expressions for kinds that only a wildcard names. An expression is expected to be right
// for one of them.
func (c *typeCheck) wild(kinds []typedKind) {
	if len(kinds) == 0 {
		return
	}
	first := c.failures(kinds[:1], false)
	for _, k := range kinds[1:] {
		if len(first) == 0 {
			return
		}
		others := c.failures([]typedKind{k}, false)
		first = slices.DeleteFunc(first, func(f *failure) bool {
			return !slices.ContainsFunc(others, func(o *failure) bool { return o.at == f.at })
		})
	}
	for _, f := range first {
		f.kinds = []string{"all kinds"}
	}
	c.report(policyType, analysis.Warning, first)
}

// failures returns what is wrong, in the order of the expressions.
func (c *typeCheck) failures(kinds []typedKind, published bool) (out []*failure) {
	var tests fieldTests
	for _, k := range kinds {
		t := c.types
		t.Kind, t.Resource, t.Object, t.Operation, t.Published = k.kind, k.resource, k.schema, k.operation, published
		checker, err := c.linter.Types.Expressions(t)
		if err != nil {
			return out
		}
		note := func(at placedExpression, result schema.TypedExpression) {
			c.checked++
			tests.add(at, k, result)
			for _, issue := range result.Issues {
				message := issue.Message + nearest.DidYouMean(issue.Nearest)
				i := slices.IndexFunc(out, func(f *failure) bool { return f.at == at && f.message == message })
				if i < 0 {
					i = len(out)
					out = append(out, &failure{at: at, message: message})
				}
				if p := (position{issue.Line, issue.Column}); !slices.Contains(out[i].positions, p) {
					out[i].positions = append(out[i].positions, p)
				}
				if name := k.String(); k.kind.Kind != "" && !slices.Contains(out[i].kinds, name) {
					out[i].kinds = append(out[i].kinds, name)
				}
			}
		}
		never := false
		for _, e := range c.conditions {
			if c.skips(e) || published {
				continue // kube-apiserver does not check them
			}
			result := checker.Check(e.text)
			if never = result.False; never {
				tests.add(e, k, result)
				break
			}
			note(e, result)
		}
		if never {
			continue
		}
		for i, e := range c.variables {
			result := checker.Declare(c.names[i], e.text)
			if !c.skips(e) && !published {
				note(e, result)
			}
		}
		for _, e := range c.expressions {
			if !c.skips(e) {
				note(e, checker.Check(e.text))
			}
		}
	}
	if c.complete && !published {
		out = append(out, tests.useless()...)
	}
	return out
}

// fieldTests are the tests of fields in expressions.
type fieldTests struct {
	// checked has the number of kinds that expressions were checked for.
	checked map[placedExpression]int
	// unset are the tests of fields that a kind does not have, each at one position.
	unset []*failure
}

// add adds the tests in an expression, which was checked for a kind.
func (t *fieldTests) add(at placedExpression, k typedKind, result schema.TypedExpression) {
	if t.checked == nil {
		t.checked = map[placedExpression]int{}
	}
	t.checked[at]++
	for _, issue := range result.Unset {
		message := issue.Message + ", which is never set" + nearest.DidYouMean(issue.Nearest)
		p := position{issue.Line, issue.Column}
		i := slices.IndexFunc(t.unset, func(f *failure) bool { return f.at == at && f.message == message && f.positions[0] == p })
		if i < 0 {
			i = len(t.unset)
			t.unset = append(t.unset, &failure{at: at, message: message, positions: []position{p}})
		}
		t.unset[i].kinds = append(t.unset[i].kinds, k.String())
	}
}

// useless returns the tests of fields that no kind has. They are misspelled: each kind has a similar
// one.
func (t *fieldTests) useless() (out []*failure) {
	for _, f := range t.unset {
		if len(f.kinds) != t.checked[f.at] {
			continue
		}
		if i := slices.IndexFunc(out, func(o *failure) bool { return o.at == f.at && o.message == f.message }); i >= 0 {
			out[i].positions = append(out[i].positions, f.positions...)
		} else {
			out = append(out, f)
		}
	}
	return out
}

// skips reports whether an expression is not checked: the API server rejects it, or there are too many.
func (c *typeCheck) skips(e placedExpression) bool {
	return c.checked >= maxChecks || c.ctx.Err() != nil || strings.TrimSpace(e.text) == "" || c.p.rejected[e.at.pointer()]
}

// report reports failures.
func (c *typeCheck) report(rule string, severity analysis.Severity, failures []*failure) {
	const most = 3
	for _, f := range failures {
		message := f.message
		if len(f.kinds) > 0 {
			message = "for " + nearest.First(f.kinds, most) + ": " + message
		}
		var detail []string
		lines := strings.Split(f.at.text, "\n")
		for i, p := range f.positions {
			if i == most {
				detail = append(detail, fmt.Sprintf("and %d more", len(f.positions)-most))
				break
			}
			if p.line > 0 {
				detail = append(detail, fmt.Sprintf("line %d, column %d of the expression: %s", p.line, p.column, excerpt(lines[p.line-1], p.column)))
			}
		}
		if len(f.kinds) > most {
			detail = append(detail, "the kinds are "+strings.Join(f.kinds, ", "))
		}
		c.p.add(rule, f.at.at, note{severity: severity, detail: detail}, message)
	}
}

// excerpt returns the part of a line around a column, which counts from 1.
func excerpt(line string, column int) string {
	const most = 80
	runes := []rune(line)
	from := max(0, min(column-1-most/2, len(runes)-most))
	to := min(len(runes), from+most)
	out := strings.TrimSpace(string(runes[from:to]))
	if from > 0 {
		out = "…" + out
	}
	if to < len(runes) {
		out += "…"
	}
	return out
}
