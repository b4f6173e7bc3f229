package resources

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"

	"espalier.dev/api"
	"espalier.dev/crd"
	"espalier.dev/schema"
)

// Converter turns an object of one version into one of another version of the same
// resource. The result may share parts with obj, which is left alone.
type Converter interface {
	Convert(obj schema.Object, to runtimeschema.GroupVersion) (schema.Object, error)
}

// relabel is the conversion strategy None: versions differ in their name only.
type relabel struct{}

func (relabel) Convert(obj schema.Object, to runtimeschema.GroupVersion) (schema.Object, error) {
	out := maps.Clone(obj)
	out["apiVersion"] = to.String()
	return out, nil
}

// objectConvertor is how k8s.io/apiserver asks for conversion.
type objectConvertor struct {
	definition *crd.Definition
	converter  Converter
	// normalize brings a converted object into the shape of its version.
	normalize func(version string, obj schema.Object) error
}

var _ runtime.ObjectConvertor = &objectConvertor{}

func (c *objectConvertor) convert(obj schema.Object, to runtimeschema.GroupVersion) (schema.Object, error) {
	if obj["apiVersion"] == any(to.String()) {
		return obj, nil
	}
	out, err := c.converter.Convert(obj, to)
	if err != nil {
		return nil, err
	}
	return out, c.normalize(to.Version, out)
}

func (c *objectConvertor) ConvertToVersion(in runtime.Object, target runtime.GroupVersioner) (runtime.Object, error) {
	if _, ok := in.(runtime.Unstructured); !ok {
		return in, nil
	}
	from := in.GetObjectKind().GroupVersionKind()
	to, ok := target.KindForGroupVersionKinds([]runtimeschema.GroupVersionKind{from})
	if !ok {
		return nil, fmt.Errorf("%s cannot be converted to %s", from, target)
	}
	switch in := in.(type) {
	case *unstructured.UnstructuredList:
		for i := range in.Items {
			obj, err := c.convert(in.Items[i].Object, to.GroupVersion())
			if err != nil {
				return nil, err
			}
			in.Items[i].Object = obj
		}
		in.SetAPIVersion(to.GroupVersion().String())
		return in, nil
	case *unstructured.Unstructured:
		obj, err := c.convert(in.Object, to.GroupVersion())
		if err != nil {
			return nil, err
		}
		return &unstructured.Unstructured{Object: obj}, nil
	}
	return in, nil
}

func (c *objectConvertor) Convert(in, out, _ any) error {
	if scale, ok := in.(*autoscalingv1.Scale); ok {
		if into, ok := out.(*autoscalingv1.Scale); ok {
			scale.DeepCopyInto(into)
			return nil
		}
	}
	from, ok := in.(*unstructured.Unstructured)
	into, ok2 := out.(*unstructured.Unstructured)
	if !ok || !ok2 {
		return fmt.Errorf("%T cannot be converted to %T", in, out)
	}
	gv := into.GroupVersionKind().GroupVersion()
	if gv.Empty() {
		gv = from.GroupVersionKind().GroupVersion()
	}
	obj, err := c.convert(from.Object, gv)
	if err != nil {
		return err
	}
	into.Object = obj
	return nil
}

// safeConvertor is an objectConvertor whose results share nothing with what was
// given.
type safeConvertor struct{ *objectConvertor }

func (c safeConvertor) ConvertToVersion(in runtime.Object, target runtime.GroupVersioner) (runtime.Object, error) {
	return c.objectConvertor.ConvertToVersion(in.DeepCopyObject(), target)
}

func (c safeConvertor) Convert(in, out, context any) error {
	if obj, ok := in.(runtime.Object); ok {
		in = obj.DeepCopyObject()
	}
	return c.objectConvertor.Convert(in, out, context)
}

// ConvertFieldLabel says by which fields one can select.
func (c *objectConvertor) ConvertFieldLabel(gvk runtimeschema.GroupVersionKind, label, value string) (string, string, error) {
	switch {
	case label == "metadata.name", label == "metadata.namespace" && c.definition.Namespaced():
		return label, value, nil
	}
	if v := c.definition.Version(gvk.Version); v != nil {
		if slices.ContainsFunc(v.Spec().SelectableFields, func(f api.SelectableField) bool {
			return strings.TrimPrefix(f.JSONPath, ".") == label
		}) {
			return label, value, nil
		}
	}
	return "", "", fmt.Errorf("field label not supported: %s", label)
}
