package api

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Names of the resource that this package is about.
const (
	// GroupName is the API group of CustomResourceDefinitions.
	GroupName = "apiextensions.k8s.io"
	// Version is the version of the types in this package.
	Version = "v1"
	// APIVersion is what stands in apiVersion.
	APIVersion = GroupName + "/" + Version
	// Kind is what stands in kind.
	Kind = "CustomResourceDefinition"
	// ListKind is what stands in kind of a list.
	ListKind = "CustomResourceDefinitionList"
)

const (
	// KubeAPIApprovedAnnotation must be on a definition in k8s.io, kubernetes.io or
	// a group below. Its value is the URL of the API's approval, or starts with
	// "unapproved".
	KubeAPIApprovedAnnotation = "api-approved.kubernetes.io"

	// JSONSchemaAnnotation is where v1 keeps the schema that v1beta1 has in
	// spec.validation.jsonSchema. See the package comment.
	JSONSchemaAnnotation = "espalier.dev/json-schema"

	// CustomResourceCleanupFinalizer keeps a definition until its objects are gone.
	CustomResourceCleanupFinalizer = "customresourcecleanup.apiextensions.k8s.io"
)

// GroupVersion returns apiextensions.k8s.io/v1.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: GroupName, Version: Version}
}

// CustomResourceDefinition defines a resource that the server is to serve. Its
// name is spec.names.plural, a dot, and spec.group.
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

// CustomResourceDefinitionSpec is what the author of a definition wants.
type CustomResourceDefinitionSpec struct {
	// Group is the API group that the resource is served in.
	Group string `json:"group"`
	// Names are the names that the resource goes by.
	Names CustomResourceDefinitionNames `json:"names"`
	// Scope reports whether objects live in namespaces.
	Scope ResourceScope `json:"scope"`
	// Versions are the versions of the resource. The order in which discovery
	// lists them follows from their names, not from the order here.
	Versions []CustomResourceDefinitionVersion `json:"versions"`
	// Conversion says how objects get from one version to another.
	Conversion *CustomResourceConversion `json:"conversion,omitempty"`
	// PreserveUnknownFields turns pruning off. Definitions that were made as v1
	// leave it false and mark subtrees with x-kubernetes-preserve-unknown-fields.
	PreserveUnknownFields bool `json:"preserveUnknownFields,omitempty"`
}

// CustomResourceDefinitionNames are the names that a resource goes by.
type CustomResourceDefinitionNames struct {
	// Plural is the resource's name in URLs, in lower case.
	Plural string `json:"plural"`
	// Singular is the singular of Plural; Kind in lower case if absent.
	Singular string `json:"singular,omitempty"`
	// ShortNames are abbreviations for use on a command line.
	ShortNames []string `json:"shortNames,omitempty"`
	// Kind is what stands in the kind of an object.
	Kind string `json:"kind"`
	// ListKind is what stands in the kind of a list; Kind and "List" if absent.
	ListKind string `json:"listKind,omitempty"`
	// Categories are groups of resources, such as "all", that this one belongs to.
	Categories []string `json:"categories,omitempty"`
}

// ResourceScope reports whether the objects of a resource live in namespaces.
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
	// Served reports whether requests may use this version.
	Served bool `json:"served"`
	// Storage marks the version in which objects are stored: exactly one.
	Storage bool `json:"storage"`
	// Deprecated makes responses for this version carry a warning.
	Deprecated bool `json:"deprecated,omitempty"`
	// DeprecationWarning is the text of that warning, in place of the usual one.
	DeprecationWarning *string `json:"deprecationWarning,omitempty"`
	// Schema is what objects of this version look like.
	Schema *CustomResourceValidation `json:"schema,omitempty"`
	// Subresources are the subresources served with this version.
	Subresources *CustomResourceSubresources `json:"subresources,omitempty"`
	// AdditionalPrinterColumns are the columns of a table beside the name. With
	// none, there is one for the object's age.
	AdditionalPrinterColumns []CustomResourceColumnDefinition `json:"additionalPrinterColumns,omitempty"`
	// SelectableFields are the fields that field selectors may use.
	SelectableFields []SelectableField `json:"selectableFields,omitempty"`
}

