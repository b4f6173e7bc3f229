package resources

import (
	"context"
	"fmt"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"espalier.dev/api"
	"espalier.dev/crd"
	"espalier.dev/server/resource"
)

// unsetReplicas stands for a missing number of replicas while a client's patch is applied, so
// that a patch that does not set it is detected.
const unsetReplicas = -1 << 31

// scaleREST is the scale endpoint: it presents an object as an autoscaling/v1 Scale.
type scaleREST struct {
	store *registry.Store
	paths scalePaths
	// owned maps, for each version, the ownership of replicas to the field of the object.
	owned managedfields.ResourcePathMappings
	gv    runtimeschema.GroupVersion
}

var _ rest.Patcher = &scaleREST{}
var _ rest.GroupVersionKindProvider = &scaleREST{}

// scalePaths are the paths of the fields of a Scale.
type scalePaths struct {
	specReplicas, statusReplicas, selector []string
}

func newScalePaths(s *api.CustomResourceSubresourceScale) scalePaths {
	p := scalePaths{specReplicas: fieldNames(s.SpecReplicasPath), statusReplicas: fieldNames(s.StatusReplicasPath)}
	if s.LabelSelectorPath != nil && *s.LabelSelectorPath != "" {
		p.selector = fieldNames(*s.LabelSelectorPath)
	}
	return p
}

func fieldNames(path string) []string {
	return strings.Split(strings.TrimPrefix(path, "."), ".")
}

// scaleOwnership maps the field of replicas for every version of a CRD.
func scaleOwnership(d *crd.Definition) managedfields.ResourcePathMappings {
	m := managedfields.ResourcePathMappings{}
	for _, v := range d.Versions() {
		var path fieldpath.Path
		if s := v.Spec().Subresources; s != nil && s.Scale != nil {
			for _, name := range fieldNames(s.Scale.SpecReplicasPath) {
				path = append(path, fieldpath.PathElement{FieldName: &name})
			}
		}
		m[v.GroupVersionKind().GroupVersion().String()] = path
	}
	return m
}

// scaleOf returns an object as a Scale, and reports whether it has a number of replicas.
func (p scalePaths) scaleOf(obj runtime.Object) (*autoscalingv1.Scale, bool, error) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return nil, false, fmt.Errorf("%T cannot be scaled", obj)
	}
	want, found, err := unstructured.NestedInt64(u.Object, p.specReplicas...)
	if err != nil {
		return nil, false, err
	}
	have, _, err := unstructured.NestedInt64(u.Object, p.statusReplicas...)
	if err != nil {
		return nil, false, err
	}
	var selector string
	if p.selector != nil {
		if selector, _, err = unstructured.NestedString(u.Object, p.selector...); err != nil {
			return nil, false, err
		}
	}
	gvk := resource.ScaleKind()
	return &autoscalingv1.Scale{
		TypeMeta: metav1.TypeMeta{APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind},
		ObjectMeta: metav1.ObjectMeta{
			Name: u.GetName(), Namespace: u.GetNamespace(), UID: u.GetUID(),
			ResourceVersion: u.GetResourceVersion(), CreationTimestamp: u.GetCreationTimestamp(),
		},
		Spec:   autoscalingv1.ScaleSpec{Replicas: int32(want)},
		Status: autoscalingv1.ScaleStatus{Replicas: int32(have), Selector: selector},
	}, found, nil
}

func (r *scaleREST) New() runtime.Object { return &autoscalingv1.Scale{} }

// Destroy does nothing: the store belongs to the main endpoint.
func (r *scaleREST) Destroy() {}

func (r *scaleREST) GroupVersionKind(runtimeschema.GroupVersion) runtimeschema.GroupVersionKind {
	return resource.ScaleKind()
}

