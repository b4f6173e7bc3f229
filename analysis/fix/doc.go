// Package fix rewrites CustomResourceDefinitions: it converts v1beta1 to v1 and
// non-structural schemas to structural ones, replaces superseded spellings, and applies the
// fixes of package lint.
//
// The rewritten CRD accepts every object that the old one accepts, and preserves the same
// fields. Where v1 cannot express a condition, the new CRD is less strict. Where the author
// must decide, fix changes nothing. Both cases are reported as findings.
//
// # Structural schemas
//
// A structural schema describes the shape of a value outside of allOf, anyOf, oneOf and not
// (the logical operators), and uses these only for conditions. The skeleton of a schema
// (see schema.Skeleton) has every specified field, including those specified only below
// logical operators. The rewritten schema specifies all of these fields, so pruning keeps
// them. The skeleton also has types, but some of them apply only to some objects: in
// {anyOf: [{properties: {a: {}}}, {properties: {b: {type: string}}}]} the field b may be a
// number if the first branch accepts the object. So a type is used only if it follows for
// all objects: from the schema itself, from a part of an allOf, from all branches of an
// anyOf or oneOf, or from the values of an enum. A value without such a type gets
// x-kubernetes-preserve-unknown-fields without a type, which accepts any value.
//
// The conditions that remain below the logical operators lose their types. If the type is
// stated outside, the condition keeps its meaning. If not, the condition is weaker: it
// stays where weaker means that more objects are accepted, a oneOf becomes an anyOf, and a
// not is dropped.
//
// # Unknown fields
//
// v1beta1 prunes nothing unless preserveUnknownFields is false. To preserve this in v1, fix
// sets x-kubernetes-preserve-unknown-fields at the root and at every object below, as the
// pruning proposal describes. With Options.Prune, fix enables pruning instead, as
// Kubernetes recommends for structural schemas. Both set preserveUnknownFields to false,
// because kubectl apply keeps the true of a CRD that was created with v1beta1.
package fix
