package quota

import (
	"context"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"espalier.dev/server/keys"
	"espalier.dev/store"
)

// Stored has the stored quotas and objects of a server.
type Stored struct {
	// Store has all objects in memory, and Kinds has Kubernetes' own kinds.
	Store *store.Store
	Kinds Kinds
	// Charges are shared by admission and the controller.
	Charges *Charges
}

// Kinds has the stored objects of Kubernetes' own kinds.
type Kinds interface {
	// Has reports whether there is such a resource.
	Has(schema.GroupResource) bool
	Get(ctx context.Context, r schema.GroupResource, namespace, name string) (runtime.Object, error)
	List(ctx context.Context, r schema.GroupResource, namespace string) ([]runtime.Object, error)
	// Subresource returns a subresource that updates objects.
	Subresource(r schema.GroupVersionResource, name string) (rest.Patcher, error)
}

// Config returns a configuration of [NewAdmission]. keep is set if a controller runs.
func (s *Stored) Config(keep bool) Config {
	return Config{Quotas: s, Objects: s.Objects, Charges: s.Charges, Keep: keep, Key: s.Key}
}

var (
	_       Quotas = &Stored{}
	quotas         = schema.GroupResource{Resource: "resourcequotas"}
	version        = corev1.SchemeGroupVersion.WithResource("resourcequotas")
)

// List implements Quotas.
func (s *Stored) List(ctx context.Context, namespace string) (all []corev1.ResourceQuota, err error) {
	objects, err := s.Kinds.List(ctx, quotas, namespace)
	for _, obj := range objects {
		if q, ok := obj.(*corev1.ResourceQuota); ok {
			all = append(all, *q)
		}
	}
	return all, err
}

// Sync implements Quotas.
func (s *Stored) Sync(ctx context.Context) error {
	_, err := s.Store.Sync(ctx)
	return err
}

func (s *Stored) get(ctx context.Context, namespace, name string) (*corev1.ResourceQuota, error) {
	obj, err := s.Kinds.Get(ctx, quotas, namespace, name)
	if err != nil {
		return nil, err
	}
	return as[*corev1.ResourceQuota](obj)
}

// WriteStatus implements Quotas. It returns when List has what was written.
func (s *Stored) WriteStatus(ctx context.Context, q *corev1.ResourceQuota) error {
	status, err := s.Kinds.Subresource(version, "status")
	if err != nil {
		return err
	}
	ctx = apirequest.WithNamespace(ctx, q.Namespace)
	obj, _, err := status.Update(ctx, q.Name, rest.DefaultUpdatedObjectInfo(q), rest.ValidateAllObjectFunc,
		rest.ValidateAllObjectUpdateFunc, false, &metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	written, err := as[*corev1.ResourceQuota](obj)
	if err != nil {
		return err
	}
	revision, err := strconv.ParseInt(written.ResourceVersion, 10, 64)
	if err != nil {
		return fmt.Errorf("the resource version of a stored quota: %w", err)
	}
	// It is written, whatever happens here: then the next write has a conflict.
	_ = s.Store.Await(ctx, revision)
	return nil
}

// Objects returns stored objects of Kubernetes' own kinds. It is a [List].
func (s *Stored) Objects(r schema.GroupResource, namespace string) ([]runtime.Object, error) {
	return s.Kinds.List(context.Background(), r, namespace)
}

// Count counts stored objects of any resource. It is a [Count].
func (s *Stored) Count(r schema.GroupResource, namespace string) (int64, error) {
	return s.Store.Snapshot().Count(s.prefix(r).In(namespace), ""), nil
}

// Key returns the key by which an object is stored.
func (s *Stored) Key(r schema.GroupResource, namespace, name string) string {
	return s.prefix(r).Key(namespace, name)
}

// prefix returns the prefix of the keys of a resource.
func (s *Stored) prefix(r schema.GroupResource) keys.Prefix {
	root := keys.Root(s.Store.Prefix())
	if s.Kinds.Has(r) {
		return root.Builtin(r)
	}
	return root.Custom(r)
}
