// Package openapi describes what a server serves in OpenAPI, as documents of
// version 3, one for each group and version, and of version 2, one for everything.
//
// A [Builder] makes the documents. [Builder.V3] and [Builder.V2] describe one
// version of a crd.Definition: the schema of its objects and lists, and a path for
// everything that one can do to them. [Builder.DefinitionsV3] and
// [Builder.DefinitionsV2] describe the resource CustomResourceDefinition itself.
// [MergeV3] and [MergeV2] put documents together.
//
// What is published is the schema with its x-kubernetes-* extensions spelled out
// (schema.Structural.Unfold) and, for version 2, weakened to what that can say
// (schema.Structural.WeakenForOpenAPIV2). A schema that is not structural is
// withheld: the document then says that objects are objects, and nothing else. In
// the semantics schema.Kubernetes the documents are those of kube-apiserver.
//
// Everything here is pure: no I/O and no global state. A Builder is safe for
// concurrent use, and documents share parts with it and with each other: they are
// not to be changed.
package openapi