// CustomResourceValidation holds the schema of a version.
type CustomResourceValidation struct {
	// OpenAPIV3Schema is the schema for validation, pruning and defaulting.
	OpenAPIV3Schema *JSONSchemaProps `json:"openAPIV3Schema,omitempty"`
}

// SelectableField names a field for use in field selectors.
type SelectableField struct {
	// JSONPath is the path of a string, boolean or integer field, without array
	// notation and outside of metadata.
	JSONPath string `json:"jsonPath"`
}

// CustomResourceColumnDefinition is one column of a table.
type CustomResourceColumnDefinition struct {
	// Name is the column's heading.
	Name string `json:"name"`
	// Type is the OpenAPI type of the column's values.
	Type string `json:"type"`
	// Format is the OpenAPI format of the column's values; "name" marks the column
	// that identifies the object.
	Format string `json:"format,omitempty"`
	// Description says what the column means.
	Description string `json:"description,omitempty"`
	// Priority is above 0 for columns that may be left out where space is short.
	Priority int32 `json:"priority,omitempty"`
	// JSONPath is where in an object the value is.
	JSONPath string `json:"jsonPath"`
}

// CustomResourceSubresources are the subresources of a version.
type CustomResourceSubresources struct {
	// Status turns /status on: from then on that is the only way to change .status,
	// and changes nothing else.
	Status *CustomResourceSubresourceStatus `json:"status,omitempty"`
	// Scale turns /scale on, which serves an autoscaling/v1 Scale.
	Scale *CustomResourceSubresourceScale `json:"scale,omitempty"`
}

// CustomResourceSubresourceStatus turns /status on. There is nothing to set.
type CustomResourceSubresourceStatus struct{}

// CustomResourceSubresourceScale says where in an object the fields of a Scale
// are. The paths have no array notation.
type CustomResourceSubresourceScale struct {
	// SpecReplicasPath is the path of spec.replicas, below .spec.
	SpecReplicasPath string `json:"specReplicasPath"`
	// StatusReplicasPath is the path of status.replicas, below .status. A missing
	// value reads as 0.
	StatusReplicasPath string `json:"statusReplicasPath"`
	// LabelSelectorPath is the path of status.selector, a label selector written as
	// a string, below .status or .spec. Autoscalers need it.
	LabelSelectorPath *string `json:"labelSelectorPath,omitempty"`
}

// CustomResourceConversion says how objects get from one version to another.
type CustomResourceConversion struct {
	// Strategy is the way it is done.
	Strategy ConversionStrategyType `json:"strategy"`
	// Webhook is the webhook to call, with strategy Webhook.
	Webhook *WebhookConversion `json:"webhook,omitempty"`
}

// ConversionStrategyType is a way to convert objects.
type ConversionStrategyType string

// The two ways to convert objects.
const (
	// NoneConverter changes apiVersion and nothing else.
	NoneConverter ConversionStrategyType = "None"
	// WebhookConverter asks a webhook.
	WebhookConverter ConversionStrategyType = "Webhook"
)

// WebhookConversion says how to call a conversion webhook.
type WebhookConversion struct {
	// ClientConfig says where the webhook is.
	ClientConfig *WebhookClientConfig `json:"clientConfig,omitempty"`
	// ConversionReviewVersions are the versions of ConversionReview that the
	// webhook understands. The first that the server knows too is used.
	ConversionReviewVersions []string `json:"conversionReviewVersions"`
}

// WebhookClientConfig says where a webhook is: at URL or behind Service, not both.
type WebhookClientConfig struct {
	// URL is an https URL without user, query or fragment.
	URL *string `json:"url,omitempty"`
	// Service is a service in the cluster.
	Service *ServiceReference `json:"service,omitempty"`
	// CABundle are PEM certificates to check the webhook's certificate against; the
	// system's if absent.
	CABundle []byte `json:"caBundle,omitempty"`
}

// ServiceReference names a service, and a port and path on it.
type ServiceReference struct {
	// Namespace is the service's namespace.
	Namespace string `json:"namespace"`
	// Name is the service's name.
	Name string `json:"name"`
	// Path is the path of the URL to call.
	Path *string `json:"path,omitempty"`
	// Port is the service's port; 443 if absent.
	Port *int32 `json:"port,omitempty"`
}
