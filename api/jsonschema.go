package api

// JSONSchemaProps is a schema as it stands in a CustomResourceDefinition.
//
// One type serves the three spellings there are: openAPIV3Schema of v1 and v1beta1,
// and the draft-4 jsonSchema of 2017. Which keywords a spelling may use is not
// this type's business; package schema and package crd check that.
type JSONSchemaProps struct {
	// ID names the schema, for others to refer to. Draft 4 only.
	ID string `json:"id,omitempty"`
	// Schema names the dialect that the schema is written in. Draft 4 only.
	Schema string `json:"$schema,omitempty"`
	// Ref refers to another schema. Draft 4 only.
	Ref *string `json:"$ref,omitempty"`
	// Description says what the value means.
	Description string `json:"description,omitempty"`
	// Type is object, array, string, integer, number or boolean.
	Type StringOrArray `json:"type,omitempty"`
	// Format narrows the type, such as date-time or int64. Unknown formats say
	// nothing.
	Format string `json:"format,omitempty"`
	// Title is a short name for the value.
	Title string `json:"title,omitempty"`
	// Default is filled in where the value is missing.
	Default *JSON `json:"default,omitempty"`

	// Maximum is the largest number that is valid.
	Maximum *float64 `json:"maximum,omitempty"`
	// ExclusiveMaximum makes Maximum itself invalid.
	ExclusiveMaximum bool `json:"exclusiveMaximum,omitempty"`
	// Minimum is the smallest number that is valid.
	Minimum *float64 `json:"minimum,omitempty"`
	// ExclusiveMinimum makes Minimum itself invalid.
	ExclusiveMinimum bool `json:"exclusiveMinimum,omitempty"`
	// MaxLength is the most characters that a string may have.
	MaxLength *int64 `json:"maxLength,omitempty"`
	// MinLength is the fewest characters that a string may have.
	MinLength *int64 `json:"minLength,omitempty"`
	// Pattern is a regular expression that a string must match somewhere.
	Pattern string `json:"pattern,omitempty"`
	// MaxItems is the most items that an array may have.
	MaxItems *int64 `json:"maxItems,omitempty"`
	// MinItems is the fewest items that an array may have.
	MinItems *int64 `json:"minItems,omitempty"`
	// UniqueItems says that no two items of an array may be equal.
	UniqueItems bool `json:"uniqueItems,omitempty"`
	// MultipleOf is what a number must be a multiple of.
	MultipleOf *float64 `json:"multipleOf,omitempty"`
	// Enum lists the values that are valid.
	Enum []JSON `json:"enum,omitempty"`
	// MaxProperties is the most fields that an object may have.
	MaxProperties *int64 `json:"maxProperties,omitempty"`
	// MinProperties is the fewest fields that an object may have.
	MinProperties *int64 `json:"minProperties,omitempty"`
	// Required names the fields that an object must have.
	Required []string `json:"required,omitempty"`

	// Items is the schema of the items of an array.
	Items *JSONSchemaPropsOrArray `json:"items,omitempty"`
	// AllOf are schemas that the value must satisfy, all of them.
	AllOf []JSONSchemaProps `json:"allOf,omitempty"`
	// OneOf are schemas of which the value must satisfy exactly one.
	OneOf []JSONSchemaProps `json:"oneOf,omitempty"`
	// AnyOf are schemas of which the value must satisfy one or more.
	AnyOf []JSONSchemaProps `json:"anyOf,omitempty"`
	// Not is a schema that the value must not satisfy.
	Not *JSONSchemaProps `json:"not,omitempty"`
	// Properties are the schemas of the fields of an object, by their names.
	Properties map[string]JSONSchemaProps `json:"properties,omitempty"`
	// AdditionalProperties is the schema of all fields of an object that serves as a
	// map; Properties has to be empty then.
	AdditionalProperties *JSONSchemaPropsOrBool `json:"additionalProperties,omitempty"`
	// PatternProperties are the schemas of fields by patterns for their names. Draft 4
	// only.
	PatternProperties map[string]JSONSchemaProps `json:"patternProperties,omitempty"`
	// Dependencies say what else an object must satisfy, or have, if it has a field.
	// Draft 4 only.
	Dependencies map[string]JSONSchemaPropsOrStringArray `json:"dependencies,omitempty"`
	// AdditionalItems is the schema of the items that Items, a list, says nothing
	// about. Draft 4 only.
	AdditionalItems *JSONSchemaPropsOrBool `json:"additionalItems,omitempty"`
	// Definitions are schemas for others to refer to. Draft 4 only.
	Definitions map[string]JSONSchemaProps `json:"definitions,omitempty"`

	// ExternalDocs points to documentation elsewhere.
	ExternalDocs *ExternalDocumentation `json:"externalDocs,omitempty"`
	// Example is a value that could be.
	Example *JSON `json:"example,omitempty"`
	// Nullable allows null beside the values of the type.
	Nullable bool `json:"nullable,omitempty"`

	// ReadOnly is a core keyword of structural schemas that Kubernetes never
	// took up. It is kept and published, nothing more.
	ReadOnly bool `json:"readOnly,omitempty"`

	// XPreserveUnknownFields stops pruning at this value and below, until the
	// schema specifies fields again. It may be true or absent, never false.
	XPreserveUnknownFields *bool `json:"x-kubernetes-preserve-unknown-fields,omitempty"`
	// XEmbeddedResource marks an object with apiVersion, kind and metadata of
	// its own, which are kept and validated as they are at the root.
	XEmbeddedResource bool `json:"x-kubernetes-embedded-resource,omitempty"`
	// XIntOrString marks a value that is either an integer or a string.
	XIntOrString bool `json:"x-kubernetes-int-or-string,omitempty"`
	// XListMapKeys names the fields that identify an item of a list of type map.
	XListMapKeys []string `json:"x-kubernetes-list-map-keys,omitempty"`
	// XListType is atomic, set or map.
	XListType *string `json:"x-kubernetes-list-type,omitempty"`
	// XMapType is granular or atomic.
	XMapType *string `json:"x-kubernetes-map-type,omitempty"`
	// XValidations are CEL rules.
	XValidations []ValidationRule `json:"x-kubernetes-validations,omitempty"`
	// XUnions lists sets of mutually exclusive fields. Kubernetes never took it up.
	XUnions []Union `json:"x-kubernetes-unions,omitempty"`
}

