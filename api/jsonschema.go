package api

// JSONSchemaProps is a JSON schema in a CustomResourceDefinition.
//
// The type is used for openAPIV3Schema of v1 and v1beta1, and for the draft-4 jsonSchema
// of 2017. Packages schema and crd check which keywords each of them may use.
type JSONSchemaProps struct {
	// ID is a name that other schemas can refer to. Draft 4 only.
	ID string `json:"id,omitempty"`
	// Schema is the dialect of the schema. Draft 4 only.
	Schema string `json:"$schema,omitempty"`
	// Ref is a reference to another schema. Draft 4 only.
	Ref *string `json:"$ref,omitempty"`
	// Description describes the value.
	Description string `json:"description,omitempty"`
	// Type is object, array, string, integer, number or boolean.
	Type StringOrArray `json:"type,omitempty"`
	// Format restricts the type, for example date-time or int64. Unknown formats are
	// ignored.
	Format string `json:"format,omitempty"`
	// Title is a short name of the value.
	Title string `json:"title,omitempty"`
	// Default is the value that is filled in if the value is missing.
	Default *JSON `json:"default,omitempty"`

	// Maximum is the largest valid number.
	Maximum *float64 `json:"maximum,omitempty"`
	// ExclusiveMaximum excludes Maximum itself.
	ExclusiveMaximum bool `json:"exclusiveMaximum,omitempty"`
	// Minimum is the smallest valid number.
	Minimum *float64 `json:"minimum,omitempty"`
	// ExclusiveMinimum excludes Minimum itself.
	ExclusiveMinimum bool `json:"exclusiveMinimum,omitempty"`
	// MaxLength is the maximum number of characters in a string.
	MaxLength *int64 `json:"maxLength,omitempty"`
	// MinLength is the minimum number of characters in a string.
	MinLength *int64 `json:"minLength,omitempty"`
	// Pattern is a regular expression that a string must match. It is not anchored.
	Pattern string `json:"pattern,omitempty"`
	// MaxItems is the maximum number of items in an array.
	MaxItems *int64 `json:"maxItems,omitempty"`
	// MinItems is the minimum number of items in an array.
	MinItems *int64 `json:"minItems,omitempty"`
	// UniqueItems requires that no two items of an array are equal.
	UniqueItems bool `json:"uniqueItems,omitempty"`
	// MultipleOf requires a number to be a multiple of this one.
	MultipleOf *float64 `json:"multipleOf,omitempty"`
	// Enum lists the valid values.
	Enum []JSON `json:"enum,omitempty"`
	// MaxProperties is the maximum number of fields in an object.
	MaxProperties *int64 `json:"maxProperties,omitempty"`
	// MinProperties is the minimum number of fields in an object.
	MinProperties *int64 `json:"minProperties,omitempty"`
	// Required lists the fields that an object must have.
	Required []string `json:"required,omitempty"`

	// Items is the schema of the items of an array.
	Items *JSONSchemaPropsOrArray `json:"items,omitempty"`
	// AllOf lists schemas, all of which the value must satisfy.
	AllOf []JSONSchemaProps `json:"allOf,omitempty"`
	// OneOf lists schemas, exactly one of which the value must satisfy.
	OneOf []JSONSchemaProps `json:"oneOf,omitempty"`
	// AnyOf lists schemas, at least one of which the value must satisfy.
	AnyOf []JSONSchemaProps `json:"anyOf,omitempty"`
	// Not is a schema that the value must not satisfy.
	Not *JSONSchemaProps `json:"not,omitempty"`
	// Properties are the schemas of the fields of an object, by name.
	Properties map[string]JSONSchemaProps `json:"properties,omitempty"`
	// AdditionalProperties is the schema of the values of a map, an object with
	// arbitrary keys. It cannot be combined with Properties.
	AdditionalProperties *JSONSchemaPropsOrBool `json:"additionalProperties,omitempty"`
	// PatternProperties are the schemas of fields whose names match a pattern. Draft 4
	// only.
	PatternProperties map[string]JSONSchemaProps `json:"patternProperties,omitempty"`
	// Dependencies are additional requirements for objects that have a field: a schema
	// or a list of required fields. Draft 4 only.
	Dependencies map[string]JSONSchemaPropsOrStringArray `json:"dependencies,omitempty"`
	// AdditionalItems is the schema of the items after those in Items, if Items is a
	// list. Draft 4 only.
	AdditionalItems *JSONSchemaPropsOrBool `json:"additionalItems,omitempty"`
	// Definitions are schemas that other schemas can refer to. Draft 4 only.
	Definitions map[string]JSONSchemaProps `json:"definitions,omitempty"`

	// ExternalDocs refers to external documentation.
	ExternalDocs *ExternalDocumentation `json:"externalDocs,omitempty"`
	// Example is an example of a value.
	Example *JSON `json:"example,omitempty"`
	// Nullable allows null in addition to values of the type.
	Nullable bool `json:"nullable,omitempty"`

	// ReadOnly is a keyword of structural schemas that Kubernetes does not implement.
	// It is stored and published, but not enforced.
	ReadOnly bool `json:"readOnly,omitempty"`

	// XPreserveUnknownFields stops pruning at this value and below, until the schema
	// specifies fields again. It must be true or absent.
	XPreserveUnknownFields *bool `json:"x-kubernetes-preserve-unknown-fields,omitempty"`
	// XEmbeddedResource marks an object with its own apiVersion, kind and metadata,
	// which are preserved and validated like those of the root.
	XEmbeddedResource bool `json:"x-kubernetes-embedded-resource,omitempty"`
	// XIntOrString marks a value that is either an integer or a string.
	XIntOrString bool `json:"x-kubernetes-int-or-string,omitempty"`
	// XListMapKeys are the fields that identify an item of a list of type map.
	XListMapKeys []string `json:"x-kubernetes-list-map-keys,omitempty"`
	// XListType is atomic, set or map.
	XListType *string `json:"x-kubernetes-list-type,omitempty"`
	// XMapType is granular or atomic.
	XMapType *string `json:"x-kubernetes-map-type,omitempty"`
	// XValidations are CEL rules.
	XValidations []ValidationRule `json:"x-kubernetes-validations,omitempty"`
	// XUnions lists sets of mutually exclusive fields. Kubernetes does not implement
	// it.
	XUnions []Union `json:"x-kubernetes-unions,omitempty"`
}

