// Package v1beta1 has the wire types of apiextensions.k8s.io/v1beta1, and converts them
// from and to v1, package api.
//
// The types are those of Kubernetes 1.21, the last version to serve v1beta1, with three
// additions: the draft-4 jsonSchema of 2017 in spec.validation, and selectable fields and
// observed generations, which Kubernetes added to the v1 types later. With the latter two,
// a v1 CRD that is read and written as v1beta1 keeps them. Types that are the same in both
// versions are aliases of the types in package api.
//
// [ToV1] and [FromV1] convert without loss in both directions, provided that [CheckForm]
// returns no errors: only v1beta1 can set a value both for all versions and for one
// version, or have two names of the first version, and v1 can represent one of them.
package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"espalier.dev/api"
)

const (
	// Version is the version of the types in this package.
	Version = "v1beta1"
	// APIVersion is the apiVersion of objects.
	APIVersion = api.GroupName + "/" + Version
)

// GroupVersion returns apiextensions.k8s.io/v1beta1.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: api.GroupName, Version: Version}
}

// The types that are the same in v1beta1 and v1.
type (
	CustomResourceDefinitionNames  = api.CustomResourceDefinitionNames
	CustomResourceDefinitionStatus = api.CustomResourceDefinitionStatus
	CustomResourceSubresources     = api.CustomResourceSubresources
	CustomResourceVersionSchema    = api.CustomResourceValidation
	ConversionStrategyType         = api.ConversionStrategyType
	JSONSchemaProps                = api.JSONSchemaProps
	ResourceScope                  = api.ResourceScope
	SelectableField                = api.SelectableField
	WebhookClientConfig            = api.WebhookClientConfig
)

// CustomResourceDefinition defines a resource that the API server serves.
type CustomResourceDefinition struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the desired state.
	Spec CustomResourceDefinitionSpec `json:"spec"`
	// Status is the observed state.
	Status CustomResourceDefinitionStatus `json:"status,omitempty"`
}

// CustomResourceDefinitionList is a list of CustomResourceDefinitions.
type CustomResourceDefinitionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the CustomResourceDefinitions.
	Items []CustomResourceDefinition `json:"items"`
}

// CustomResourceDefinitionSpec is the desired state of a CustomResourceDefinition.
// Schema, subresources, columns and selectable fields are either here, for all
// versions, or in the versions.
type CustomResourceDefinitionSpec struct {
	// Group is the API group of the resource.
	Group string `json:"group"`
	// Version is the name of the first version, or of the only one if Versions is
	// empty.
	Version string `json:"version,omitempty"`
	// Names are the names of the resource.
	Names CustomResourceDefinitionNames `json:"names"`
	// Scope is Namespaced or Cluster. The default is Namespaced.
	Scope ResourceScope `json:"scope"`
	// Validation is the schema of objects of all versions.
	Validation *CustomResourceValidation `json:"validation,omitempty"`
	// Subresources are the subresources of all versions.
	Subresources *CustomResourceSubresources `json:"subresources,omitempty"`
	// Versions are the versions of the resource.
	Versions []CustomResourceDefinitionVersion `json:"versions,omitempty"`
	// AdditionalPrinterColumns are the columns of tables, for all versions.
	AdditionalPrinterColumns []CustomResourceColumnDefinition `json:"additionalPrinterColumns,omitempty"`
	// SelectableFields are the fields that field selectors can use, in all versions.
	SelectableFields []SelectableField `json:"selectableFields,omitempty"`
	// Conversion configures the conversion between versions.
	Conversion *CustomResourceConversion `json:"conversion,omitempty"`
	// PreserveUnknownFields disables pruning. The default is true.
	PreserveUnknownFields *bool `json:"preserveUnknownFields,omitempty"`
}

// CustomResourceValidation has the schema of objects of all versions.
type CustomResourceValidation struct {
	// OpenAPIV3Schema is the schema for validation and pruning.
	OpenAPIV3Schema *JSONSchemaProps `json:"openAPIV3Schema,omitempty"`
	// JSONSchema is a schema in JSON Schema draft 4, as proposed in 2017. It is used
	// for validation and defaulting, but not for pruning.
	JSONSchema *JSONSchemaProps `json:"jsonSchema,omitempty"`
}

// CustomResourceDefinitionVersion is one version of a resource.
type CustomResourceDefinitionVersion struct {
	// Name is the version's name, such as v1 or v2beta1.
	Name string `json:"name"`
	// Served enables the version in the API.
	Served bool `json:"served"`
	// Storage marks the storage version. Exactly one version must have it.
	Storage bool `json:"storage"`
	// Deprecated adds a warning to responses for this version.
	Deprecated bool `json:"deprecated,omitempty"`
	// DeprecationWarning replaces the default text of that warning.
	DeprecationWarning *string `json:"deprecationWarning,omitempty"`
	// Schema is the schema of objects of this version.
	Schema *CustomResourceVersionSchema `json:"schema,omitempty"`
	// Subresources are the subresources of this version.
	Subresources *CustomResourceSubresources `json:"subresources,omitempty"`
	// AdditionalPrinterColumns are the columns of tables, in addition to the name.
	AdditionalPrinterColumns []CustomResourceColumnDefinition `json:"additionalPrinterColumns,omitempty"`
	// SelectableFields are the fields that field selectors can use.
	SelectableFields []SelectableField `json:"selectableFields,omitempty"`
}

// CustomResourceColumnDefinition is a column of a table. It differs from that of v1 in
// the spelling of JSONPath.
type CustomResourceColumnDefinition struct {
	// Name is the heading of the column.
	Name string `json:"name"`
	// Type is the OpenAPI type of the column's values.
	Type string `json:"type"`
	// Format is the OpenAPI format of the column's values.
	Format string `json:"format,omitempty"`
	// Description describes the column.
	Description string `json:"description,omitempty"`
	// Priority is greater than 0 for columns that can be omitted if space is limited.
	Priority int32 `json:"priority,omitempty"`
	// JSONPath is the path of the value in an object.
	JSONPath string `json:"JSONPath"`
}

// CustomResourceConversion configures the conversion between versions.
type CustomResourceConversion struct {
	// Strategy is how objects are converted: None or Webhook.
	Strategy ConversionStrategyType `json:"strategy"`
	// WebhookClientConfig is the address of the webhook, for strategy Webhook.
	WebhookClientConfig *WebhookClientConfig `json:"webhookClientConfig,omitempty"`
	// ConversionReviewVersions are the versions of ConversionReview that the webhook
	// supports. The default is v1beta1.
	ConversionReviewVersions []string `json:"conversionReviewVersions,omitempty"`
}