func (r *scaleREST) Get(ctx context.Context, name string, o *metav1.GetOptions) (runtime.Object, error) {
	obj, err := r.store.Get(ctx, name, o)
	if err != nil {
		return nil, err
	}
	scale, found, err := r.paths.scaleOf(obj)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, apierrors.NewInternalError(fmt.Errorf("the spec replicas field %q does not exist", "."+strings.Join(r.paths.specReplicas, ".")))
	}
	return scale, nil
}

func (r *scaleREST) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc, update rest.ValidateObjectUpdateFunc, _ bool, o *metav1.UpdateOptions) (runtime.Object, bool, error) {
	obj, _, err := r.store.Update(ctx, name, &scaleUpdate{UpdatedObjectInfo: info, rest: r},
		func(ctx context.Context, obj runtime.Object) error {
			scale, _, err := r.paths.scaleOf(obj)
			if err != nil {
				return err
			}
			return create(ctx, scale)
		},
		func(ctx context.Context, obj, old runtime.Object) error {
			scale, _, err := r.paths.scaleOf(obj)
			if err != nil {
				return err
			}
			before, _, err := r.paths.scaleOf(old)
			if err != nil {
				return err
			}
			return update(ctx, scale, before)
		}, false, o)
	if err != nil {
		return nil, false, err
	}
	scale, _, err := r.paths.scaleOf(obj)
	if err != nil {
		return nil, false, apierrors.NewBadRequest(err.Error())
	}
	return scale, false, nil
}

// scaleUpdate applies a client's change of the Scale to the object.
type scaleUpdate struct {
	rest.UpdatedObjectInfo
	rest *scaleREST
}

func (s *scaleUpdate) UpdatedObject(ctx context.Context, old runtime.Object) (runtime.Object, error) {
	obj := old.DeepCopyObject().(*unstructured.Unstructured)
	scale, found, err := s.rest.paths.scaleOf(obj)
	if err != nil {
		return nil, err
	}
	if !found {
		scale.Spec.Replicas = unsetReplicas
	}
	owners := managedfields.NewScaleHandler(obj.GetManagedFields(), s.rest.gv, s.rest.owned)
	if scale.ManagedFields, err = owners.ToSubresource(); err != nil {
		return nil, err
	}
	changed, err := s.UpdatedObjectInfo.UpdatedObject(ctx, scale)
	if err != nil {
		return nil, err
	}
	scale, ok := changed.(*autoscalingv1.Scale)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("wrong object passed to Scale update: %T", changed))
	}
	if scale.Spec.Replicas == unsetReplicas {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the spec replicas field %q cannot be empty", "."+strings.Join(s.rest.paths.specReplicas, ".")))
	}
	if err := unstructured.SetNestedField(obj.Object, int64(scale.Spec.Replicas), s.rest.paths.specReplicas...); err != nil {
		return nil, err
	}
	if scale.ResourceVersion != "" {
		obj.SetResourceVersion(scale.ResourceVersion)
	}
	entries, err := owners.ToParent(scale.ManagedFields)
	if err != nil {
		return nil, err
	}
	obj.SetManagedFields(entries)
	return obj, nil
}

// statusREST is the status endpoint. It shares its store with the main endpoint.
type statusREST struct{ store *registry.Store }

var _ rest.Patcher = &statusREST{}

func (r *statusREST) New() runtime.Object { return r.store.New() }

// Destroy does nothing: the store belongs to the main endpoint.
func (r *statusREST) Destroy() {}

func (r *statusREST) Get(ctx context.Context, name string, o *metav1.GetOptions) (runtime.Object, error) {
	return r.store.Get(ctx, name, o)
}

func (r *statusREST) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc, update rest.ValidateObjectUpdateFunc, _ bool, o *metav1.UpdateOptions) (runtime.Object, bool, error) {
	return r.store.Update(ctx, name, info, create, update, false, o)
}

func (r *statusREST) ConvertToTable(ctx context.Context, obj, options runtime.Object) (*metav1.Table, error) {
	return r.store.ConvertToTable(ctx, obj, options)
}
