// Package crd is what a CustomResourceDefinition means: whether it is valid, what
// it defines, and what its status says.
//
// [ValidateCreate] and [ValidateUpdate] judge a definition that somebody wants to
// write, as v1; [ValidateCreateV1beta1] and [ValidateUpdateV1beta1] do so as
// v1beta1, which is more lenient here and stricter there. Errors have the paths,
// types and texts that kube-apiserver gives. [Superseded] looks in the bytes of a
// definition for spellings that the types do not even have.
//
// [New] compiles a valid definition into a [Definition]: its names and, for each
// version, the [schema.Program] that does to an object what the version's schema
// says. A [Catalog] is an immutable set of Definitions with the lookups that a
// server needs. [Status] computes what the status of a definition should be from
// what it was, the definition, and the other definitions.
//
// Everything here is pure: no I/O, no clock, no global state. Rules in CEL come in
// through [Options], so that whoever has none does without a CEL runtime.
package crd
