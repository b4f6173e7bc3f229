// Package schema is the engine: it implements the meaning of the schemas in CRDs.
//
// [NewStructural] converts an [api.JSONSchemaProps] to a [Structural], which separates
// the structure of a value from its validation. [Compile] turns a Structural into a
// [Program], which is immutable and safe for concurrent use. A Program does to an object
// what the API server does:
//
//   - [Program.Decode] parses it and, in the same pass, prunes unspecified fields, drops
//     nulls that are not allowed, normalizes metadata and fills in defaults;
//   - [Program.Normalize] does the same to an object that is already parsed;
//   - [Program.IsNormal] reports whether Normalize would change nothing;
//   - [Program.Validate] validates it.
//
// A field is specified if the schema has it under properties, outside of the logical
// operators (allOf, anyOf, oneOf and not). Pruning removes the fields that are not
// specified. An object is normal for a Program if Normalize does not change it.
//
// Where the design documents and Kubernetes disagree about the meaning of a schema, the
// Program's [Semantics] decides.
package schema

// Object is a JSON object with integers as int64 and all other numbers as float64, like
// the unstructured objects of Kubernetes.
type Object = map[string]any
