// Package extension runs Kubernetes' sample-apiserver behind the server: an extension server that knows the
// server only by its kubeconfig and the config map extension-apiserver-authentication.
package extension
