// Package schema is the engine: what a schema of a CustomResourceDefinition
// means, and what it does to an object.
//
// A schema arrives as [api.JSONSchemaProps] and becomes a [Structural], in which
// the shape of a value stands apart from the conditions on it. [Compile] turns a
// Structural into a [Program], which is immutable and safe for concurrent use.
// A Program does to an object what an API server does:
//
//   - [Program.Decode] parses it and, in the same pass, prunes the fields that the
//     schema does not specify, drops nulls where null is not allowed, brings
//     metadata into shape and fills in defaults;
//   - [Program.Normalize] does the same to an object that is a tree already;
//   - [Program.IsNormal] reports whether there would be anything to do;
//   - [Program.Validate] checks it.
//
// The terms: a field is specified if the schema has it under properties, outside
// of allOf, anyOf, oneOf and not (the logical operators). To prune is to remove the fields
// that are not specified. An object is normal for a Program if Normalize changes
// nothing in it.
//
// Where the design documents and Kubernetes read a schema differently, the
// Program's [Semantics] decides.
package schema

// Object is a JSON object, with integers as int64 and all other numbers as
// float64, as Kubernetes' unstructured objects have it.
type Object = map[string]any
