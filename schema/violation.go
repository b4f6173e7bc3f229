package schema

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Violation is a violation of a schema by an object. It is plain data; FieldErrors and
// Messages return texts.
type Violation struct {
	// Path leads to the invalid value or, for Required, to the missing field.
	Path Path
	Kind ViolationKind
	// Schema is the violated schema.
	Schema NodeRef
	// Value is the invalid value.
	Value any
	// Want is the requirement of the schema.
	Want Operand

	// Branches has the violations of each branch of a logical operator, in the order of
	// the schema. A branch that the value satisfies has none.
	Branches []Violations
	// Closest is the branch that came closest to being satisfied, for AnyOf and OneOf
	// if no branch is; otherwise it is -1.
	Closest int
	// Holding is the number of branches that the value satisfies.
	Holding int

	// Cause is Kubernetes' field error, for violations that are not of the schema
	// itself: Metadata, Scale, Rule and Builtin.
	Cause *field.Error

	// namesFrom is the number of steps of Path that kube-apiserver's messages omit.
	namesFrom int
}

// Operand is the operand of the violated keyword. The kind of the Violation determines
// which fields are set.
type Operand struct {
	// Types are the allowed types of WrongType. They are empty for a value that is not
	// a JSON value.
	Types []string
	// Format is the required format of WrongFormat.
	Format string
	// Allowed are the allowed values of Enum.
	Allowed []any
	// Limit is the number of characters, items or properties of MaxLength, MinLength,
	// MaxItems, MinItems, MaxProperties and MinProperties, and the length of the tuple
	// of AdditionalItems.
	Limit int64
	// Bound is the number of Maximum, Minimum, MultipleOf, FactorNotPositive and
	// BadOperand.
	Bound float64
	// Exclusive is true if Bound itself is excluded, for Maximum and Minimum.
	Exclusive bool
	// Of is the keyword that a BadOperand belongs to: Maximum, Minimum or MultipleOf.
	Of ViolationKind
	// Pattern is the regular expression of Pattern, and PatternErr the reason why it is
	// invalid, or why it cannot be applied to the value.
	Pattern    string
	PatternErr error
	// Name is the missing field that a Dependency requires, or the apiVersion or kind
	// that Metadata requires.
	Name string
	// Members are the members of the union of UnionMembers, and Set those that are set.
	Members, Set []string
	// Discriminator is the value that WrongDiscriminator requires because Member is
	// set.
	Discriminator, Member string
	// Rule is the CEL rule that failed. It is empty if the violation is not about a
	// specific rule.
	Rule string
	// UsesOldSelf is set if Rule compares the value with the old one, so that it is never tolerated.
	UsesOldSelf bool
}

// ViolationKind is the violated keyword, or another kind of violation.
type ViolationKind uint8

// The kinds of violations.
const (
	// WrongType is a value that has none of the allowed types.
	WrongType ViolationKind = iota
	// WrongFormat is a value that does not have the required format.
	WrongFormat
	Required
	Enum
	MaxLength
	MinLength
	Pattern
	Maximum
	Minimum
	MultipleOf
	// NumberRange is a number that its type and format cannot represent.
	NumberRange
	// BadOperand is a bound that the number type cannot represent: no number satisfies
	// it.
	BadOperand
	// FactorNotPositive is a multipleOf that is not positive: no number satisfies it.
	FactorNotPositive
	MaxItems
	MinItems
	UniqueItems
	MaxProperties
	MinProperties
	// ForbiddenField is a field that additionalProperties: false forbids.
	ForbiddenField
	AllOf
	AnyOf
	OneOf
	Not
	// DuplicateItem is a repeated item of a list of type set or map.
	DuplicateItem
	// NotAnObject is an item of a list of type map that is not an object.
	NotAnObject
	// Metadata is an apiVersion, kind or metadata that Kubernetes rejects.
	Metadata
	// UnionMembers is a union with no member set, or with more than one.
	UnionMembers
	// WrongDiscriminator is a discriminator that names another member.
	WrongDiscriminator
	// Scale is a value that is invalid for the scale subresource.
	Scale
	// Rule is a rule of x-kubernetes-validations that failed.
	Rule
	// RulesSkipped means that rules were not evaluated because of other violations.
	RulesSkipped
	// Dependency is a missing field that another field requires, in the draft-4
	// dialect.
	Dependency
	// AdditionalItems is an array that is longer than its tuple allows, in the draft-4
	// dialect.
	AdditionalItems
	// Builtin is a value that the rules of one of Kubernetes' own kinds reject.
	Builtin
)

// Violations are the violations of a schema by an object.
type Violations []Violation

// Truncated reports whether an object may have more violations than these: [Program.Validate] stops
// after MaxViolations, which includes those in the branches of logical operators. It is meaningless
// with [Exhaustive].
func (vs Violations) Truncated() bool { return vs.weight() >= MaxViolations }

// weight is what a violation counts: its text repeats its path and its operand.
func (v *Violation) weight() int {
	text := len(v.Want.Pattern)
	for i := range v.Path {
		text += len(v.Path[i].Key)
	}
	for _, allowed := range v.Want.Allowed {
		if s, ok := allowed.(string); ok {
			text += len(s)
		}
		if text > maxEnumText {
			break // messages have no more
		}
	}
	return 1 + len(v.Path)/32 + len(v.Want.Allowed)/100 + text/1000
}

// weight is what the violations count, including those in branches.
func (vs Violations) weight() (n int) {
	for i := range vs {
		n += vs[i].weight()
		for _, branch := range vs[i].Branches {
			n += branch.weight()
		}
	}
	return n
}

// MoreErrors is the error of an object whose violations are truncated.
func MoreErrors() *field.Error {
	return field.Invalid(nil, nil, "there may be more errors: correct the existing errors to complete validation")
}

// String returns the name of the kind.
func (k ViolationKind) String() string {
	names := [...]string{
		WrongType:          "wrong type",
		WrongFormat:        "wrong format",
		Required:           "required",
		Enum:               "enum",
		MaxLength:          "max length",
		MinLength:          "min length",
		Pattern:            "pattern",
		Maximum:            "maximum",
		Minimum:            "minimum",
		MultipleOf:         "multiple of",
		NumberRange:        "number range",
		BadOperand:         "bad operand",
		FactorNotPositive:  "factor not positive",
		MaxItems:           "max items",
		MinItems:           "min items",
		UniqueItems:        "unique items",
		MaxProperties:      "max properties",
		MinProperties:      "min properties",
		ForbiddenField:     "forbidden field",
		AllOf:              "all of",
		AnyOf:              "any of",
		OneOf:              "one of",
		Not:                "not",
		DuplicateItem:      "duplicate item",
		NotAnObject:        "not an object",
		Metadata:           "metadata",
		UnionMembers:       "union members",
		WrongDiscriminator: "wrong discriminator",
		Scale:              "scale",
		Rule:               "rule",
		RulesSkipped:       "rules skipped",
		Dependency:         "dependency",
		AdditionalItems:    "additional items",
		Builtin:            "built-in",
	}
	if int(k) >= len(names) {
		return "unknown"
	}
	return names[k]
}
