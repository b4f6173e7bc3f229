package rest

import (
	"context"
	"fmt"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"

	"espalier.dev/server/served"
)

// UnsetReplicas stands for a missing number of replicas while a client's patch is applied, so
// that a patch that does not set it is detected.
const UnsetReplicas = -1 << 31

// Scaler reads and sets what a Scale shows of the objects of a kind.
type Scaler interface {
	// Scale returns an object as a Scale, and reports whether it has a number of replicas.
	Scale(obj runtime.Object) (scale *autoscalingv1.Scale, found bool, err error)
	// NoReplicas returns the error for an object without a number of replicas.
	NoReplicas() error
	// SetScale sets the number of replicas of an object to that of the Scale that a client has sent.
	SetScale(obj runtime.Object, sent *autoscalingv1.Scale) error
}

// NewScale returns the Scale of an object.
func NewScale(of metav1.Object, replicas, have int32, selector string) *autoscalingv1.Scale {
	gvk := served.ScaleKind()
	return &autoscalingv1.Scale{
		TypeMeta: metav1.TypeMeta{APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind},
		ObjectMeta: metav1.ObjectMeta{
			Name: of.GetName(), Namespace: of.GetNamespace(), UID: of.GetUID(),
			ResourceVersion: of.GetResourceVersion(), CreationTimestamp: of.GetCreationTimestamp(),
		},
		Spec:   autoscalingv1.ScaleSpec{Replicas: replicas},
		Status: autoscalingv1.ScaleStatus{Replicas: have, Selector: selector},
	}
}

// Scale is the endpoint of the subresource scale: it presents an object as an autoscaling/v1 Scale.
type Scale struct {
	Scaler
	Store *registry.Store
	// Version is that of the objects. Owned maps, for each version, the ownership of replicas to
	// the field of the object.
	Version runtimeschema.GroupVersion
	Owned   managedfields.ResourcePathMappings
	// WrongKind is the error for what a client sends instead of a Scale, before its type.
	WrongKind string
}

var _ rest.Patcher = &Scale{}

// New returns an empty Scale.
func (s *Scale) New() runtime.Object { return &autoscalingv1.Scale{} }

// Destroy does nothing: the store belongs to the main endpoint.
func (s *Scale) Destroy() {}

// Get returns the Scale of an object.
func (s *Scale) Get(ctx context.Context, name string, o *metav1.GetOptions) (runtime.Object, error) {
	obj, err := s.Store.Get(ctx, name, o)
	if err != nil {
		return nil, err
	}
	scale, found, err := s.Scale(obj)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, s.NoReplicas()
	}
	return scale, nil
}

// Update changes the number of replicas. An update creates no object of a kind that has a Scale.
func (s *Scale) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, _ rest.ValidateObjectFunc,
	update rest.ValidateObjectUpdateFunc, _ bool, o *metav1.UpdateOptions) (runtime.Object, bool, error) {
	obj, _, err := s.Store.Update(ctx, name, &scaleUpdate{info, s}, rest.ValidateAllObjectFunc,
		func(ctx context.Context, obj, old runtime.Object) error {
			scale, _, err := s.Scale(obj)
			if err != nil {
				return err
			}
			before, _, err := s.Scale(old)
			if err != nil {
				return err
			}
			return update(ctx, scale, before)
		}, false, o)
	if err != nil {
		return nil, false, err
	}
	scale, _, err := s.Scale(obj)
	if err != nil {
		return nil, false, apierrors.NewBadRequest(err.Error())
	}
	return scale, false, nil
}

// scaleUpdate applies a client's change of the Scale to the object.
type scaleUpdate struct {
	rest.UpdatedObjectInfo
	endpoint *Scale
}

// UpdatedObject returns the changed object.
func (u *scaleUpdate) UpdatedObject(ctx context.Context, old runtime.Object) (runtime.Object, error) {
	obj := old.DeepCopyObject()
	scale, found, err := u.endpoint.Scale(obj)
	if err != nil {
		return nil, err
	}
	if !found {
		scale.Spec.Replicas = UnsetReplicas
	}
	m := obj.(metav1.Object) // it has a Scale
	owners := managedfields.NewScaleHandler(m.GetManagedFields(), u.endpoint.Version, u.endpoint.Owned)
	if scale.ManagedFields, err = owners.ToSubresource(); err != nil {
		return nil, err
	}
	sent, err := u.UpdatedObjectInfo.UpdatedObject(ctx, scale)
	if err != nil {
		return nil, err
	}
	scale, ok := sent.(*autoscalingv1.Scale)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("%s%T", u.endpoint.WrongKind, sent))
	}
	if err := u.endpoint.SetScale(obj, scale); err != nil {
		return nil, err
	}
	if scale.ResourceVersion != "" {
		m.SetResourceVersion(scale.ResourceVersion)
	}
	entries, err := owners.ToParent(scale.ManagedFields)
	if err != nil {
		return nil, err
	}
	m.SetManagedFields(entries)
	return obj, nil
}
