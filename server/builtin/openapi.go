package builtin

import (
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"espalier.dev/kinds"
	"espalier.dev/openapi"
	"espalier.dev/server/served"
)

// OpenAPI describes the resource for OpenAPI. The scheme has the Go types of its kinds.
// Subresources that need a kubelet are left out: the server has none.
func OpenAPI(r *kinds.Resource, scheme *runtime.Scheme) (*openapi.Kind, error) {
	gvk := r.GroupVersionKind()
	k := &openapi.Kind{GroupVersionKind: gvk, Plural: r.Plural, Namespaced: r.Namespaced, Verbs: r.Verbs(), DeletesObject: r.ReturnsDeleted}
	typeOf := func(kind runtimeschema.GroupVersionKind) (reflect.Type, error) {
		obj, err := scheme.New(kind)
		if err != nil {
			return nil, fmt.Errorf("openapi of %s: %w", gvk, err)
		}
		return reflect.TypeOf(obj).Elem(), nil
	}
	var err error
	if k.Object, err = typeOf(gvk); err != nil {
		return nil, err
	}
	if !r.CreateOnly {
		if k.List, err = typeOf(gvk.GroupVersion().WithKind(gvk.Kind + "List")); err != nil {
			return nil, err
		}
	}
	for _, s := range r.Subresources {
		if s.Name == "log" || strings.HasSuffix(s.Kind.Kind, "Options") {
			continue
		}
		sub := openapi.Subresource{Name: s.Name, Kind: s.Kind, Verbs: s.Verbs}
		if s.Kind.Kind == "" {
			sub.Kind = gvk
		}
		if sub.Object, err = typeOf(sub.Kind); err != nil {
			return nil, err
		}
		k.Subresources = append(k.Subresources, sub)
	}
	return k, nil
}

// openAPI builds the documents of a resource.
func (h *Handler) openAPI(r *kinds.Resource) served.OpenAPI {
	kind := func() (*openapi.Kind, error) {
		t, err := h.types()
		if err != nil {
			return nil, err
		}
		return OpenAPI(r, t.Scheme)
	}
	return served.OpenAPI{
		GoTypes: true,
		V2: func(b *openapi.Builder) (*spec.Swagger, error) {
			k, err := kind()
			if err != nil {
				return nil, err
			}
			return b.KindV2(k)
		},
		V3: func(b *openapi.Builder) (*spec3.OpenAPI, error) {
			k, err := kind()
			if err != nil {
				return nil, err
			}
			return b.KindV3(k)
		},
	}
}
