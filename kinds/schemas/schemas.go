// Package schemas describes Kubernetes' own kinds as if CRDs defined them: names, versions and
// schemas. The schemas are those that kube-apiserver publishes, with references resolved.
// Validation does much more than they say.
//
// [All] lists the kinds. The schemas of a kind are made when [Kind.Definition] first needs them.
package schemas

import (
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/common"

	"espalier.dev/api"
	"espalier.dev/crd"
	"espalier.dev/kinds"
	"espalier.dev/openapi"
	"espalier.dev/schema"
)

// Kind is a built-in resource with all of its versions.
type Kind struct {
	Group      string
	Names      api.CustomResourceDefinitionNames
	Namespaced bool
	// Versions are the versions, the preferred one first.
	Versions []Version
	// library has the schemas of all kinds.
	library *library
}

// Version is a version of a built-in resource.
type Version struct {
	Name string
	// Status is set if status is a subresource.
	Status bool
}

// library makes schemas. It is safe for concurrent use.
type library struct {
	types  *openapi.Types
	scheme func() (*runtime.Scheme, error)
}

// All returns the built-in kinds in the order of discovery, and CustomResourceDefinition.
func All() []*Kind {
	l := &library{types: openapi.NewTypes(), scheme: sync.OnceValues(func() (*runtime.Scheme, error) {
		s := runtime.NewScheme()
		return s, kinds.AddToScheme(s)
	})}
	byName := map[runtimeschema.GroupResource]*Kind{}
	var out []*Kind
	for _, r := range kinds.Resources() {
		k := byName[r.GroupResource()]
		if k == nil {
			k = &Kind{Group: r.Group, Namespaced: r.Namespaced, library: l, Names: api.CustomResourceDefinitionNames{
				Plural: r.Plural, Singular: r.Singular, Kind: r.Kind, ListKind: r.Kind + "List",
				ShortNames: r.ShortNames, Categories: r.Categories,
			}}
			byName[r.GroupResource()] = k
			out = append(out, k)
		}
		hasStatus := slices.ContainsFunc(r.Subresources, func(s kinds.Subresource) bool { return s.Name == "status" })
		k.Versions = append(k.Versions, Version{Name: r.Version, Status: hasStatus})
	}
	return append(out, &Kind{Group: api.GroupName, library: l,
		Versions: []Version{{Name: api.Version, Status: true}}, Names: api.CustomResourceDefinitionNames{
			Plural: "customresourcedefinitions", Singular: "customresourcedefinition", Kind: api.Kind,
			ListKind: api.ListKind, ShortNames: []string{"crd", "crds"},
			Categories: []string{"api-extensions"},
		}})
}

// Called returns the kinds with a name: plural, singular, kind or a short name, in any case.
func Called(name string) (kinds []*Kind) {
	for _, k := range All() {
		if slices.ContainsFunc(k.names(), func(n string) bool { return strings.EqualFold(n, name) }) {
			kinds = append(kinds, k)
		}
	}
	return kinds
}

// Names returns all names that Called knows.
func Names() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, k := range All() {
			for _, n := range k.names() {
				if !yield(n) {
					return
				}
			}
		}
	}
}

func (k *Kind) names() []string {
	return append([]string{k.Names.Plural, k.Names.Singular, k.Names.Kind}, k.Names.ShortNames...)
}

// Name returns the plural and the group, such as deployments.apps. In the core group, it is the
// plural alone.
func (k *Kind) Name() string {
	return runtimeschema.GroupResource{Group: k.Group, Resource: k.Names.Plural}.String()
}

// FullName returns a name that no other resource has, such as deployments.apps or pods.v1.
func (k *Kind) FullName() string {
	if k.Group == "" {
		return k.Names.Plural + "." + k.Versions[0].Name
	}
	return k.Name()
}

// Definition returns a Definition with the schemas of all versions.
func (k *Kind) Definition() (*crd.Definition, error) {
	c := &api.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: k.Name()},
		Spec:       api.CustomResourceDefinitionSpec{Group: k.Group, Scope: api.ClusterScoped, Names: k.Names},
	}
	if k.Namespaced {
		c.Spec.Scope = api.NamespaceScoped
	}
	for i, v := range k.Versions {
		s, err := k.schema(v.Name)
		if err != nil {
			return nil, fmt.Errorf("schema of %s: %w", k.Name(), err)
		}
		version := api.CustomResourceDefinitionVersion{
			Name: v.Name, Served: true, Storage: i == 0, Schema: &api.CustomResourceValidation{OpenAPIV3Schema: s},
		}
		if v.Status {
			version.Subresources = &api.CustomResourceSubresources{Status: &api.CustomResourceSubresourceStatus{}}
		}
		c.Spec.Versions = append(c.Spec.Versions, version)
	}
	return crd.New(c, crd.Options{Semantics: schema.Kubernetes, IgnoreRules: true, Shared: true})
}

// schema returns the schema of a version.
func (k *Kind) schema(version string) (*api.JSONSchemaProps, error) {
	name, definitions, err := k.OpenAPI(version)
	if err != nil {
		return nil, err
	}
	return convert(name, definitions)
}

// OpenAPI returns the definitions of a version and of all types that it refers to, as OpenAPI v3 documents
// have them, and the name of its own definition. References are their names after [openapi.SchemaPrefix].
// Definitions must not be changed.
func (k *Kind) OpenAPI(version string) (name string, definitions map[string]common.OpenAPIDefinition, err error) {
	if k.Group == api.GroupName {
		return k.library.types.CustomResourceDefinition(version)
	}
	scheme, err := k.library.scheme()
	if err != nil {
		return "", nil, err
	}
	obj, err := scheme.New(runtimeschema.GroupVersionKind{Group: k.Group, Version: version, Kind: k.Names.Kind})
	if err != nil {
		return "", nil, err
	}
	return k.library.types.Definitions(reflect.TypeOf(obj).Elem())
}
