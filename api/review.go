package api

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// ConversionReview is the request to a conversion webhook, and its response.
type ConversionReview struct {
	metav1.TypeMeta `json:",inline"`
	// Request is the request of the API server.
	Request *ConversionRequest `json:"request,omitempty"`
	// Response is the response of the webhook.
	Response *ConversionResponse `json:"response,omitempty"`
}

// ConversionRequest requests the conversion of objects to another version.
type ConversionRequest struct {
	// UID identifies the request.
	UID types.UID `json:"uid"`
	// DesiredAPIVersion is the group and version to convert to.
	DesiredAPIVersion string `json:"desiredAPIVersion"`
	// Objects are the objects to convert.
	Objects []runtime.RawExtension `json:"objects"`
}

// ConversionResponse has the converted objects, or the reason of a failure.
type ConversionResponse struct {
	// UID is the UID of the request.
	UID types.UID `json:"uid"`
	// ConvertedObjects are the converted objects, in the number and order of the
	// request.
	ConvertedObjects []runtime.RawExtension `json:"convertedObjects"`
	// Result is the result of the conversion, and the reason of a failure.
	Result metav1.Status `json:"result"`
}
