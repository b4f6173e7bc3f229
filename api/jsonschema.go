package api

// JSONSchemaProps is a schema as it stands in a CustomResourceDefinition. One
// type serves the three spellings there are: openAPIV3Schema of v1 and v1beta1,
// and the draft-4 jsonSchema of 2017. Which keywords a spelling may use is not
// this type's business; package schema and package crd check that.
type JSONSchemaProps struct {
	ID          string        `json:"id,omitempty"`
	Schema      string        `json:"$schema,omitempty"`
	Ref         *string       `json:"$ref,omitempty"`
	Description string        `json:"description,omitempty"`
	Type        StringOrArray `json:"type,omitempty"`
	Format      string        `json:"format,omitempty"`
	Title       string        `json:"title,omitempty"`
	Default     *JSON         `json:"default,omitempty"`

	Maximum          *float64 `json:"maximum,omitempty"`
	ExclusiveMaximum bool     `json:"exclusiveMaximum,omitempty"`
	Minimum          *float64 `json:"minimum,omitempty"`
	ExclusiveMinimum bool     `json:"exclusiveMinimum,omitempty"`
	MaxLength        *int64   `json:"maxLength,omitempty"`
	MinLength        *int64   `json:"minLength,omitempty"`
	Pattern          string   `json:"pattern,omitempty"`
	MaxItems         *int64   `json:"maxItems,omitempty"`
	MinItems         *int64   `json:"minItems,omitempty"`
	UniqueItems      bool     `json:"uniqueItems,omitempty"`
	MultipleOf       *float64 `json:"multipleOf,omitempty"`
	Enum             []JSON   `json:"enum,omitempty"`
	MaxProperties    *int64   `json:"maxProperties,omitempty"`
	MinProperties    *int64   `json:"minProperties,omitempty"`
	Required         []string `json:"required,omitempty"`

	Items                *JSONSchemaPropsOrArray                 `json:"items,omitempty"`
	AllOf                []JSONSchemaProps                       `json:"allOf,omitempty"`
	OneOf                []JSONSchemaProps                       `json:"oneOf,omitempty"`
	AnyOf                []JSONSchemaProps                       `json:"anyOf,omitempty"`
	Not                  *JSONSchemaProps                        `json:"not,omitempty"`
	Properties           map[string]JSONSchemaProps              `json:"properties,omitempty"`
	AdditionalProperties *JSONSchemaPropsOrBool                  `json:"additionalProperties,omitempty"`
	PatternProperties    map[string]JSONSchemaProps              `json:"patternProperties,omitempty"`
	Dependencies         map[string]JSONSchemaPropsOrStringArray `json:"dependencies,omitempty"`
	AdditionalItems      *JSONSchemaPropsOrBool                  `json:"additionalItems,omitempty"`
	Definitions          map[string]JSONSchemaProps              `json:"definitions,omitempty"`

	ExternalDocs *ExternalDocumentation `json:"externalDocs,omitempty"`
	Example      *JSON                  `json:"example,omitempty"`
	Nullable     bool                   `json:"nullable,omitempty"`

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
	Description string `json:"description,omitempty"`
	URL         string `json:"url,omitempty"`
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
