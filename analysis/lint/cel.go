package lint

import (
	"fmt"
	"math"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/analysis"
	"espalier.dev/schema"
)

// maxRemedies limits the number of suggestions for reducing a cost.
const maxRemedies = 3

// rules reports errors in the validation rules of a schema, and rules that cost too much.
func (c *check) rules(r ruleReport) {
	costly := map[string]*schema.CheckedRule{}
	for _, rule := range r.Rules() {
		at := rule.Path.Field(r.path).Child("x-kubernetes-validations").Index(rule.Index)
		if rule.Cost.Exceeded() {
			costly[at.Child("rule").String()] = rule
		}
		if rule.MessageErr == nil && rule.MessageCost.Exceeded() {
			costly[at.Child("messageExpression").String()] = rule
		}
	}
	for _, e := range r.FieldErrors(r.path, false) {
		rule := costly[e.Field]
		for i, at := range c.d.locate(e.Field) {
			if e.Type != field.ErrorTypeForbidden {
				c.add(celRule, at, note{severity: analysis.Error}, c.d.inWords(celBody(e), i))
				continue
			}
			cost := rule.Cost
			if strings.HasSuffix(e.Field, ".messageExpression") {
				cost = rule.MessageCost
			}
			site := c.d.locate(r.path.String())[i]
			c.add(celCost, at, note{severity: analysis.Error, detail: costDetail(site, cost)}, e.ErrorBody())
		}
	}
	if r.Exceeded() {
		c.totalCost(r)
	}
	c.unguarded(r)
}

// unguarded reports rules that read optional fields without checking that they are present.
func (c *check) unguarded(r ruleReport) {
	for _, rule := range r.Rules() {
		if len(rule.Unguarded) == 0 {
			continue
		}
		first := rule.Unguarded[0]
		dot := strings.LastIndexByte(first, '.')
		message := first + " is optional: without it, the evaluation of the rule can fail with an error"
		if len(rule.Unguarded) > 1 {
			message = strings.Join(rule.Unguarded, ", ") +
				" are optional: without one of them, the evaluation of the rule can fail with an error"
		}
		path := rule.Path.Field(r.path).Child("x-kubernetes-validations").Index(rule.Index).Child("rule")
		for _, at := range c.d.locate(path.String()) {
			c.add(celOptional, at, note{severity: analysis.Warning, detail: []string{
				fmt.Sprintf("guard it: !has(%s) || …, or read it as %s.?%s.orValue(…); if it must be present, make it required", first,
					first[:dot], first[dot+1:]),
			}}, message)
		}
	}
}

// totalCost reports a schema whose rules together exceed the cost limit.
func (c *check) totalCost(r ruleReport) {
	errs := r.TotalErrors(r.path)
	total := errs[len(errs)-1]
	for _, at := range c.d.locate(total.Field) {
		var detail []string
		for _, e := range r.MostExpensive() {
			rule := at.schemaPath(e.Path).child("x-kubernetes-validations").index(e.Index).child(e.Keyword)
			detail = append(detail, fmt.Sprintf("%s: cost is %s, the limit for all rules is %d",
				rule.path(), upTo(e.Cost), schema.SchemaCostLimit))
		}
		c.add(celCost, at, note{severity: analysis.Error, detail: detail}, total.ErrorBody())
	}
}

// celBody returns the text of an error without the rule, which is visible at the location.
func celBody(e *field.Error) string {
	if e.Type == field.ErrorTypeInvalid {
		return "Invalid value: " + e.Detail
	}
	return e.ErrorBody()
}

// upTo formats an estimated cost or count. Estimates saturate at the largest uint64.
func upTo(estimate uint64) string {
	if estimate == math.MaxUint64 {
		return "unbounded"
	}
	return fmt.Sprintf("up to %d", estimate)
}

// costDetail explains the cause of a cost and how to reduce it.
func costDetail(site *place, cost schema.RuleCost) []string {
	var detail []string
	if len(cost.Unbounded) > 0 {
		var at []string
		for _, p := range cost.Unbounded {
			at = append(at, site.schemaPath(p).path())
		}
		detail = append(detail, "unbounded: "+strings.Join(at, ", "))
	}
	detail = append(detail, fmt.Sprintf("cost of one evaluation is %s; evaluations per object: %s; limit for all of them: %d",
		upTo(cost.Call), upTo(cost.Cardinality), cost.Limit))
	if len(cost.Remedies) == 0 {
		return append(detail, "no bound on a list, map or string is sufficient: simplify the rule")
	}
	for i, r := range cost.Remedies {
		if i == maxRemedies {
			break
		}
		var bounds []string
		for _, b := range r {
			text := fmt.Sprintf("%s: %d", site.schemaPath(append(b.Path[:len(b.Path):len(b.Path)],
				schema.SchemaStep{Keyword: b.Keyword})).path(), b.Max)
			if b.Present != nil {
				text += fmt.Sprintf(" (now %d)", *b.Present)
			}
			bounds = append(bounds, text)
		}
		detail = append(detail, "within the limit with "+strings.Join(bounds, " and "))
	}
	return detail
}
