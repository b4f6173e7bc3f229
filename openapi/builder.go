package openapi

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/builder"
	"k8s.io/kube-openapi/pkg/builder3"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"espalier.dev/crd"
	"espalier.dev/internal/jsonptr"
)

// The paths of definitions in a document.
const (
	prefixV2 = "#/definitions/"
	prefixV3 = "#/components/schemas/"
)

const gvkExtension = "x-kubernetes-group-version-kind"

// Options configures a Builder.
type Options struct {
	// Scheme has the groups and versions in which shared types are used (DeleteOptions,
	// for example, is a kind of every group), and the kinds of the other types. Without
	// it, the definitions of such types list no kinds.
	Scheme *runtime.Scheme
}

// Builder builds OpenAPI documents.
type Builder struct {
	// kinds are the kinds of the types in the scheme, by the names of their
	// definitions.
	kinds map[string]spec.Extensions
	// v2 and v3 are the definitions of the types that all resources share.
	v2, v3 map[string]common.OpenAPIDefinition
	// builtinV2 and builtinV3 have the definitions of Kubernetes' own kinds.
	builtinV2, builtinV3 library
	templates            templates
}

// New returns a Builder.
func New(o Options) *Builder {
	b := &Builder{kinds: map[string]spec.Extensions{}, builtinV2: library{prefix: prefixV2}, builtinV3: library{prefix: prefixV3}}
	if o.Scheme != nil {
		byName := map[string][]runtimeschema.GroupVersionKind{}
		for gvk := range o.Scheme.AllKnownTypes() {
			if name, err := o.Scheme.ToOpenAPIDefinitionName(gvk); err == nil {
				byName[name] = append(byName[name], gvk)
			}
		}
		for name, kinds := range byName {
			slices.SortFunc(kinds, func(a, b runtimeschema.GroupVersionKind) int {
				return cmp.Or(strings.Compare(a.Group, b.Group), strings.Compare(a.Version, b.Version), strings.Compare(a.Kind, b.Kind))
			})
			b.kinds[name] = spec.Extensions{gvkExtension: kindList(kinds...)}
		}
	}
	b.v2, b.v3 = sharedDefinitions(prefixV2), sharedDefinitions(prefixV3)
	return b
}

// kindList returns kinds as the value of an extension.
func kindList(kinds ...runtimeschema.GroupVersionKind) []any {
	list := make([]any, len(kinds))
	for i, k := range kinds {
		list[i] = map[string]any{"group": k.Group, "version": k.Version, "kind": k.Kind}
	}
	return list
}

// sharedDefinitions returns the definitions of the types that all resources share.
func sharedDefinitions(prefix string) map[string]common.OpenAPIDefinition {
	r := metaReflector(refTo(prefix))
	for _, t := range []reflect.Type{
		reflect.TypeFor[metav1.TypeMeta](),
		reflect.TypeFor[metav1.ObjectMeta](),
		reflect.TypeFor[metav1.ListMeta](),
		reflect.TypeFor[metav1.Status](),
		reflect.TypeFor[metav1.DeleteOptions](),
		reflect.TypeFor[metav1.Patch](),
		reflect.TypeFor[autoscalingv1.Scale](),
	} {
		r.add(t)
	}
	return r.definitions
}

// IsShared reports whether a definition in the documents of a version of a CRD is that of a type that all
// CRDs share. It is the same in the documents of all of them, unless a kind has the name of such a type.
func (b *Builder) IsShared(v *crd.Version, name string) bool {
	_, ok := b.v3[name] // v2 has the same types
	gvk := v.GroupVersionKind()
	return ok && name != DefinitionName(gvk) && name != DefinitionName(gvk.GroupVersion().WithKind(v.Definition().Names().ListKind))
}

func refTo(prefix string) common.ReferenceCallback {
	return func(name string) spec.Ref { return spec.MustCreateRef(prefix + jsonptr.Escape(name)) }
}

// V3 returns the OpenAPI v3 document of a version of a CRD.
func (b *Builder) V3(v *crd.Version) (*spec3.OpenAPI, error) {
	r, err := resourceOf(v)
	if err != nil {
		return nil, err
	}
	own, err := b.definitions(v, r, false, true)
	if err != nil {
		return nil, err
	}
	return b.buildV3(r, own)
}

// V2 returns the OpenAPI v2 document of a version of a CRD.
func (b *Builder) V2(v *crd.Version) (*spec.Swagger, error) {
	r, err := resourceOf(v)
	if err != nil {
		return nil, err
	}
	own, err := b.definitions(v, r, true, true)
	if err != nil {
		return nil, err
	}
	return b.buildV2(r, own)
}

