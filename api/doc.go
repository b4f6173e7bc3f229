// Package api holds the wire types of CustomResourceDefinitions.
//
// The types of this package are those of apiextensions.k8s.io/v1, field by field
// as Kubernetes 1.37 has them, plus the schema keywords x-kubernetes-unions and
// readOnly. Version v1 is the hub: everything inside works on these types, and
// package v1beta1 converts its own types from and to them. Package codec reads and
// writes both versions.
//
// # What v1beta1 has and v1 has not
//
// Nearly everything that only v1beta1 can say has a place in v1: a top-level
// schema, subresources, printer columns and selectable fields are those of every
// version, version is the name of the first version, and so on. The exception is
// the draft-4 schema of 2017, spec.validation.jsonSchema. In v1 it is the
// annotation [JSONSchemaAnnotation], whose value is the schema as JSON. An
// annotation, and not a field, because clients that know only Kubernetes' own v1
// types drop fields they do not know when they read, change and write an object,
// but keep annotations. [LegacySchema] and [SetLegacySchema] read and write it.
// Like all annotations it counts towards the limit of 256 KiB that Kubernetes puts
// on the annotations of an object.
//
// # What is kept of a schema
//
// Decoding is case-sensitive and drops fields that the types do not have. Encoding
// leaves out what says nothing: null, false, "", and empty lists and maps of
// optional fields. A type that is a list of one string is written as that string.
// Everything else comes out as it went in. Of a default, an example and the values
// of an enum the bytes are kept, so numbers in there lose no digit.
package api
