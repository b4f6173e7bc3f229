package openapi

import (
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// Kind is one version of a resource whose objects have Go types of Kubernetes.
type Kind struct {
	runtimeschema.GroupVersionKind
	Plural     string
	Namespaced bool
	// Object and List are the Go types of objects and lists. List is nil if there are no lists.
	Object, List reflect.Type
	// Verbs are the verbs of the resource, as in discovery.
	Verbs []string
	// DeletesObject is set if a delete returns the object, not a status.
	DeletesObject bool
	Subresources  []Subresource
}

// Subresource is an endpoint below an object.
type Subresource struct {
	Name string
	// Kind and Object are the kind and the Go type that are read and written there.
	Kind   runtimeschema.GroupVersionKind
	Object reflect.Type
	Verbs  []string
}

// KindV3 returns the OpenAPI v3 document of a kind. All kinds share their definitions, which
// are made when they are needed first.
func (b *Builder) KindV3(k *Kind) (*spec3.OpenAPI, error) {
	routes, definitions, err := b.builtinV3.describe(k)
	if err != nil {
		return nil, err
	}
	return b.docV3(k.GroupVersionKind, routes, definitions)
}

// KindV2 returns the same in OpenAPI v2.
func (b *Builder) KindV2(k *Kind) (*spec.Swagger, error) {
	routes, definitions, err := b.builtinV2.describe(k)
	if err != nil {
		return nil, err
	}
	return b.docV2(k.GroupVersionKind, routes, definitions)
}

// describe returns the routes of a kind and the definitions that they need.
func (l *library) describe(k *Kind) (routes, map[string]common.OpenAPIDefinition, error) {
	used := []reflect.Type{
		reflect.TypeFor[metav1.Status](), reflect.TypeFor[metav1.DeleteOptions](), reflect.TypeFor[metav1.Patch](), k.Object,
	}
	if k.List != nil {
		used = append(used, k.List)
	}
	for _, s := range k.Subresources {
		used = append(used, s.Object)
	}
	definitions, err := l.get(used...)
	if err != nil {
		return nil, nil, err
	}
	return k.routes(), definitions, nil
}
