// Package v2 has the types of shops, version v2.
// +kubebuilder:object:generate=true
// +groupName=store.example.com
package v2

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/scheme"
)

var (
	// GroupVersion is the version of the types.
	GroupVersion = schema.GroupVersion{Group: "store.example.com", Version: "v2"}
	// SchemeBuilder adds the types to a scheme.
	SchemeBuilder = &scheme.Builder{GroupVersion: GroupVersion}
	// AddToScheme adds the types to a scheme.
	AddToScheme = SchemeBuilder.AddToScheme
)
