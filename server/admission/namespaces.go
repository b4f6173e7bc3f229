package admission

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	"espalier.dev/policies"
	"espalier.dev/server/keys"
)

// namespaceReader reads namespaces from the store.
type namespaceReader struct{ *Dynamic }

var _ policies.Namespaces = &namespaceReader{}

func (r *namespaceReader) Get(name string) (*corev1.Namespace, error) {
	entry := r.config.Store.Get(keys.Root(r.config.Store.Prefix()).Namespaces().Key("", name))
	if entry == nil {
		return nil, apierrors.NewNotFound(policies.NamespaceResource(), name)
	}
	return asNamespace(r.config.Kinds.Decode(policies.NamespaceResource(), entry))
}

func (r *namespaceReader) Read(ctx context.Context, name string) (*corev1.Namespace, error) {
	return asNamespace(r.config.Kinds.Get(ctx, policies.NamespaceResource(), "", name))
}

// asNamespace returns an object as a namespace.
func asNamespace(obj runtime.Object, err error) (*corev1.Namespace, error) {
	if err != nil {
		return nil, err
	}
	ns, ok := obj.(*corev1.Namespace)
	if !ok {
		return nil, fmt.Errorf("%T is not a namespace", obj)
	}
	return ns, nil
}
