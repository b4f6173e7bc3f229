// Package fix rewrites CustomResourceDefinitions: v1beta1 as v1, schemas that are
// not structural as structural ones, superseded spellings as what took their
// place, and whatever package lint knows how to fix.
//
// The rewritten definition accepts every object that the old one accepts, and keeps
// of it what the old one kept. Where v1 cannot say what the old definition
// said, it says less; where somebody has to choose, nothing is chosen. Both are told as
// findings.
//
// # What becomes of a schema
//
// A structural schema says outside of allOf, anyOf, oneOf and not (the logical operators) what a
// value looks like, and inside of them only conditions. The skeleton of a
// schema (see schema.Skeleton) has every field that is specified anywhere, the
// logical operators included. Those fields are what the rewritten schema specifies, so pruning
// keeps them. The skeleton also has types, but some that only hold for some objects:
// in {anyOf: [{properties: {a: {}}}, {properties: {b: {type: string}}}]} the field b may be a
// number as long as the first branch holds. So types are taken only where they
// follow: from the schema itself, from a part of an allOf, from all branches of an anyOf
// or oneOf, from the values of an enum. A value without such a type is
// left open: x-kubernetes-preserve-unknown-fields without a type takes any value.
//
// What then is left under the logical operators loses its types. Where the rest still
// means the same, because the type is stated outside, that is all. Otherwise the
// rest is weaker: it stays where weaker means that more is accepted, a
// oneOf becomes an anyOf, and a not is dropped.
//
// # Unknown fields
//
// In v1beta1, nothing is pruned unless preserveUnknownFields is false. In v1 the
// same is said by x-kubernetes-preserve-unknown-fields at the root and at every
// object below, as the pruning proposal describes, and that is what is written. Options.Prune
// asks for what Kubernetes recommends instead: to begin pruning, now that the schema is structural.
package fix
