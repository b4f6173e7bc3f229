// Package served describes resources as data: for discovery, OpenAPI and the request
// handler. Built-in and custom resources differ in their descriptions, not in the code that
// uses them.
package served

import (
	"slices"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"espalier.dev/crd"
	"espalier.dev/openapi"
)

// Description describes one version of a resource. Its names, scope and columns are those of
// the CRD.
type Description struct {
	*crd.Version
	// Verbs are the verbs of the resource, in the order of discovery.
	Verbs []string
	// PatchTypes are the media types of patches.
	PatchTypes []types.PatchType
	// Subresources are the endpoints below an object.
	Subresources []Subresource
	// Stored is the kind that is stored, if that is not the storage version of the CRD.
	Stored runtimeschema.GroupVersionKind
	// NotStored is set if objects are not stored at all.
	NotStored bool
	// OpenAPI documents the resource.
	OpenAPI OpenAPI
}

// Subresource is an endpoint below an object.
type Subresource struct {
	Name string
	// Kind is the kind of the objects that are read and written there.
	Kind  runtimeschema.GroupVersionKind
	Verbs []string
}

// OpenAPI builds the OpenAPI documents of one version of a resource.
type OpenAPI struct {
	V2 func(*openapi.Builder) (*spec.Swagger, error)
	V3 func(*openapi.Builder) (*spec3.OpenAPI, error)
	// MembersV2 and MembersV3 return what the documents have, encoded. They are nil if nothing is faster than
	// the documents, and so are their results.
	MembersV2, MembersV3 func(*openapi.Builder) (*openapi.Members, error)
	// GoTypes is set if all definitions are those of Go types: in the documents of all such
	// resources, definitions of the same name are equal.
	GoTypes bool
}

// Can reports whether the resource, or the named subresource, supports a verb.
func (d *Description) Can(verb, subresource string) bool {
	if subresource == "" {
		return slices.Contains(d.Verbs, verb)
	}
	s := d.Subresource(subresource)
	return s != nil && slices.Contains(s.Verbs, verb)
}

// Subresource returns the subresource with that name, or nil.
func (d *Description) Subresource(name string) *Subresource {
	i := slices.IndexFunc(d.Subresources, func(s Subresource) bool { return s.Name == name })
	if i < 0 {
		return nil
	}
	return &d.Subresources[i]
}

// Routes returns the paths of the resource, and their methods.
func (d *Description) Routes() Routes {
	return Routes{Namespaced: d.Definition().Namespaced(), Verbs: d.Verbs, Subresource: func(name string) []string {
		if s := d.Subresource(name); s != nil {
			return s.Verbs
		}
		return nil
	}}
}

// ScaleKind is the kind of the subresource scale.
func ScaleKind() runtimeschema.GroupVersionKind {
	return autoscalingv1.SchemeGroupVersion.WithKind("Scale")
}

// Describe describes one version of a custom resource.
func Describe(v *crd.Version) *Description {
	d := &Description{
		Version:    v,
		Verbs:      []string{"delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"},
		PatchTypes: []types.PatchType{types.JSONPatchType, types.MergePatchType, types.ApplyYAMLPatchType},
		OpenAPI: OpenAPI{
			V2: func(b *openapi.Builder) (*spec.Swagger, error) { return b.V2(v) },
			V3: func(b *openapi.Builder) (*spec3.OpenAPI, error) { return b.V3(v) },

			MembersV2: func(b *openapi.Builder) (*openapi.Members, error) { return b.MembersV2(v) },
			MembersV3: func(b *openapi.Builder) (*openapi.Members, error) { return b.MembersV3(v) },
		},
	}
	add := func(name string, kind runtimeschema.GroupVersionKind) {
		d.Subresources = append(d.Subresources, Subresource{Name: name, Kind: kind, Verbs: []string{"get", "patch", "update"}})
	}
	if sub := v.Spec().Subresources; sub != nil {
		if sub.Status != nil {
			add("status", v.GroupVersionKind())
		}
		if sub.Scale != nil {
			add("scale", ScaleKind())
		}
	}
	return d
}

// DescribeReadOnly describes one version of a resource whose objects can be read, but not
// written.
func DescribeReadOnly(v *crd.Version) *Description {
	d := &Description{Version: v, Verbs: []string{"get", "list"}}
	d.OpenAPI.V2 = func(b *openapi.Builder) (*spec.Swagger, error) {
		doc, err := b.V2(v)
		if err != nil {
			return nil, err
		}
		for path, item := range doc.Paths.Paths {
			if strings.Contains(path, "/watch/") {
				delete(doc.Paths.Paths, path)
				continue
			}
			item.Post, item.Put, item.Patch, item.Delete = nil, nil, nil, nil
			doc.Paths.Paths[path] = item
		}
		return doc, nil
	}
	d.OpenAPI.V3 = func(b *openapi.Builder) (*spec3.OpenAPI, error) {
		doc, err := b.V3(v)
		if err != nil {
			return nil, err
		}
		for path, item := range doc.Paths.Paths {
			if strings.Contains(path, "/watch/") {
				delete(doc.Paths.Paths, path)
				continue
			}
			item.Post, item.Put, item.Patch, item.Delete = nil, nil, nil, nil
		}
		return doc, nil
	}
	return d
}

// Advertised returns the verbs that discovery lists. While the CRD is being deleted, it has
// no verbs that create or change objects.
func (d *Description) Advertised() []string {
	if !d.Definition().Terminating() {
		return d.Verbs
	}
	return slices.DeleteFunc(slices.Clone(d.Verbs), func(verb string) bool {
		return verb == "create" || verb == "update" || verb == "patch"
	})
}
