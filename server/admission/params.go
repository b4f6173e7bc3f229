package admission

import (
	"context"
	"fmt"
	"sync"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"espalier.dev/crd"
	"espalier.dev/kinds"
	"espalier.dev/server/fields"
)

// readTimeout limits the reading of parameters.
const readTimeout = 10 * time.Second

// params are the objects of a kind that are parameters of a policy. They have the interface of
// an informer, but read the store.
type params struct {
	*Config
	kind     runtimeschema.GroupVersionKind
	resource runtimeschema.GroupResource
	// version is that of the CRD, or nil for one of Kubernetes' own kinds.
	version    *crd.Version
	namespaced bool
}

var _ informers.GenericInformer = &params{}

// params returns the parameters of a kind.
func (c *Config) params(kind *admissionregistrationv1.ParamKind) (*params, error) {
	gvk := runtimeschema.FromAPIVersionAndKind(kind.APIVersion, kind.Kind)
	for _, r := range kinds.Resources() {
		if r.GroupVersionKind() == gvk && r.Stored.Kind == "" {
			return &params{Config: c, kind: gvk, resource: r.GroupResource(), namespaced: r.Namespaced}, nil
		}
	}
	if v := c.Catalog().Kind(gvk); v != nil {
		return &params{Config: c, kind: gvk, resource: v.Definition().GroupResource(), version: v, namespaced: v.Definition().Namespaced()}, nil
	}
	return nil, fmt.Errorf("failed to find resource referenced by paramKind: '%v'", gvk)
}

func (p *params) scope() meta.RESTScope {
	if p.namespaced {
		return meta.RESTScopeNamespace
	}
	return meta.RESTScopeRoot
}

// Informer returns an informer that is always synced.
func (p *params) Informer() cache.SharedIndexInformer { return synced{} }

// Lister reads the objects.
func (p *params) Lister() cache.GenericLister { return paramLister{p, ""} }

// paramLister reads the objects of a namespace, or of all.
type paramLister struct {
	*params
	namespace string
}

func (l paramLister) ByNamespace(name string) cache.GenericNamespaceLister {
	return paramLister{l.params, name}
}

func (l paramLister) Get(name string) (runtime.Object, error) {
	ctx, cancel := context.WithTimeout(apirequest.WithNamespace(context.Background(), l.namespace), readTimeout)
	defer cancel()
	if l.version == nil {
		obj, err := l.Kinds.Get(ctx, l.resource, l.namespace, name)
		return l.labelled(obj), err
	}
	var obj runtime.Object
	err := l.use(func(s rest.StandardStorage) (err error) {
		// What is in memory will do. An object that is not there may be new.
		if obj, err = s.Get(ctx, name, &metav1.GetOptions{ResourceVersion: "0"}); apierrors.IsNotFound(err) {
			obj, err = s.Get(ctx, name, &metav1.GetOptions{})
		}
		return err
	})
	return obj, err
}

func (l paramLister) List(selector labels.Selector) (all []runtime.Object, err error) {
	ctx, cancel := context.WithTimeout(apirequest.WithNamespace(context.Background(), l.namespace), readTimeout)
	defer cancel()
	if l.version == nil {
		list, err := l.Kinds.List(ctx, l.resource, l.namespace)
		for _, obj := range list {
			if m, ok := obj.(metav1.Object); ok && selector.Matches(labels.Set(m.GetLabels())) {
				all = append(all, l.labelled(obj))
			}
		}
		return all, err
	}
	err = l.use(func(s rest.StandardStorage) error {
		list, err := s.List(ctx, &metainternalversion.ListOptions{LabelSelector: selector, ResourceVersion: "0"})
		if err != nil {
			return err
		}
		return meta.EachListItem(list, func(obj runtime.Object) error {
			all = append(all, obj)
			return nil
		})
	})
	return all, err
}

// labelled sets the apiVersion and kind of an object, which was decoded for this request.
func (l paramLister) labelled(obj runtime.Object) runtime.Object {
	if obj != nil {
		obj.GetObjectKind().SetGroupVersionKind(l.kind)
	}
	return obj
}

// use calls f with the storage of the custom resources.
func (l paramLister) use(f func(rest.StandardStorage) error) error {
	s, release, err := l.Storage(l.version.Definition(), l.version.Name())
	if err != nil {
		return err
	}
	defer release()
	return f(s)
}

// typeConverters has the types that mutating policies merge by.
type typeConverters struct {
	*Dynamic
	mu sync.Mutex
	// custom has those of custom resources, as long as their CRD does not change.
	custom map[string]customTypes
}

type customTypes struct {
	definition *crd.Definition
	types      *fields.Types
}

var _ patch.TypeConverterManager = &typeConverters{}

// Run does nothing: the types are always up to date.
func (c *typeConverters) Run(context.Context) {}

// GetTypeConverter returns the types of a kind, or nil if there is no such kind.
func (c *typeConverters) GetTypeConverter(gvk runtimeschema.GroupVersionKind) managedfields.TypeConverter {
	var d *crd.Definition
	if v := c.config.Catalog().Kind(gvk); v != nil {
		d = v.Definition()
	} else if gvk.Group == c.config.Definition.Group() {
		d = c.config.Definition
	}
	if d == nil {
		types, err := c.config.Kinds.Types(gvk.Group)
		if err != nil {
			return nil
		}
		return types
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	known, ok := c.custom[d.Name()]
	if !ok || known.definition != d {
		if c.custom == nil {
			c.custom = map[string]customTypes{}
		}
		known = customTypes{d, fields.NewTypes(d)}
		c.custom[d.Name()] = known
	}
	return known.types
}
