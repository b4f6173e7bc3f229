// Package clients uses the server as controllers do, with the clients, informers and mappers of
// client-go and with typed clients for CRDs, and runs Kubernetes' sample-apiserver behind it: an
// extension server that knows the server only by its kubeconfig and the config map
// extension-apiserver-authentication.
package clients
