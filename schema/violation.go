package schema

import "k8s.io/apimachinery/pkg/util/validation/field"

// Violation is one way in which an object breaks its schema, as data. How it reads
// is the business of FieldErrors and Messages.
type Violation struct {
	// Path leads to the offending value; for Required to the missing field.
	Path Path
	Kind ViolationKind
	// Schema is the schema that is broken.
	Schema NodeRef
	// Value is the offending value.
	Value any
	// Want is what the schema asks for.
	Want Operand

	// Branches are the violations of each branch of a logical operator, in the order of
	// the schema; a branch that holds has none.
	Branches []Violations
	// Closest is the branch that came closest to holding, for AnyOf and OneOf when
	// none does, otherwise -1.
	Closest int
	// Holding is the number of branches that hold.
	Holding int

	// Cause is how Kubernetes reports it, for what the schema itself says nothing
	// about: Metadata, Scale and Rule.
	Cause *field.Error

	// namesFrom is the number of steps of Path that kube-apiserver's messages leave out.
	namesFrom int
}

// Operand is the operand of the keyword that is broken. The kind of a Violation decides
// which fields are set.
type Operand struct {
	// Types are the allowed types of WrongType. There are none for a value that JSON
	// does not have.
	Types []string
	// Format is that of WrongFormat.
	Format string
	// Allowed are the values of Enum.
	Allowed []any
	// Limit is the number of characters, items or properties of MaxLength, MinLength,
	// MaxItems, MinItems, MaxProperties and MinProperties, and the length of the tuple
	// of AdditionalItems.
	Limit int64
	// Bound is that of Maximum, Minimum, MultipleOf, FactorNotPositive and BadOperand.
	Bound float64
	// Exclusive tells that Bound itself is excluded, for Maximum and Minimum.
	Exclusive bool
	// Of is the keyword that a BadOperand belongs to: Maximum, Minimum or MultipleOf.
	Of ViolationKind
	// Pattern is that of Pattern, and PatternErr why it is no regular expression.
	Pattern    string
	PatternErr error
	// Name is the missing field that a Dependency requires, and the apiVersion or kind
	// that Metadata must have.
	Name string
	// Members are those of the union of UnionMembers, and Set those that are set.
	Members, Set []string
	// Discriminator is the value that WrongDiscriminator asks for, because Member is
	// set.
	Discriminator, Member string
	// Rule is the rule in CEL that does not hold. It is empty if no rule in particular
	// is at fault.
	Rule string
}

// ViolationKind is the keyword that is broken, or what else is wrong.
type ViolationKind uint8

// What can be wrong with a value.
const (
	// WrongType is a value of none of the allowed types.
	WrongType ViolationKind = iota
	// WrongFormat is a value that cannot have the format, or a string that does not.
	WrongFormat
	Required
	Enum
	MaxLength
	MinLength
	Pattern
	Maximum
	Minimum
	MultipleOf
	// NumberRange is a number that its type and format cannot hold.
	NumberRange
	// BadOperand is a bound that the number type cannot hold: no number satisfies it.
	BadOperand
	// FactorNotPositive is a multipleOf that no number satisfies.
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
	// DuplicateItem is an item of a set, or of a map, that is there already.
	DuplicateItem
	// NotAnObject is an item of a list of type map that is not an object.
	NotAnObject
	// Metadata is an apiVersion, kind or metadata that Kubernetes does not take.
	Metadata
	// UnionMembers is a union of which not exactly one member is set.
	UnionMembers
	// WrongDiscriminator is a discriminator that names another member.
	WrongDiscriminator
	// Scale is a value that the scale subresource cannot use.
	Scale
	// Rule is a rule of x-kubernetes-validations that does not hold.
	Rule
	// RulesSkipped says that rules were not evaluated, because of what else is wrong.
	RulesSkipped
	// Dependency is a field that another one needs, in the draft-4 dialect.
	Dependency
	// AdditionalItems is an array that is longer than its tuple allows, in the
	// draft-4 dialect.
	AdditionalItems
)

// Violations are the ways in which an object breaks its schema.
type Violations []Violation

// String names the kind.
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
	}
	if int(k) >= len(names) {
		return "unknown"
	}
	return names[k]
}