func resourceOf(v *crd.Version) (*resource, error) {
	d := v.Definition()
	gvk, names := v.GroupVersionKind(), d.Names()
	// Valid CRDs do not have such names, and references could not contain them.
	for _, name := range []string{gvk.Group, gvk.Version, gvk.Kind, names.ListKind, names.Plural} {
		if strings.ContainsFunc(name, func(r rune) bool {
			return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '.' && r != '-'
		}) {
			return nil, fmt.Errorf("openapi of %s: invalid name %q of a group, version, kind or resource", gvk, name)
		}
	}
	sub := v.Spec().Subresources
	return &resource{
		kind:       gvk,
		plural:     names.Plural,
		listKind:   names.ListKind,
		namespaced: d.Namespaced(),
		status:     sub != nil && sub.Status != nil,
		scale:      sub != nil && sub.Scale != nil,
		object:     DefinitionName(gvk),
		list:       DefinitionName(gvk.GroupVersion().WithKind(names.ListKind)),
	}, nil
}

// DefinitionName returns the name of the definition of a kind, such as
// com.example.stable.v1.CronTab.
func DefinitionName(gvk runtimeschema.GroupVersionKind) string {
	group := strings.Split(gvk.Group, ".")
	slices.Reverse(group)
	return strings.Join(group, ".") + "." + gvk.Version + "." + gvk.Kind
}

func (b *Builder) buildV3(r *resource, own map[string]common.OpenAPIDefinition) (*spec3.OpenAPI, error) {
	return b.docV3(r.kind, r.routes(), b.with(b.v3, own))
}

func (b *Builder) buildV2(r *resource, own map[string]common.OpenAPIDefinition) (*spec.Swagger, error) {
	return b.docV2(r.kind, r.routes(), b.with(b.v2, own))
}

// docV3 returns the document of the routes of a kind.
func (b *Builder) docV3(kind runtimeschema.GroupVersionKind, r routes,
	definitions map[string]common.OpenAPIDefinition) (*spec3.OpenAPI, error) {
	doc, err := builder3.BuildOpenAPISpecFromRoutes([]common.RouteContainer{r}, &common.OpenAPIV3Config{
		Info:                           info(),
		CommonResponses:                map[int]*spec3.Response{401: {ResponseProps: spec3.ResponseProps{Description: "Unauthorized"}}},
		GetOperationIDAndTagsFromRoute: operationID,
		GetDefinitionName:              b.definitionName,
		Definitions:                    definitions,
	})
	if err != nil {
		return nil, fmt.Errorf("openapi v3 of %s: %w", kind, err)
	}
	return doc, nil
}

// docV2 returns the same in OpenAPI v2.
func (b *Builder) docV2(kind runtimeschema.GroupVersionKind, r routes,
	definitions map[string]common.OpenAPIDefinition) (*spec.Swagger, error) {
	doc, err := builder.BuildOpenAPISpecFromRoutes([]common.RouteContainer{r}, &common.Config{
		ProtocolList:                   []string{"https"},
		Info:                           info(),
		CommonResponses:                map[int]spec.Response{401: {ResponseProps: spec.ResponseProps{Description: "Unauthorized"}}},
		GetOperationIDAndTagsFromRoute: operationID,
		GetDefinitionName:              b.definitionName,
		GetDefinitions:                 func(common.ReferenceCallback) map[string]common.OpenAPIDefinition { return definitions },
	})
	if err != nil {
		return nil, fmt.Errorf("openapi v2 of %s: %w", kind, err)
	}
	return doc, nil
}

func info() *spec.Info {
	return &spec.Info{InfoProps: spec.InfoProps{Title: "Kubernetes CRD Swagger", Version: "v0.1.0"}}
}

// definitionName returns the name of a definition, and its kinds as an extension.
func (b *Builder) definitionName(name string) (string, spec.Extensions) {
	return name, b.kinds[name]
}

// with returns the shared definitions and those of a resource. The shared ones are
// copies, which the document may extend.
func (b *Builder) with(shared, own map[string]common.OpenAPIDefinition) map[string]common.OpenAPIDefinition {
	all := make(map[string]common.OpenAPIDefinition, len(shared)+len(own))
	for name, def := range shared {
		def.Schema.Extensions = maps.Clone(def.Schema.Extensions)
		all[name] = def
	}
	maps.Copy(all, own)
	return all
}
