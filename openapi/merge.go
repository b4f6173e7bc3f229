package openapi

import (
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// MergeV3 merges documents, usually those of one group and version. If two documents
// have a path or a definition of the same name, the first one is used, so that a CRD
// cannot replace the definitions of another API. The documents are not changed.
func MergeV3(docs ...*spec3.OpenAPI) *spec3.OpenAPI {
	out := &spec3.OpenAPI{
		Version:    "3.0.0",
		Info:       info(),
		Paths:      &spec3.Paths{Paths: map[string]*spec3.Path{}},
		Components: &spec3.Components{Schemas: map[string]*spec.Schema{}},
	}
	for _, doc := range docs {
		if doc.Paths != nil {
			addMissing(out.Paths.Paths, doc.Paths.Paths)
		}
		if doc.Components != nil {
			addMissing(out.Components.Schemas, doc.Components.Schemas)
		}
	}
	return out
}

// MergeV2 merges OpenAPI v2 documents in the same way.
func MergeV2(docs ...*spec.Swagger) *spec.Swagger {
	out := &spec.Swagger{SwaggerProps: spec.SwaggerProps{
		Swagger:     "2.0",
		Info:        info(),
		Paths:       &spec.Paths{Paths: map[string]spec.PathItem{}},
		Definitions: spec.Definitions{},
		Parameters:  map[string]spec.Parameter{},
	}}
	for _, doc := range docs {
		if doc.Paths != nil {
			addMissing(out.Paths.Paths, doc.Paths.Paths)
		}
		addMissing(out.Definitions, doc.Definitions)
		addMissing(out.Parameters, doc.Parameters)
	}
	return out
}

func addMissing[V any](to, from map[string]V) {
	for name, v := range from {
		if _, ok := to[name]; !ok {
			to[name] = v
		}
	}
}
