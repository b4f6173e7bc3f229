//go:build !small

package protocol

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"espalier.dev/analysis"
	"espalier.dev/analysis/impact"
	"espalier.dev/analysis/object"
	"espalier.dev/crd"
	"espalier.dev/internal/jsonptr"
	"espalier.dev/internal/yamledit"
	"espalier.dev/schema"
)

// maxRemedies is the maximum number of alternatives that bring the cost of a rule below its limit.
const maxRemedies = 3

// RuleCost is a CEL rule with its estimated cost.
type RuleCost struct {
	// Path is that of the field.
	Path  string `json:"path"`
	Index int    `json:"index"`
	// Rule is the rule, or the messageExpression if Keyword is that. It is empty if all rules of the schema
	// have an error.
	Rule    string `json:"rule"`
	Keyword string `json:"keyword,omitempty"`
	// Cost is the estimate for all values of an object, and Limit the highest one that is accepted.
	Cost  uint64 `json:"cost"`
	Limit uint64 `json:"limit"`
	// Exceeded is set if the API server rejects the rule, and Error is why it does not compile.
	Exceeded bool   `json:"exceeded,omitempty"`
	Error    string `json:"error,omitempty"`
	// Bounds are alternative changes of the CRD that bring the cost below the limit.
	Bounds []Fix `json:"bounds,omitempty"`
	// Range is the position of the rule in the CRDs.
	Range *Range `json:"range,omitempty"`
}

// RulesAnswer is the answer to a VersionRequest for the rules of a version.
type RulesAnswer struct {
	Rules []RuleCost `json:"rules"`
	// Cost is the sum of all estimates, and Limit the highest one that is accepted.
	Cost     uint64 `json:"cost"`
	Limit    uint64 `json:"limit"`
	Exceeded bool   `json:"exceeded,omitempty"`
}

// rules answers a VersionRequest.
func (e *Engine) rules(ctx context.Context, r VersionRequest) (*RulesAnswer, error) {
	v, d, err := e.find(r)
	if err != nil {
		return nil, err
	}
	if d == nil {
		return &RulesAnswer{Rules: []RuleCost{}, Limit: schema.SchemaCostLimit}, nil
	}
	return e.costs(ctx, d, v)
}

// costs returns the rules of a version with their costs.
func (e *Engine) costs(ctx context.Context, d *definition, v *crd.Version) (*RulesAnswer, error) {
	if known, ok := d.costs.Load(v.Name()); ok {
		return known.(*RulesAnswer), nil
	}
	answer := &RulesAnswer{Rules: []RuleCost{}, Limit: schema.SchemaCostLimit}
	if e.options.Rules == nil || v.Structural() == nil {
		return answer, nil
	}
	checker, err := d.checker()
	if err != nil {
		return nil, failf(Failed, "the CRD cannot be used: %v", err)
	}
	report := e.options.Rules.CheckRules(ctx, crd.RuleCheck{Root: v.Structural(), Remedies: true})
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	answer.Cost, answer.Exceeded = report.TotalCost, report.Exceeded()
	c := &costing{checker, v, slices.Index(d.item.text.objects, d.item)}
	for i := range report.Schemas {
		answer.Rules = append(answer.Rules, c.schema(&report.Schemas[i])...)
	}
	d.costs.Store(v.Name(), answer)
	return answer, nil
}

// costing describes the rules of a version. object is the index of its CRD in the text.
type costing struct {
	checker *object.Checker
	version *crd.Version
	object  int
}

// schema returns the rules of a schema.
func (c *costing) schema(s *schema.SchemaRules) (all []RuleCost) {
	if s.Err != nil {
		return []RuleCost{{Path: impact.FieldPath(s.Path), Error: s.Err.Error(), Limit: schema.RuleCostLimit,
			Range: place(c.checker.SchemaLocation(c.version, s.Path)).Range}}
	}
	for _, rule := range s.Rules {
		all = append(all, c.rule(&rule, "", rule.Source.Rule, rule.Cost, rule.Err))
		if rule.MessageErr != nil || rule.MessageCost.Exceeded() {
			all = append(all, c.rule(&rule, "messageExpression", rule.Source.MessageExpression, rule.MessageCost, rule.MessageErr))
		}
	}
	return all
}

// rule returns a rule or, with a keyword, another expression of it.
func (c *costing) rule(r *schema.CheckedRule, keyword, expression string, cost schema.RuleCost, err error) RuleCost {
	at := append(slices.Clip(r.Path), schema.SchemaStep{Keyword: "x-kubernetes-validations", Form: schema.StepIndexed, Index: r.Index})
	out := RuleCost{Path: impact.FieldPath(r.Path), Index: r.Index, Rule: expression, Keyword: keyword, Cost: cost.Total, Limit: cost.Limit,
		Exceeded: err == nil && cost.Exceeded(), Range: place(c.checker.SchemaLocation(c.version, at)).Range}
	if err != nil {
		out.Error = err.Error()
		return out
	}
	for _, remedy := range cost.Remedies[:min(len(cost.Remedies), maxRemedies)] {
		out.Bounds = append(out.Bounds, c.bounds(remedy))
	}
	return out
}

// bounds returns the change of the CRD that a remedy is.
func (c *costing) bounds(remedy schema.RuleRemedy) Fix {
	var messages []string
	var edits []analysis.Edit
	for _, b := range remedy {
		where := impact.FieldPath(b.Path)
		if where == "" {
			where = "the object"
		}
		if b.Present == nil {
			messages = append(messages, fmt.Sprintf("add %s: %d to %s", b.Keyword, b.Max, where))
		} else {
			messages = append(messages, fmt.Sprintf("lower %s of %s from %d to %d", b.Keyword, where, *b.Present, b.Max))
		}
		edits = append(edits, analysis.Edit{Op: yamledit.Set, Value: b.Max,
			Pointer: jsonptr.Child(c.checker.SchemaLocation(c.version, b.Path).Pointer, b.Keyword)})
	}
	return Fix{strings.Join(messages, " and "), c.object, edits}
}
