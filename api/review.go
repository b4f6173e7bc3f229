package api

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// ConversionReview is what the server and a conversion webhook send each other.
type ConversionReview struct {
	metav1.TypeMeta `json:",inline"`
	// Request is the server's question.
	Request *ConversionRequest `json:"request,omitempty"`
	// Response is the webhook's answer.
	Response *ConversionResponse `json:"response,omitempty"`
}

// ConversionRequest asks for objects in another version.
type ConversionRequest struct {
	// UID identifies this exchange.
	UID types.UID `json:"uid"`
	// DesiredAPIVersion is the group and version to convert to.
	DesiredAPIVersion string `json:"desiredAPIVersion"`
	// Objects are the objects to convert.
	Objects []runtime.RawExtension `json:"objects"`
}

// ConversionResponse gives the converted objects, or says why there are none.
type ConversionResponse struct {
	// UID is that of the request.
	UID types.UID `json:"uid"`
	// ConvertedObjects are the objects, as many and in the order of the request.
	ConvertedObjects []runtime.RawExtension `json:"convertedObjects"`
	// Result reports whether it worked, and the reason if not.
	Result metav1.Status `json:"result"`
}
