package schema

import "espalier.dev/api"

// Structural is a schema that separates the structure of a value (types, fields, items)
// from its validation. Without ValueValidation it is a weaker, but still correct
// schema. Every schema that a CRD may contain can be converted to a Structural and back
// without loss. A schema is structural if its Forbidden parts are empty (see Check).
type Structural struct {
	Items                *Structural
	Properties           map[string]*Structural
	AdditionalProperties *StructuralOrBool

	Generic
	Extensions
	ValidationExtensions

	ValueValidation *ValueValidation
}

// StructuralOrBool is a schema or a boolean. If it is a schema, Bool is true.
type StructuralOrBool struct {
	Structural *Structural
	Bool       bool
}

// Generic has the core keywords that are not about fields or items.
type Generic struct {
	Description string
	// Type is object, array, number, integer, boolean or string. It may be empty only
	// with XPreserveUnknownFields or XIntOrString.
	Type         string
	Title        string
	Default      *JSON
	Nullable     bool
	ReadOnly     bool
	ExternalDocs *api.ExternalDocumentation
	Example      *JSON
}

// Extensions has the x-kubernetes-* keywords that affect the structure of a value.
type Extensions struct {
	// XPreserveUnknownFields stops pruning here and below, until fields are specified
	// again (see Semantics).
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

// ValidationExtensions has the x-kubernetes-* keywords that only validate.
type ValidationExtensions struct {
	XValidations []api.ValidationRule
}

// ValueValidation has the keywords that validate a value without specifying its
// structure.
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

// NestedValueValidation is a schema under allOf, anyOf, oneOf or not. If
// AdditionalProperties, ForbiddenGenerics or ForbiddenExtensions is set, the schema
// around it is not structural, except for the patterns of XIntOrString.
type NestedValueValidation struct {
	ValueValidation
	ValidationExtensions

	Items                *NestedValueValidation
	Properties           map[string]*NestedValueValidation
	AdditionalProperties *NestedOrBool

	ForbiddenGenerics   Generic
	ForbiddenExtensions Extensions
}

// NestedOrBool is a nested schema or a boolean. If it is a schema, Bool is true.
type NestedOrBool struct {
	Nested *NestedValueValidation
	Bool   bool
}

// JSON is a decoded JSON value in a schema: nil, bool, int64, float64, string, []any or
// map[string]any.
type JSON struct {
	Value any
}
