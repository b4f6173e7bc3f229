package schema

import (
	"strconv"
	"strings"
)

const (
	// RuleCostLimit is the highest estimated cost that a rule may have, summed over all
	// values on which it can be evaluated.
	RuleCostLimit = uint64(10_000_000)
	// SchemaCostLimit is the highest estimated cost that all rules of a schema may have
	// together.
	SchemaCostLimit = uint64(100_000_000)
)

// RuleCost is an estimate of the highest cost that a rule can have for an object that
// fits into a request.
type RuleCost struct {
	// Call is the cost of one evaluation.
	Call uint64
	// Cardinality is the number of values in an object on which the rule can be
	// evaluated.
	Cardinality uint64
	// MaxCardinality is the number of such values that fit into a request. It applies
	// if a list or map around the value is unbounded.
	MaxCardinality uint64
	// Unbounded lists the unbounded lists and maps around the value, the outermost
	// first.
	Unbounded []SchemaPath
	// Total is the cost for all values; Limit is the highest allowed Total.
	Total, Limit uint64
	// Remedies are alternative changes to the schema that bring an excessive estimate
	// below its limit, if they were requested. Those that add a bound come before those
	// that lower one, and those that change one schema before those that change
	// several. The list is empty if no bound helps: then the rule itself has to be
	// simplified.
	Remedies []RuleRemedy
}

// Exceeded reports whether the estimate is over the limit.
func (c RuleCost) Exceeded() bool { return c.Total > c.Limit }

// RuleBound is a limit on the size of a value.
type RuleBound struct {
	// Path leads to the schema. Keyword is maxItems, maxProperties or maxLength.
	Path    SchemaPath
	Keyword string
	// Max is the highest bound that suffices.
	Max int64
	// Present is the current bound, or nil.
	Present *int64
}

// String returns the bound as .properties[a].maxItems: 10.
func (b RuleBound) String() string {
	return b.Path.String() + "." + b.Keyword + ": " + strconv.FormatInt(b.Max, 10)
}

// RuleRemedy is a set of bounds that together bring an estimate below its limit.
type RuleRemedy []RuleBound

// String returns the bounds, joined with "and".
func (r RuleRemedy) String() string {
	parts := make([]string, len(r))
	for i, b := range r {
		parts[i] = b.String()
	}
	return strings.Join(parts, " and ")
}

// RuleExpense is the share of one expression in the total cost of the rules of a
// schema.
type RuleExpense struct {
	// Path, Index and Keyword lead to the rule or messageExpression.
	Path    SchemaPath
	Index   int
	Keyword string
	Cost    uint64
}
