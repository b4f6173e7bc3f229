// Package v1beta1 holds CustomResourceDefinitions as apiextensions.k8s.io/v1beta1
// has them, and converts them from and to the hub, package api.
//
// The types are those of Kubernetes 1.21, the last version to serve v1beta1, with
// three additions. spec.validation takes the draft-4 jsonSchema of 2017. Selectable
// fields and observed generations, which Kubernetes added to the types later, are
// here too, so that a v1 definition which is read and written as v1beta1 keeps
// them. What is the same in both versions is an alias of the type in package api.
//
// [ToV1] and [FromV1] convert. From v1beta1 to v1 and back nothing is lost, nor is
// it the other way round, as long as [CheckForm] has no complaint: only v1beta1 can
// say a thing for all versions and for one version at the same time, or give two
// answers to which version is the first, and v1 has room for one of them.
package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"espalier.dev/api"
)

const (
	// Version is the version of the types in this package.
	Version = "v1beta1"
	// APIVersion is what stands in apiVersion.
	APIVersion = api.GroupName + "/" + Version
)

// GroupVersion returns apiextensions.k8s.io/v1beta1.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: api.GroupName, Version: Version}
}

// What is the same in v1beta1 and v1.
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

// CustomResourceDefinition defines a resource that the server is to serve.
type CustomResourceDefinition struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what the author wants.
	Spec CustomResourceDefinitionSpec `json:"spec"`
	// Status is what the server makes of it.
	Status CustomResourceDefinitionStatus `json:"status,omitempty"`
}

// CustomResourceDefinitionList is a list of definitions.
type CustomResourceDefinitionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the definitions.
	Items []CustomResourceDefinition `json:"items"`
}

// CustomResourceDefinitionSpec is what the author of a definition wants. Schema,
// subresources, columns and selectable fields stand either here, for all versions,
// or with the versions.
type CustomResourceDefinitionSpec struct {
	// Group is the API group that the resource is served in.
	Group string `json:"group"`
	// Version is the name of the first version, or of the only one if Versions is
	// empty.
	Version string `json:"version,omitempty"`
	// Names are the names that the resource goes by.
	Names CustomResourceDefinitionNames `json:"names"`
	// Scope reports whether objects live in namespaces; Namespaced if absent.
	Scope ResourceScope `json:"scope"`
	// Validation is what objects of all versions look like.
	Validation *CustomResourceValidation `json:"validation,omitempty"`
	// Subresources are the subresources of all versions.
	Subresources *CustomResourceSubresources `json:"subresources,omitempty"`
	// Versions are the versions of the resource.
	Versions []CustomResourceDefinitionVersion `json:"versions,omitempty"`
	// AdditionalPrinterColumns are the columns of a table for all versions.
	AdditionalPrinterColumns []CustomResourceColumnDefinition `json:"additionalPrinterColumns,omitempty"`
	// SelectableFields are the fields that field selectors may use in all versions.
	SelectableFields []SelectableField `json:"selectableFields,omitempty"`
	// Conversion says how objects get from one version to another.
	Conversion *CustomResourceConversion `json:"conversion,omitempty"`
	// PreserveUnknownFields turns pruning off; true if absent.
	PreserveUnknownFields *bool `json:"preserveUnknownFields,omitempty"`
}

// CustomResourceValidation is what objects of all versions look like.
type CustomResourceValidation struct {
	// OpenAPIV3Schema is the schema for validation and pruning.
	OpenAPIV3Schema *JSONSchemaProps `json:"openAPIV3Schema,omitempty"`
	// JSONSchema is a schema of JSON Schema draft 4, the spelling of 2017. It only
	// validates, and fills in defaults.
	JSONSchema *JSONSchemaProps `json:"jsonSchema,omitempty"`
}

// CustomResourceDefinitionVersion is one version of a resource.
type CustomResourceDefinitionVersion struct {
	// Name is the version's name, such as v1 or v2beta1.
	Name string `json:"name"`
	// Served reports whether requests may use this version.
	Served bool `json:"served"`
	// Storage marks the version in which objects are stored: exactly one.
	Storage bool `json:"storage"`
	// Deprecated makes responses for this version carry a warning.
	Deprecated bool `json:"deprecated,omitempty"`
	// DeprecationWarning is the text of that warning, in place of the usual one.
	DeprecationWarning *string `json:"deprecationWarning,omitempty"`
	// Schema is what objects of this version look like.
	Schema *CustomResourceVersionSchema `json:"schema,omitempty"`
	// Subresources are the subresources served with this version.
	Subresources *CustomResourceSubresources `json:"subresources,omitempty"`
	// AdditionalPrinterColumns are the columns of a table beside the name.
	AdditionalPrinterColumns []CustomResourceColumnDefinition `json:"additionalPrinterColumns,omitempty"`
	// SelectableFields are the fields that field selectors may use.
	SelectableFields []SelectableField `json:"selectableFields,omitempty"`
}

// CustomResourceColumnDefinition is one column of a table. It differs from that of
// v1 in the spelling of JSONPath.
type CustomResourceColumnDefinition struct {
	// Name is the column's heading.
	Name string `json:"name"`
	// Type is the OpenAPI type of the column's values.
	Type string `json:"type"`
	// Format is the OpenAPI format of the column's values.
	Format string `json:"format,omitempty"`
	// Description says what the column means.
	Description string `json:"description,omitempty"`
	// Priority is above 0 for columns that may be left out where space is short.
	Priority int32 `json:"priority,omitempty"`
	// JSONPath is where in an object the value is.
	JSONPath string `json:"JSONPath"`
}

// CustomResourceConversion says how objects get from one version to another.
type CustomResourceConversion struct {
	// Strategy is the way it is done.
	Strategy ConversionStrategyType `json:"strategy"`
	// WebhookClientConfig says where the webhook is, with strategy Webhook.
	WebhookClientConfig *WebhookClientConfig `json:"webhookClientConfig,omitempty"`
	// ConversionReviewVersions are the versions of ConversionReview that the
	// webhook understands; v1beta1 if absent.
	ConversionReviewVersions []string `json:"conversionReviewVersions,omitempty"`
}