// Union is a set of fields of which exactly one is set.
type Union struct {
	// Discriminator is the name of the field that says which member is set.
	Discriminator string `json:"discriminator,omitempty"`
	// Fields maps each member to its value of the discriminator.
	Fields map[string]string `json:"fields,omitempty"`
}

// ValidationRule is one entry of x-kubernetes-validations.
type ValidationRule struct {
	// Rule is a CEL expression over self (and oldSelf, in a transition rule).
	Rule string `json:"rule"`
	// Message is what the user reads when the rule fails.
	Message string `json:"message,omitempty"`
	// MessageExpression is a CEL expression that gives the message; it goes before Message.
	MessageExpression string `json:"messageExpression,omitempty"`
	// Reason is the machine-readable reason of the failure; FieldValueInvalid if absent.
	Reason *FieldValueErrorReason `json:"reason,omitempty"`
	// FieldPath is the path, relative to the rule, that the failure is reported at.
	FieldPath string `json:"fieldPath,omitempty"`
	// OptionalOldSelf makes oldSelf an optional, so that a transition rule also runs on create.
	OptionalOldSelf *bool `json:"optionalOldSelf,omitempty"`
}

// FieldValueErrorReason is the reason that a failed ValidationRule reports.
type FieldValueErrorReason string

// The reasons a ValidationRule may give.
const (
	FieldValueRequired  FieldValueErrorReason = "FieldValueRequired"
	FieldValueDuplicate FieldValueErrorReason = "FieldValueDuplicate"
	FieldValueInvalid   FieldValueErrorReason = "FieldValueInvalid"
	FieldValueForbidden FieldValueErrorReason = "FieldValueForbidden"
)

// ExternalDocumentation points to documentation outside of the schema.
type ExternalDocumentation struct {
	// Description says what is there.
	Description string `json:"description,omitempty"`
	// URL is where it is.
	URL string `json:"url,omitempty"`
}

// JSON is any JSON value, kept as the bytes it was written in. The literal null
// is kept as no bytes.
type JSON struct {
	Raw []byte `json:"-"`
}

// StringOrArray is a string or a list of strings: draft 4 allows both for
// "type". A single string is written as a string.
type StringOrArray []string

// Single returns the one string there is, or "" if there is none or several.
func (s StringOrArray) Single() string {
	if len(s) == 1 {
		return s[0]
	}
	return ""
}

// JSONSchemaPropsOrArray is a schema or a list of schemas, never both.
type JSONSchemaPropsOrArray struct {
	Schema      *JSONSchemaProps
	JSONSchemas []JSONSchemaProps
}

// JSONSchemaPropsOrBool is a schema or a boolean. With a schema, Allows is true.
type JSONSchemaPropsOrBool struct {
	Allows bool
	Schema *JSONSchemaProps
}

// JSONSchemaPropsOrStringArray is a schema or a list of strings, never both.
type JSONSchemaPropsOrStringArray struct {
	Schema   *JSONSchemaProps
	Property []string
}
