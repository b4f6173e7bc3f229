// Package rest is what the endpoints of all resources have in common, whether these are Kubernetes'
// own or defined by a CRD: on the handlers and the registry of k8s.io/apiserver, it adds what they
// lack.
package rest
