package api

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The names of the resource CustomResourceDefinition.
const (
	// GroupName is the API group of CustomResourceDefinitions.
	GroupName = "apiextensions.k8s.io"
	// Version is the version of the types in this package.
	Version = "v1"
	// APIVersion is the apiVersion of objects.
	APIVersion = GroupName + "/" + Version
	// Kind is the kind of objects.
	Kind = "CustomResourceDefinition"
	// ListKind is the kind of lists.
	ListKind = "CustomResourceDefinitionList"
)

const (
	// KubeAPIApprovedAnnotation is required in the groups k8s.io, kubernetes.io and
	// their subdomains. Its value is the URL of the API's approval, or starts with
	// "unapproved".
	KubeAPIApprovedAnnotation = "api-approved.kubernetes.io"

	// JSONSchemaAnnotation holds in v1 the schema that v1beta1 has in
	// spec.validation.jsonSchema. See the package comment.
	JSONSchemaAnnotation = "espalier.dev/json-schema"

	// CustomResourceCleanupFinalizer delays the deletion of a CRD until its objects are
	// deleted.
	CustomResourceCleanupFinalizer = "customresourcecleanup.apiextensions.k8s.io"
)

// GroupVersion returns apiextensions.k8s.io/v1.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: GroupName, Version: Version}
}

// CustomResourceDefinition defines a resource that the API server serves. Its name is
// spec.names.plural, a dot, and spec.group.
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
type CustomResourceDefinitionSpec struct {
	// Group is the API group of the resource.
	Group string `json:"group"`
	// Names are the names of the resource.
	Names CustomResourceDefinitionNames `json:"names"`
	// Scope is Namespaced or Cluster.
	Scope ResourceScope `json:"scope"`
	// Versions are the versions of the resource. Discovery sorts them by name,
	// regardless of the order here.
	Versions []CustomResourceDefinitionVersion `json:"versions"`
	// Conversion configures the conversion between versions.
	Conversion *CustomResourceConversion `json:"conversion,omitempty"`
	// PreserveUnknownFields disables pruning. New CustomResourceDefinitions must leave
	// it false and use x-kubernetes-preserve-unknown-fields in the schema instead.
	PreserveUnknownFields bool `json:"preserveUnknownFields,omitempty"`
}

// CustomResourceDefinitionNames are the names of a resource.
type CustomResourceDefinitionNames struct {
	// Plural is the name of the resource in URLs, in lower case.
	Plural string `json:"plural"`
	// Singular is the singular name. The default is Kind in lower case.
	Singular string `json:"singular,omitempty"`
	// ShortNames are abbreviations for the command line.
	ShortNames []string `json:"shortNames,omitempty"`
	// Kind is the kind of the objects.
	Kind string `json:"kind"`
	// ListKind is the kind of lists. The default is Kind followed by "List".
	ListKind string `json:"listKind,omitempty"`
	// Categories are groups of resources that this one belongs to, such as "all".
	Categories []string `json:"categories,omitempty"`
}

// ResourceScope determines whether the objects of a resource are namespaced.
type ResourceScope string

// The two scopes.
const (
	ClusterScoped   ResourceScope = "Cluster"
	NamespaceScoped ResourceScope = "Namespaced"
)

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
	Schema *CustomResourceValidation `json:"schema,omitempty"`
	// Subresources are the subresources of this version.
	Subresources *CustomResourceSubresources `json:"subresources,omitempty"`
	// AdditionalPrinterColumns are the columns of tables, in addition to the name. If
	// there are none, tables show the age of objects.
	AdditionalPrinterColumns []CustomResourceColumnDefinition `json:"additionalPrinterColumns,omitempty"`
	// SelectableFields are the fields that field selectors can use.
	SelectableFields []SelectableField `json:"selectableFields,omitempty"`
}

// CustomResourceValidation has the schema of a version.
type CustomResourceValidation struct {
	// OpenAPIV3Schema is the schema for validation, pruning and defaulting.
	OpenAPIV3Schema *JSONSchemaProps `json:"openAPIV3Schema,omitempty"`
}

