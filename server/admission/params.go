package admission

import (
	"context"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"espalier.dev/crd"
	"espalier.dev/kinds"
	"espalier.dev/policies"
)

// readTimeout limits the reading of parameters.
const readTimeout = 10 * time.Second

// params returns the parameters of a kind.
func (c *Config) params(kind *admissionregistrationv1.ParamKind) (*policies.Params, error) {
	return policies.NewParams(kind, c.Catalog().Kind, paramReader{c})
}

// paramReader reads parameters from the store.
type paramReader struct{ *Config }

func (r paramReader) Get(p *policies.Params, namespace, name string) (runtime.Object, error) {
	ctx, cancel := context.WithTimeout(apirequest.WithNamespace(context.Background(), namespace), readTimeout)
	defer cancel()
	if p.Version == nil {
		obj, err := r.Kinds.Get(ctx, p.Resource, namespace, name)
		if err != nil {
			return nil, err
		}
		return r.converted(p, obj)
	}
	var obj runtime.Object
	err := r.use(p, func(s rest.StandardStorage) (err error) {
		// What is in memory will do. An object that is not there may be new.
		if obj, err = s.Get(ctx, name, &metav1.GetOptions{ResourceVersion: "0"}); apierrors.IsNotFound(err) {
			obj, err = s.Get(ctx, name, &metav1.GetOptions{})
		}
		return err
	})
	return obj, err
}

func (r paramReader) List(p *policies.Params, namespace string, selector labels.Selector) (all []runtime.Object, err error) {
	ctx, cancel := context.WithTimeout(apirequest.WithNamespace(context.Background(), namespace), readTimeout)
	defer cancel()
	if p.Version == nil {
		list, err := r.Kinds.List(ctx, p.Resource, namespace)
		if err != nil {
			return nil, err
		}
		for _, obj := range list {
			if m, ok := obj.(metav1.Object); ok && selector.Matches(labels.Set(m.GetLabels())) {
				if obj, err = r.converted(p, obj); err != nil {
					return nil, err
				}
				all = append(all, obj)
			}
		}
		return all, nil
	}
	err = r.use(p, func(s rest.StandardStorage) error {
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

// converted converts a stored object, which was decoded for this request, to the kind of the parameters.
func (r paramReader) converted(p *policies.Params, obj runtime.Object) (runtime.Object, error) {
	if kinds.ByKind(p.Kind).Stored.Kind != "" {
		var err error
		if obj, err = r.Kinds.Convert(obj, p.Kind.GroupVersion()); err != nil {
			return nil, err
		}
	}
	obj.GetObjectKind().SetGroupVersionKind(p.Kind)
	return obj, nil
}

// use calls f with the storage of the custom resources.
func (r paramReader) use(p *policies.Params, f func(rest.StandardStorage) error) error {
	s, release, err := r.Storage(p.Version.Definition(), p.Version.Name())
	if err != nil {
		return err
	}
	defer release()
	return f(s)
}

// definition returns the CRD of a kind, or nil. CRDs have a description, too.
func (c *Config) definition(gvk runtimeschema.GroupVersionKind) *crd.Definition {
	if v := c.Catalog().Kind(gvk); v != nil {
		return v.Definition()
	}
	if gvk.Group == c.Definition.Group() {
		return c.Definition
	}
	return nil
}
