// Package kinds describes Kubernetes' own kinds as data: namespaces, secrets, pods, deployments and
// all others that are stable. It needs no server.
//
// A [Resource] names a kind, and [Resources] lists them all. A [Scheme] has their Go types and
// conversions. What is done to an object before it is stored is in package kind, and in one
// package for each group of kinds; [Rules] finds it.
//
// Programs that import the package can admit objects of these kinds with package espalier: see
// [espalier.Kind].
package kinds
