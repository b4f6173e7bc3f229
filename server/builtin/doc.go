// Package builtin serves Kubernetes' own kinds, which package kinds describes. Nothing runs a pod
// here.
//
// The endpoints of a resource are built when it is first requested, with the handlers and the
// registry of k8s.io/apiserver, on the store that custom resources use, too. Objects are stored as
// kube-apiserver stores them: the same keys, as protobuf.
package builtin
