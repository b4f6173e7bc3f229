package policies

import (
	"context"
	"fmt"
	"sync"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"espalier.dev/crd"
	"espalier.dev/kinds"
	"espalier.dev/server/fields"
)

// Params are the objects of a kind that are parameters of a policy. They have the interface of an
// informer, but read a ParamReader.
type Params struct {
	Kind     runtimeschema.GroupVersionKind
	Resource runtimeschema.GroupResource
	// Version is that of the CRD, or nil for one of Kubernetes' own kinds.
	Version    *crd.Version
	Namespaced bool

	reader ParamReader
}

// ParamReader reads the objects of a kind that are parameters.
type ParamReader interface {
	Get(p *Params, namespace, name string) (runtime.Object, error)
	List(p *Params, namespace string, selector labels.Selector) ([]runtime.Object, error)
}

var _ informers.GenericInformer = &Params{}

// NewParams returns the parameters of a kind. version returns the version of a CRD that has a kind,
// or nil.
func NewParams(kind *admissionregistrationv1.ParamKind, version func(runtimeschema.GroupVersionKind) *crd.Version, r ParamReader) (*Params, error) {
	gvk := runtimeschema.FromAPIVersionAndKind(kind.APIVersion, kind.Kind)
	for _, b := range kinds.Resources() {
		if b.GroupVersionKind() == gvk && b.Stored.Kind == "" {
			return &Params{Kind: gvk, Resource: b.GroupResource(), Namespaced: b.Namespaced, reader: r}, nil
		}
	}
	if v := version(gvk); v != nil {
		return &Params{Kind: gvk, Resource: v.Definition().GroupResource(), Version: v, Namespaced: v.Definition().Namespaced(), reader: r}, nil
	}
	return nil, fmt.Errorf("failed to find resource referenced by paramKind: '%v'", gvk)
}

func (p *Params) scope() meta.RESTScope {
	if p.Namespaced {
		return meta.RESTScopeNamespace
	}
	return meta.RESTScopeRoot
}

// Informer returns an informer that is always synced.
func (p *Params) Informer() cache.SharedIndexInformer { return synced{} }

// Lister reads the objects.
func (p *Params) Lister() cache.GenericLister { return paramLister{p, ""} }

// paramLister reads the objects of a namespace, or of all.
type paramLister struct {
	*Params
	namespace string
}

func (l paramLister) ByNamespace(name string) cache.GenericNamespaceLister {
	return paramLister{l.Params, name}
}

func (l paramLister) Get(name string) (runtime.Object, error) {
	return l.reader.Get(l.Params, l.namespace, name)
}

func (l paramLister) List(selector labels.Selector) ([]runtime.Object, error) {
	return l.reader.List(l.Params, l.namespace, selector)
}

// Types has the types that mutating policies merge by.
type Types struct {
	// Definition returns the CRD of a kind, or nil.
	Definition func(runtimeschema.GroupVersionKind) *crd.Definition
	// Builtin returns the types of Kubernetes' own kinds of a group.
	Builtin func(group string) (managedfields.TypeConverter, error)

	mu sync.Mutex
	// custom has those of custom resources, as long as their CRD does not change.
	custom map[string]customTypes
}

type customTypes struct {
	definition *crd.Definition
	types      *fields.Types
}

var _ patch.TypeConverterManager = &Types{}

// Run does nothing: the types are always up to date.
func (t *Types) Run(context.Context) {}

// GetTypeConverter returns the types of a kind, or nil if there is no such kind.
func (t *Types) GetTypeConverter(gvk runtimeschema.GroupVersionKind) managedfields.TypeConverter {
	d := t.Definition(gvk)
	if d == nil {
		types, err := t.Builtin(gvk.Group)
		if err != nil {
			return nil
		}
		return types
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	known, ok := t.custom[d.Name()]
	if !ok || known.definition != d {
		if t.custom == nil {
			t.custom = map[string]customTypes{}
		}
		known = customTypes{d, fields.NewTypes(d)}
		t.custom[d.Name()] = known
	}
	return known.types
}
