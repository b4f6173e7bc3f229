// Package crd implements CRDs: their validation, what they define, and their status.
//
// [ValidateCreate] and [ValidateUpdate] validate a CRD that is written as v1,
// [ValidateCreateV1beta1] and [ValidateUpdateV1beta1] one that is written as v1beta1,
// which is more lenient in some respects and stricter in others. Errors have the paths,
// types and messages of kube-apiserver. [Superseded] finds spellings of earlier drafts in
// the JSON of a CRD, which the Go types do not have.
//
// [New] compiles a valid CRD to a [Definition]: its names and, for each version, the
// [schema.Program] that applies the schema to objects. A [Catalog] is an immutable set of
// Definitions with the lookups that a server needs. [Status] computes the status of a CRD
// from its old status, the CRD, and all other CRDs.
//
// The package does no I/O, reads no clock and has no global state. CEL rules are injected
// with [Options], so that programs without rules do not link a CEL runtime.
package crd