// SelectableField is a field that field selectors can use.
type SelectableField struct {
	// JSONPath is the path of a string, boolean or integer field outside of metadata,
	// without array notation.
	JSONPath string `json:"jsonPath"`
}

// CustomResourceColumnDefinition is a column of a table.
type CustomResourceColumnDefinition struct {
	// Name is the heading of the column.
	Name string `json:"name"`
	// Type is the OpenAPI type of the column's values.
	Type string `json:"type"`
	// Format is the OpenAPI format of the column's values. The format "name" marks the
	// column that identifies the object.
	Format string `json:"format,omitempty"`
	// Description describes the column.
	Description string `json:"description,omitempty"`
	// Priority is greater than 0 for columns that can be omitted if space is limited.
	Priority int32 `json:"priority,omitempty"`
	// JSONPath is the path of the value in an object.
	JSONPath string `json:"jsonPath"`
}

// CustomResourceSubresources are the subresources of a version.
type CustomResourceSubresources struct {
	// Status enables /status. Then only /status can change .status, and it changes
	// nothing else.
	Status *CustomResourceSubresourceStatus `json:"status,omitempty"`
	// Scale enables /scale, which serves an autoscaling/v1 Scale.
	Scale *CustomResourceSubresourceScale `json:"scale,omitempty"`
}

// CustomResourceSubresourceStatus enables /status. It has no fields.
type CustomResourceSubresourceStatus struct{}

// CustomResourceSubresourceScale has the paths of the fields of a Scale in an object,
// without array notation.
type CustomResourceSubresourceScale struct {
	// SpecReplicasPath is the path of spec.replicas. It must be under .spec.
	SpecReplicasPath string `json:"specReplicasPath"`
	// StatusReplicasPath is the path of status.replicas. It must be under .status. A
	// missing value counts as 0.
	StatusReplicasPath string `json:"statusReplicasPath"`
	// LabelSelectorPath is the path of status.selector, a label selector as a string.
	// It must be under .status or .spec. The HorizontalPodAutoscaler needs it.
	LabelSelectorPath *string `json:"labelSelectorPath,omitempty"`
}

// CustomResourceConversion configures the conversion between versions.
type CustomResourceConversion struct {
	// Strategy is how objects are converted: None or Webhook.
	Strategy ConversionStrategyType `json:"strategy"`
	// Webhook is the webhook to call, for strategy Webhook.
	Webhook *WebhookConversion `json:"webhook,omitempty"`
}

// ConversionStrategyType is how objects are converted.
type ConversionStrategyType string

// The conversion strategies.
const (
	// NoneConverter changes only apiVersion.
	NoneConverter ConversionStrategyType = "None"
	// WebhookConverter calls a webhook.
	WebhookConverter ConversionStrategyType = "Webhook"
)

// WebhookConversion configures a conversion webhook.
type WebhookConversion struct {
	// ClientConfig is the address of the webhook.
	ClientConfig *WebhookClientConfig `json:"clientConfig,omitempty"`
	// ConversionReviewVersions are the versions of ConversionReview that the webhook
	// supports. The API server uses the first one that it supports too.
	ConversionReviewVersions []string `json:"conversionReviewVersions"`
}

// WebhookClientConfig is the address of a webhook: a URL or a service, not both.
type WebhookClientConfig struct {
	// URL is an https URL without user, query or fragment.
	URL *string `json:"url,omitempty"`
	// Service is a service in the cluster.
	Service *ServiceReference `json:"service,omitempty"`
	// CABundle has the PEM-encoded CA certificates that verify the webhook's
	// certificate. The default is the system's.
	CABundle []byte `json:"caBundle,omitempty"`
}

// ServiceReference refers to a port and a path of a service.
type ServiceReference struct {
	// Namespace is the namespace of the service.
	Namespace string `json:"namespace"`
	// Name is the name of the service.
	Name string `json:"name"`
	// Path is the path of the URL.
	Path *string `json:"path,omitempty"`
	// Port is the port of the service. The default is 443.
	Port *int32 `json:"port,omitempty"`
}
