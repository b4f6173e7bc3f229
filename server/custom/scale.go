package custom

import (
	"fmt"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"espalier.dev/api"
	"espalier.dev/crd"
	serverrest "espalier.dev/server/rest"
)

// newScale returns the endpoint of the subresource scale of a version.
func newScale(store *registry.Store, v *crd.Version, sub *api.CustomResourceSubresourceScale) *serverrest.Scale {
	return &serverrest.Scale{
		Scaler: newScalePaths(sub), Store: store, Version: v.GroupVersionKind().GroupVersion(), Owned: scaleOwnership(v.Definition()),
		WrongKind: "wrong object passed to Scale update: ",
	}
}

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

// Scale returns an object as a Scale, and reports whether it has a number of replicas.
func (p scalePaths) Scale(obj runtime.Object) (*autoscalingv1.Scale, bool, error) {
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
	return serverrest.NewScale(u, int32(want), int32(have), selector), found, nil
}

// NoReplicas returns the error for an object without a number of replicas.
func (p scalePaths) NoReplicas() error {
	return apierrors.NewInternalError(fmt.Errorf("the spec replicas field %q does not exist", "."+strings.Join(p.specReplicas, ".")))
}

// SetScale sets the number of replicas of an object.
func (p scalePaths) SetScale(obj runtime.Object, sent *autoscalingv1.Scale) error {
	if sent.Spec.Replicas == serverrest.UnsetReplicas {
		return apierrors.NewBadRequest(fmt.Sprintf("the spec replicas field %q cannot be empty", "."+strings.Join(p.specReplicas, ".")))
	}
	return unstructured.SetNestedField(obj.(*unstructured.Unstructured).Object, int64(sent.Spec.Replicas), p.specReplicas...)
}
