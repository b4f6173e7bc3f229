package schema

import "espalier.dev/api"

// Structural is a schema in which the shape of a value (types, fields, items)
// stands apart from the conditions on it: whoever ignores ValueValidation has a
// weaker schema, but a right one. Every schema that a CustomResourceDefinition
// may hold can be written as a Structural and back without loss; the schemas
// whose Forbidden parts are empty are the structural ones (see Check).
type Structural struct {
	Items                *Structural
	Properties           map[string]*Structural
	AdditionalProperties *StructuralOrBool

	Generic
	Extensions
	ValidationExtensions

	ValueValidation *ValueValidation
}

// StructuralOrBool is a schema or a boolean. With a schema, Bool is true.
type StructuralOrBool struct {
	Structural *Structural
	Bool       bool
}

// Generic are the core keywords that are not about fields or items.
type Generic struct {
	Description string
	// Type is object, array, number, integer, boolean or string. It may be empty
	// only beside XPreserveUnknownFields or XIntOrString.
	Type         string
	Title        string
	Default      *JSON
	Nullable     bool
	ReadOnly     bool
	ExternalDocs *api.ExternalDocumentation
	Example      *JSON
}

// Extensions are the x-kubernetes-* keywords that shape a value.
type Extensions struct {
	// XPreserveUnknownFields stops pruning here and below, until fields are
	// specified again (see Semantics).
	XPreserveUnknownFields bool
	// XEmbeddedResource marks an object with apiVersion, kind and metadata.
	XEmbeddedResource bool
	// XIntOrString marks a value that is an integer or a string.
	XIntOrString bool
	XListMapKeys []string
	XListType    *string
	XMapType     *string
	XUnions      []api.Union
}

// ValidationExtensions are the x-kubernetes-* keywords that only validate.
type ValidationExtensions struct {
	XValidations []api.ValidationRule
}

// ValueValidation are the conditions on a value, beyond its shape.
type ValueValidation struct {
	Format           string
	Maximum          *float64
	ExclusiveMaximum bool
	Minimum          *float64
	ExclusiveMinimum bool
	MaxLength        *int64
	MinLength        *int64
	Pattern          string
	MaxItems         *int64
	MinItems         *int64
	UniqueItems      bool
	MultipleOf       *float64
	Enum             []JSON
	MaxProperties    *int64
	MinProperties    *int64
	Required         []string

	AllOf []NestedValueValidation
	OneOf []NestedValueValidation
	AnyOf []NestedValueValidation
	Not   *NestedValueValidation
}

// NestedValueValidation is a schema under allOf, anyOf, oneOf or not. Whatever
// is set in AdditionalProperties, ForbiddenGenerics or ForbiddenExtensions makes
// the schema around it non-structural, save for the patterns of XIntOrString.
type NestedValueValidation struct {
	ValueValidation
	ValidationExtensions

	Items                *NestedValueValidation
	Properties           map[string]*NestedValueValidation
	AdditionalProperties *NestedOrBool

	ForbiddenGenerics   Generic
	ForbiddenExtensions Extensions
}

// NestedOrBool is a nested schema or a boolean. With a schema, Bool is true.
type NestedOrBool struct {
	Nested *NestedValueValidation
	Bool   bool
}

// JSON is a JSON value in a schema, decoded: nil, bool, int64, float64, string,
// []any or map[string]any.
type JSON struct {
	Value any
}
