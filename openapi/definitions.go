package openapi

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"espalier.dev/crd"
)

// definitions returns the definitions of the objects and lists of a version, with or without defaults.
func (b *Builder) definitions(v *crd.Version, r *resource, v2, defaults bool) (map[string]common.OpenAPIDefinition, error) {
	prefix, shared := prefixV3, b.v3
	if v2 {
		prefix, shared = prefixV2, b.v2
	}
	typeMeta := shared[metav1.TypeMeta{}.OpenAPIModelName()].Schema.Properties
	object, err := objectSchema(v, prefix, typeMeta, v2, defaults)
	if err != nil {
		return nil, err
	}
	list := listSchema(r, prefix, typeMeta)
	for _, s := range []*spec.Schema{object, list} {
		if fields := selectableFields(v); fields != nil {
			s.AddExtension("x-kubernetes-selectable-fields", fields)
		}
	}
	return map[string]common.OpenAPIDefinition{
		r.object: {Schema: *object, Dependencies: []string{metav1.ObjectMeta{}.OpenAPIModelName()}},
		r.list:   {Schema: *list, Dependencies: []string{metav1.ListMeta{}.OpenAPIModelName()}},
	}, nil
}

func objectSchema(v *crd.Version, prefix string, typeMeta map[string]spec.Schema, v2, defaults bool) (*spec.Schema, error) {
	w := writer{semantics: v.Definition().Semantics(), defaults: defaults}
	s, err := published(v)
	if err != nil {
		return nil, fmt.Errorf("openapi of %s: %w", v.GroupVersionKind(), err)
	}
	var out *spec.Schema
	switch {
	case s == nil, v2 && (s.XPreserveUnknownFields || v.Definition().PreservesUnknownFields()):
		// kubectl assumes that a schema with properties allows no others, so even the
		// fields that every object has are omitted.
		out = &spec.Schema{SchemaProps: spec.SchemaProps{Type: spec.StringOrArray{"object"}}}
	default:
		if v2 {
			s = s.WeakenForOpenAPIV2(w.semantics)
		}
		out = w.structural(s)
		out.SetProperty("metadata", objectMetaRef(prefix))
		out.SetProperty("apiVersion", typeMeta["apiVersion"])
		out.SetProperty("kind", typeMeta["kind"])
		if !w.semantics.UnfoldsAsDocumented() {
			addEmbedded(out, prefix, typeMeta, v2)
		}
	}
	out.AddExtension(gvkExtension, kindList(v.GroupVersionKind()))
	return out, nil
}

func listSchema(r *resource, prefix string, typeMeta map[string]spec.Schema) *spec.Schema {
	items := spec.ArrayProperty(spec.RefSchema(prefix + r.object))
	items.Description = fmt.Sprintf("List of %s. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md", r.plural)
	metadata := spec.RefSchema(prefix + metav1.ListMeta{}.OpenAPIModelName())
	metadata.Description = metav1.PartialObjectMetadataList{}.SwaggerDoc()["metadata"]
	out := &spec.Schema{SchemaProps: spec.SchemaProps{
		Type:        spec.StringOrArray{"object"},
		Description: fmt.Sprintf("%s is a list of %s", r.listKind, r.kind.Kind),
		Required:    []string{"items"},
		Properties: map[string]spec.Schema{
			"apiVersion": typeMeta["apiVersion"],
			"kind":       typeMeta["kind"],
			"items":      *items,
			"metadata":   *metadata,
		},
	}}
	out.AddExtension(gvkExtension, kindList(r.kind.GroupVersion().WithKind(r.listKind)))
	return out
}

// objectMetaRef returns a reference to ObjectMeta.
func objectMetaRef(prefix string) spec.Schema {
	s := spec.RefSchema(prefix + metav1.ObjectMeta{}.OpenAPIModelName())
	s.Description = metav1.PartialObjectMetadata{}.SwaggerDoc()["metadata"]
	return *s
}

// selectableFields returns the selectable fields as the value of the extension that
// clients read, or nil.
func selectableFields(v *crd.Version) []any {
	var out []any
	for _, f := range v.Spec().SelectableFields {
		out = append(out, map[string]any{"fieldPath": strings.TrimPrefix(f.JSONPath, ".")})
	}
	return out
}

// addEmbedded adds the fields that every resource has to embedded resources, as
// kube-apiserver does: it replaces those of the author, and skips logical operators.
func addEmbedded(s *spec.Schema, prefix string, typeMeta map[string]spec.Schema, v2 bool) {
	if s == nil {
		return
	}
	for name, prop := range s.Properties {
		addEmbedded(&prop, prefix, typeMeta, v2)
		s.Properties[name] = prop
	}
	if s.Items != nil {
		addEmbedded(s.Items.Schema, prefix, typeMeta, v2)
	}
	if s.AdditionalProperties != nil {
		addEmbedded(s.AdditionalProperties.Schema, prefix, typeMeta, v2)
	}
	has := func(extension string) bool {
		set, _ := s.Extensions.GetBool(extension)
		return set
	}
	if !has("x-kubernetes-embedded-resource") || v2 && has("x-kubernetes-preserve-unknown-fields") {
		return
	}
	described := func(name, description string) spec.Schema {
		field := typeMeta[name]
		field.Description = description
		return field
	}
	s.SetProperty("apiVersion",
		described("apiVersion",
			"apiVersion defines the versioned schema of this representation of an object. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources"))
	s.SetProperty("kind", described("kind",
		"kind is a string value representing the type of this object. In CamelCase. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds"))
	s.SetProperty("metadata", objectMetaRef(prefix))
	for _, name := range []string{"kind", "apiVersion"} {
		if !slices.Contains(s.Required, name) {
			s.Required = append(s.Required, name)
		}
	}
}
