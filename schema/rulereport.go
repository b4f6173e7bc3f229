package schema

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/api"
)

// RuleReport is the result of checking the x-kubernetes-validations of a schema:
// whether they compile, and what they can cost. It is plain data, so that packages
// without a CEL runtime can read it. Package schema/rules creates it.
type RuleReport struct {
	// Schemas are the schemas that have rules. Subschemas come before the schemas
	// around them.
	Schemas []SchemaRules
	// TotalCost is the sum of all estimates.
	TotalCost uint64
}

// SchemaRules are the rules of one schema.
type SchemaRules struct {
	Path SchemaPath
	// Err is the reason why the schema has no CEL type, or why no environment can be
	// created for its rules. If it is set, Rules is empty.
	Err error
	// NoType is true if Err is about the type.
	NoType bool
	// Unreachable is true if kube-apiserver never evaluates the rules, because a
	// schema around this one has no CEL type.
	Unreachable bool
	// Uncorrelatable is the outermost schema around this one whose values cannot be
	// matched with old values, so that no rule here may use oldSelf. It is nil if there
	// is none.
	Uncorrelatable *SchemaPath
	Rules          []CheckedRule
}

// CheckedRule is the result of checking one rule.
type CheckedRule struct {
	// Path leads to the schema of the rule, Index is its position there.
	Path  SchemaPath
	Index int
	// Source is the rule as written in the schema.
	Source api.ValidationRule
	// Err is the reason why the rule does not compile, MessageErr the reason why its
	// messageExpression does not.
	Err, MessageErr error
	// TooComplex and MessageTooComplex are set if that is because it would take too long to compile.
	TooComplex, MessageTooComplex bool
	// UsesOldSelf is true for a transition rule.
	UsesOldSelf bool
	// Unguarded are the optional fields that the rule reads although they can be absent, as
	// expressions such as self.a. It is set only if requested.
	Unguarded []string
	// Cost is the estimate for the rule, MessageCost for its messageExpression.
	Cost, MessageCost RuleCost
}

// ParsedRule is what the syntax of a rule tells.
type ParsedRule struct {
	// Canonical is the expression in a form that is the same for all rules that differ only
	// in white space, comments, quotes and redundant parentheses.
	Canonical string
	// UsesOldSelf is true for a transition rule.
	UsesOldSelf bool
}

// RuleCase is a rule, and what is known about the values that it is evaluated on: the value
// of the field at Path, if there is one, and those of Fields. All other fields are unknown.
type RuleCase struct {
	Rule api.ValidationRule
	// Schema is the schema of the rule. IsResource reports whether it describes a resource.
	Schema     *Structural
	IsResource bool
	// Path has the names of the fields that lead to the known one, which is the last. All
	// but the last are present.
	Path []string
	// Value is the value of the field, unless the field is absent.
	Value  any
	Absent bool
	// Fields has the values of fields of the object that the rule is evaluated on. Those of
	// absent fields are nil.
	Fields map[string]any
}

// Rules returns the rules of all schemas.
func (r *RuleReport) Rules() []*CheckedRule {
	var list []*CheckedRule
	for i := range r.Schemas {
		for j := range r.Schemas[i].Rules {
			list = append(list, &r.Schemas[i].Rules[j])
		}
	}
	return list
}

// Exceeded reports whether all rules together exceed SchemaCostLimit.
func (r *RuleReport) Exceeded() bool { return r.TotalCost > SchemaCostLimit }

// MostExpensive returns the four most expensive rules and messageExpressions among
// those that cost at least one percent of SchemaCostLimit.
func (r *RuleReport) MostExpensive() []RuleExpense {
	var list []RuleExpense
	for _, rule := range r.Rules() {
		for _, e := range []RuleExpense{
			{rule.Path, rule.Index, "rule", rule.Cost.Total},
			{rule.Path, rule.Index, "messageExpression", rule.MessageCost.Total},
		} {
			if e.Cost >= SchemaCostLimit/100 {
				list = append(list, e)
			}
		}
	}
	slices.SortStableFunc(list, func(a, b RuleExpense) int { return cmp.Compare(b.Cost, a.Cost) })
	return list[:min(len(list), 4)]
}

// FieldErrors returns kube-apiserver's errors about the rules of a schema at root,
// except those about their total cost. forgiveCosts omits errors about the cost of
// single rules, including that of compiling them, as kube-apiserver does on an update that does not change the schema.
func (r *RuleReport) FieldErrors(root *field.Path, forgiveCosts bool) field.ErrorList {
	var list field.ErrorList
	for i := range r.Schemas {
		list = append(list, r.Schemas[i].FieldErrors(root, forgiveCosts)...)
	}
	return list
}

// FieldErrors returns kube-apiserver's errors about the rules of one schema.
func (s *SchemaRules) FieldErrors(root *field.Path, forgiveCosts bool) field.ErrorList {
	path := s.Path.Field(root).Child("x-kubernetes-validations")
	if s.Err != nil {
		err := s.Err
		if s.NoType {
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
		if r.Err != nil && !(forgiveCosts && r.TooComplex) {
			list = append(list, field.Invalid(at.Child("rule"), shownRule(r.Source), r.Err.Error()))
		}
		if r.MessageErr != nil && !(forgiveCosts && r.MessageTooComplex) {
			list = append(list, field.Invalid(at.Child("messageExpression"), shownRule(r.Source), r.MessageErr.Error()))
		} else if r.MessageCost.Exceeded() && !forgiveCosts {
			list = append(list, field.Forbidden(at.Child("messageExpression"),
				overBudget("estimated messageExpression cost", r.MessageCost.Total, r.MessageCost.Limit)))
		}
		switch {
		case r.UsesOldSelf && s.Uncorrelatable != nil:
			list = append(list, field.Invalid(at.Child("rule"), r.Source.Rule,
				fmt.Sprintf("oldSelf cannot be used on the uncorrelatable portion of the schema within %v", s.Uncorrelatable.Field(root))))
		case !r.UsesOldSelf && r.Source.OptionalOldSelf != nil:
			list = append(list, field.Invalid(at.Child("optionalOldSelf"),
				*r.Source.OptionalOldSelf, "may not be set if oldSelf is not used in rule"))
		}
	}
	return list
}

// TotalErrors returns kube-apiserver's errors about the total cost of all rules.
func (r *RuleReport) TotalErrors(root *field.Path) field.ErrorList {
	if !r.Exceeded() {
		return nil
	}
	var list field.ErrorList
	for _, e := range r.MostExpensive() {
		list = append(list, field.Forbidden(e.Path.Field(root).Child("x-kubernetes-validations").Index(e.Index).Child(e.Keyword),
			"contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"))
	}
	return append(list, field.Forbidden(root,
		overBudget("x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema", r.TotalCost, SchemaCostLimit)))
}

// shownRule is a rule as kube-apiserver prints it: with the Go names of its fields.
type shownRule struct {
	Rule              string
	Message           string
	MessageExpression string
	Reason            *api.FieldValueErrorReason
	FieldPath         string
	OptionalOldSelf   *bool
}

// overBudget returns kube-apiserver's message about an excessive cost.
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
