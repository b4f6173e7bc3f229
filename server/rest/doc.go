// Package rest has what the endpoints of all resources share, whether these are Kubernetes' own kinds
// (package builtin), custom resources or CRDs (package custom).
//
// The handlers and the registry of k8s.io/apiserver implement most of REST. An Endpoint chooses the
// handler of a verb, and adds what k8s.io/apiserver lacks: limits for patches and metadata, lists that
// are written item by item in all formats, and the count of the work that a request leaves behind
// when it times out.
package rest
