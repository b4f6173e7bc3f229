package schema

import (
	"strconv"
	"strings"
)

const (
	// RuleCostLimit is the highest estimated cost that a rule may have, for all the
	// values that it can be evaluated on together.
	RuleCostLimit = uint64(10_000_000)
	// SchemaCostLimit is the highest estimated cost that all rules of a schema may have.
	SchemaCostLimit = uint64(100_000_000)
)

// RuleCost is an estimate: the highest cost that a rule can have for an object that
// fits into a request.
type RuleCost struct {
	// Call is the cost of one evaluation.
	Call uint64
	// Cardinality is how often an object can have the value that the rule is for.
	Cardinality uint64
	// MaxCardinality is how often the value fits into a request. It counts if
	// something around the value is unbounded.
	MaxCardinality uint64
	// Unbounded are the lists and maps around the value that have no bound, the
	// outermost first.
	Unbounded []SchemaPath
	// Total is Call for each of the values; Limit is the highest allowed Total.
	Total, Limit uint64
	// Remedies are the changes to the schema that would bring an estimate that is too
	// high below its limit, if they were asked for; each of them is enough. Those
	// that bound what is unbounded go before those that lower a bound, and those that
	// change one schema before those that change several. There is none if no bound
	// would help: then the rule itself has to be simpler.
	Remedies []RuleRemedy
}

// Exceeded reports whether the estimate is over the limit.
func (c RuleCost) Exceeded() bool { return c.Total > c.Limit }

// RuleBound is a limit on the size of a value.
type RuleBound struct {
	// Path leads to the schema, Keyword is maxItems, maxProperties or maxLength.
	Path    SchemaPath
	Keyword string
	// Max is the highest bound that suffices.
	Max int64
	// Present is the bound that the schema has now, or nil.
	Present *int64
}

// String returns the bound as .properties[a].maxItems: 10.
func (b RuleBound) String() string {
	return b.Path.String() + "." + b.Keyword + ": " + strconv.FormatInt(b.Max, 10)
}

// RuleRemedy is a set of bounds that, all set together, bring an estimate below its
// limit.
type RuleRemedy []RuleBound

// String returns the bounds, joined with "and".
func (r RuleRemedy) String() string {
	parts := make([]string, len(r))
	for i, b := range r {
		parts[i] = b.String()
	}
	return strings.Join(parts, " and ")
}

// RuleExpense is a part of the total cost of the rules of a schema.
type RuleExpense struct {
	// Path, Index and Keyword lead to the rule or messageExpression.
	Path    SchemaPath
	Index   int
	Keyword string
	Cost    uint64
}
