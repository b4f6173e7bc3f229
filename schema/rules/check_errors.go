package rules

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/api"
	"espalier.dev/schema"
)

// FieldErrors lists what kube-apiserver has against the rules of a schema at root,
// apart from their total cost, in its words. forgiveCosts leaves the costs of single rules
// out, as it does on an update that leaves the schema as it was.
func (r *Report) FieldErrors(root *field.Path, forgiveCosts bool) field.ErrorList {
	var list field.ErrorList
	for i := range r.Schemas {
		list = append(list, r.Schemas[i].FieldErrors(root, forgiveCosts)...)
	}
	return list
}

// FieldErrors lists what kube-apiserver has against the rules of one schema.
func (s *SchemaRules) FieldErrors(root *field.Path, forgiveCosts bool) field.ErrorList {
	path := s.Path.Field(root).Child("x-kubernetes-validations")
	if s.Err != nil {
		err := s.Err
		if s.typeErr {
			err = fmt.Errorf("internal error: failed to construct type information for x-kubernetes-validations rules: %w", err)
		}
		return field.ErrorList{field.InternalError(path, err)}
	}
	var list field.ErrorList
	for i := range s.Rules {
		r := &s.Rules[i]
		at := path.Index(r.Index)
		if r.Cost.Exceeded() && !forgiveCosts {
			list = append(list, field.Forbidden(at.Child("rule"), overBudget("estimated rule cost", r.Cost.Total, r.Cost.Limit)))
		}
		if r.Err != nil {
			list = append(list, field.Invalid(at.Child("rule"), shownRule(r.Source), r.Err.Detail))
		}
		if r.MessageErr != nil {
			list = append(list, field.Invalid(at.Child("messageExpression"), shownRule(r.Source), r.MessageErr.Detail))
		} else if r.MessageCost.Exceeded() && !forgiveCosts {
			list = append(list, field.Forbidden(at.Child("messageExpression"), overBudget("estimated messageExpression cost", r.MessageCost.Total, r.MessageCost.Limit)))
		}
		switch {
		case r.UsesOldSelf && s.Uncorrelatable != nil:
			list = append(list, field.Invalid(at.Child("rule"), r.Source.Rule, fmt.Sprintf("oldSelf cannot be used on the uncorrelatable portion of the schema within %v", s.Uncorrelatable.Field(root))))
		case !r.UsesOldSelf && r.Source.OptionalOldSelf != nil:
			list = append(list, field.Invalid(at.Child("optionalOldSelf"), *r.Source.OptionalOldSelf, "may not be set if oldSelf is not used in rule"))
		}
	}
	return list
}

// shownRule is a rule as kube-apiserver shows it: by the names that its fields have
// in Go.
type shownRule struct {
	Rule              string
	Message           string
	MessageExpression string
	Reason            *api.FieldValueErrorReason
	FieldPath         string
	OptionalOldSelf   *bool
}

// TotalErrors lists what kube-apiserver has against the cost of all rules together.
func (r *Report) TotalErrors(root *field.Path) field.ErrorList {
	if !r.Exceeded() {
		return nil
	}
	var list field.ErrorList
	for _, e := range r.MostExpensive() {
		list = append(list, field.Forbidden(e.Path.Field(root).Child("x-kubernetes-validations").Index(e.Index).Child(e.Keyword),
			"contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"))
	}
	return append(list, field.Forbidden(root, overBudget("x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema", r.TotalCost, SchemaCostLimit)))
}

// Expense is a part of the total cost.
type Expense struct {
	// Path, Index and Keyword lead to the rule or messageExpression.
	Path    schema.SchemaPath
	Index   int
	Keyword string
	Cost    uint64
}

// MostExpensive returns the four most expensive rules and messageExpressions of
// those that each need a hundredth of SchemaCostLimit or more.
func (r *Report) MostExpensive() []Expense {
	var list []Expense
	for _, rule := range r.Rules() {
		for _, e := range []Expense{
			{rule.Path, rule.Index, "rule", rule.Cost.Total},
			{rule.Path, rule.Index, "messageExpression", rule.MessageCost.Total},
		} {
			if e.Cost >= SchemaCostLimit/100 {
				list = append(list, e)
			}
		}
	}
	slices.SortStableFunc(list, func(a, b Expense) int { return cmp.Compare(b.Cost, a.Cost) })
	return list[:min(len(list), 4)]
}

// overBudget words by how much a cost is too high.
func overBudget(what string, cost, limit uint64) string {
	factor := float64(cost) / float64(limit)
	var text string
	switch {
	case factor > 100:
		text = "more than 100x"
	case factor < 1.5:
		text = fmt.Sprintf("%fx", factor)
	default:
		text = fmt.Sprintf("%.1fx", factor)
	}
	return fmt.Sprintf("%s exceeds budget by factor of %s (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)", what, text)
}
