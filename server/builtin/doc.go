// Package builtin serves Kubernetes' own kinds: namespaces, secrets, pods, deployments and all
// others that are stable, as data. Nothing runs a pod here.
//
// A [Resource] names a kind; [resources] lists them all. What is done to its objects is in
// package kind, and in one package for each group of kinds. The endpoints of a resource are
// built when it is first requested, with the handlers and the registry of k8s.io/apiserver, on
// the store that custom resources use, too. Objects are stored as kube-apiserver stores them:
// the same keys, as protobuf.
package builtin