// Union is a set of fields, exactly one of which must be set.
type Union struct {
	// Discriminator is the name of the field that identifies the member that is set.
	Discriminator string `json:"discriminator,omitempty"`
	// Fields maps each member to its discriminator value.
	Fields map[string]string `json:"fields,omitempty"`
}

// ValidationRule is one entry of x-kubernetes-validations.
type ValidationRule struct {
	// Rule is a CEL expression over self (and oldSelf, in a transition rule).
	Rule string `json:"rule"`
	// Message is the error message if the rule fails.
	Message string `json:"message,omitempty"`
	// MessageExpression is a CEL expression that returns the message. It takes
	// precedence over Message.
	MessageExpression string `json:"messageExpression,omitempty"`
	// Reason is the machine-readable reason of a failure. The default is
	// FieldValueInvalid.
	Reason *FieldValueErrorReason `json:"reason,omitempty"`
	// FieldPath is the path, relative to the value of the rule, at which a failure is
	// reported.
	FieldPath string `json:"fieldPath,omitempty"`
	// OptionalOldSelf makes oldSelf an optional value, so that a transition rule is
	// also evaluated on create.
	OptionalOldSelf *bool `json:"optionalOldSelf,omitempty"`
}

// FieldValueErrorReason is the reason of a failed ValidationRule.
type FieldValueErrorReason string

// The allowed reasons of a ValidationRule.
const (
	FieldValueRequired  FieldValueErrorReason = "FieldValueRequired"
	FieldValueDuplicate FieldValueErrorReason = "FieldValueDuplicate"
	FieldValueInvalid   FieldValueErrorReason = "FieldValueInvalid"
	FieldValueForbidden FieldValueErrorReason = "FieldValueForbidden"
)

// ExternalDocumentation refers to documentation outside of the schema.
type ExternalDocumentation struct {
	// Description describes the documentation.
	Description string `json:"description,omitempty"`
	// URL is the address of the documentation.
	URL string `json:"url,omitempty"`
}

// JSON is any JSON value, stored as its original bytes. The literal null is stored as
// no bytes.
type JSON struct {
	Raw []byte `json:"-"`
}

// StringOrArray is a string or a list of strings: draft 4 allows both for
// "type". A single string is written as a string.
type StringOrArray []string

// Single returns the string if there is exactly one, and "" otherwise.
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

// JSONSchemaPropsOrBool is a schema or a boolean. If it is a schema, Allows is true.
type JSONSchemaPropsOrBool struct {
	Allows bool
	Schema *JSONSchemaProps
}

// JSONSchemaPropsOrStringArray is a schema or a list of strings, never both.
type JSONSchemaPropsOrStringArray struct {
	Schema   *JSONSchemaProps
	Property []string
}
