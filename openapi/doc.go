// Package openapi builds OpenAPI documents: version 3, with one document for each group
// and version, and version 2, with one document for everything.
//
// A [Builder] builds the documents. [Builder.V3] and [Builder.V2] describe one version of
// a crd.Definition: the schemas of its objects and lists, and a path for every operation.
// [Builder.DefinitionsV3] and [Builder.DefinitionsV2] describe the resource
// CustomResourceDefinition itself, and [Builder.KindV3] and [Builder.KindV2] Kubernetes' own
// kinds. [MergeV3] and [MergeV2] merge documents.
//
// The published schema also expresses its x-kubernetes-* extensions in plain OpenAPI
// (schema.Structural.Unfold). For version 2 it is weakened to what version 2 can express
// (schema.Structural.WeakenForOpenAPIV2). A schema that is not structural is not
// published: the document then has objects without known fields. In the semantics
// schema.Kubernetes the documents equal those of kube-apiserver.
//
// The definitions of Go types have the structure of the types and the descriptions that their
// method SwaggerDoc returns. markers.json has the rest, which is only in their comments: list
// types, defaults, enums and which fields are required.
//
// The package does no I/O and has no global state. A Builder is safe for concurrent use.
// Documents share parts with it and with each other, and must not be changed.
package openapi
