// Package api has the wire types of CRDs.
//
// The types are those of apiextensions.k8s.io/v1 in Kubernetes 1.37, plus the schema
// keywords x-kubernetes-unions and readOnly. Version v1 is the hub: all other packages use
// these types, and package v1beta1 converts its own types from and to them. Package codec
// decodes and encodes both versions.
//
// # Differences between v1beta1 and v1
//
// Almost everything in v1beta1 has an equivalent in v1: a top-level schema, subresources,
// printer columns and selectable fields apply to every version, version is the name of the
// first version, and so on. The exception is the draft-4 schema of 2017,
// spec.validation.jsonSchema. In v1 it is the annotation [JSONSchemaAnnotation], whose
// value is the schema as JSON. It is an annotation and not a field because clients with
// Kubernetes' own v1 types drop unknown fields when they read, change and write an object,
// but keep annotations. [LegacySchema] and [SetLegacySchema] read and write it. Like all
// annotations, it counts towards Kubernetes' limit of 256 KiB for the annotations of an
// object.
//
// # Encoding
//
// Decoding is case-sensitive and drops unknown fields. Encoding omits empty values of
// optional fields: null, false, "", and empty lists and maps. A type that is a list of one
// string is written as that string. Everything else is preserved. Defaults, examples and
// enum values are kept as bytes, so that numbers do not lose precision.
package api
